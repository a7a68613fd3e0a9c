//! [`Stack`]: a stack whose only port is a TAP or TUN of this machine, or one end of a pair.
//!
//! Called by: `python/wirespeed/_stack.py`, which wraps it; `pair.rs`.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use wirespeed::device::tap::{self, Setup, Tap};
use wirespeed::net::{DriverThread, Net, dns};
use wirespeed::{Cidr, LinkKind, PortConfig, Route, Stack as Core, StackConfig};

use crate::error::{self, raise};
use crate::shared::{Shared, Time};
use crate::wait::{Timeout, wait_polled};
use crate::world::World;

/// A TCP/IP stack inside this process.
#[pyclass(frozen, name = "StackCore", module = "wirespeed._native")]
pub(crate) struct Stack {
    shared: Arc<Shared>,
    addresses: Vec<Cidr>,
    driver: Mutex<Option<DriverThread>>,
}

impl Stack {
    /// A stack that a thread of its own drives.
    pub(crate) fn driven(stack: Core, addresses: Vec<Cidr>) -> PyResult<Stack> {
        let (net, driver) = Net::spawn_thread(stack).map_err(|e| raise(&e))?;
        let shared = Arc::new(Shared::new(net, Time::Real));
        Ok(Stack { shared, addresses, driver: Mutex::new(Some(driver)) })
    }

    /// A stack of a world.
    pub(crate) fn in_world(net: Net, addresses: Vec<Cidr>, world: Py<World>) -> Stack {
        let shared = Arc::new(Shared::new(net, Time::Virtual(world)));
        Stack { shared, addresses, driver: Mutex::new(None) }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }
}

/// 128 bits as the seed of a stack.
pub(crate) fn seed(seed: u128) -> [u64; 2] {
    [(seed >> 64) as u64, seed as u64]
}

fn networks(texts: &[String]) -> PyResult<Vec<Cidr>> {
    let parse = |text: &String| {
        text.parse::<Cidr>().map_err(|_| {
            PyValueError::new_err(format!(
                "'{text}' is not an address with the length of its network, like 192.0.2.1/24"
            ))
        })
    };
    texts.iter().map(parse).collect()
}

fn address(text: &str) -> PyResult<IpAddr> {
    let refused = |_| PyValueError::new_err(format!("'{text}' is not an address"));
    text.parse().map_err(refused)
}

fn refused(error: &tap::TapError) -> PyErr {
    let number = match error {
        tap::TapError::NoPrivilege { .. } => libc::EPERM,
        tap::TapError::NotHere { .. } => libc::ENODEV,
        _ => libc::EINVAL,
    };
    error::numbered(number, &error.to_string())
}

#[pymethods]
impl Stack {
    /// A stack on a TAP (`ethernet`) or TUN of this machine, which is made if it does not exist.
    /// `host` are addresses for the kernel's end; with some, the interface is brought up.
    #[new]
    fn new(
        py: Python<'_>,
        interface: &str,
        ethernet: bool,
        addresses: Vec<String>,
        host: Vec<String>,
        gateways: Vec<String>,
        secret: u128,
    ) -> PyResult<Stack> {
        let (addresses, host) = (networks(&addresses)?, networks(&host)?);
        let link = if ethernet { LinkKind::Ethernet } else { LinkKind::Ip };
        let config = tap::Config { name: Some(interface.to_owned()), link, ..Default::default() };
        let mut device = Tap::open(&config).map_err(|e| refused(&e))?;
        if !host.is_empty() {
            let setup = Setup { addresses: host, up: true, ..Setup::default() };
            device.configure(&setup).map_err(|e| refused(&e))?;
        }
        let mac = device.our_mac().unwrap_or_default();
        let mut stack = Core::new(StackConfig::new(seed(secret)));
        let settings = PortConfig { mac, addresses: addresses.clone(), ..PortConfig::default() };
        let port = stack.add_port(Box::new(device), settings);
        for gateway in &gateways {
            let via = address(gateway)?;
            let all = if via.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let to = all.parse().map_err(|_| PyValueError::new_err("no default network"))?;
            if !stack.add_route(Route::new(to, Some(via), port.0)) {
                return Err(PyValueError::new_err("the stack takes no more routes"));
            }
        }
        py.detach(|| Stack::driven(stack, addresses))
    }

    /// The stack's addresses, each with the length of its network.
    #[getter]
    fn networks(&self) -> Vec<String> {
        self.addresses.iter().map(|cidr| format!("{}/{}", cidr.addr, cidr.prefix_len)).collect()
    }

    /// The world of virtual time, or `None` in real time.
    #[getter]
    fn world(&self, py: Python<'_>) -> Option<Py<World>> {
        match &self.shared.time {
            Time::Real => None,
            Time::Virtual(world) => Some(world.clone_ref(py)),
        }
    }

    /// Set the name servers, and names that need none. Each name has one address or several.
    fn set_resolver(
        &self,
        servers: Vec<String>,
        search: Vec<String>,
        names: Vec<(String, String)>,
    ) -> PyResult<()> {
        let mut config = dns::Config { search, ..dns::Config::default() };
        for server in &servers {
            config.servers.push(SocketAddr::new(address(server)?, dns::PORT));
        }
        let mut hosts = dns::Hosts::default();
        for (name, of) in &names {
            hosts
                .add(name, address(of)?)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
        self.shared.net()?.set_resolver(config, hosts).map_err(|e| raise(&e))
    }

    /// The addresses of a host; waits for answers of name servers.
    fn lookup(
        &self,
        py: Python<'_>,
        host: String,
        timeout_ns: Option<u64>,
    ) -> PyResult<Vec<String>> {
        let net = self.shared.net()?.clone();
        let mut lookup = Box::pin(async move { net.lookup_host(&host).await });
        let timeout = Timeout::from_nanos(timeout_ns);
        let found = wait_polled(py, &self.shared, timeout, |cx| {
            lookup.as_mut().poll(cx).map(|found| found.map_err(|error| raise(&error)))
        })?;
        Ok(found.iter().map(IpAddr::to_string).collect())
    }

    /// Counters that are not zero, by name, and dropped packets by reason.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (counters, drops) = self
            .shared
            .net()?
            .with_stack(|stack| (stack.counters().clone(), stack.drops().clone()))
            .map_err(|e| raise(&e))?;
        let found = PyDict::new(py);
        for (counter, count) in counters.nonzero() {
            found.set_item(counter.name(), count)?;
        }
        for (reason, count) in drops.nonzero() {
            found.set_item(format!("drop_{}", reason.name()), count)?;
        }
        Ok(found)
    }

    /// How many TCP connections the stack has.
    #[getter]
    fn connections(&self) -> PyResult<usize> {
        self.shared.net()?.with_stack(|stack| stack.connection_count()).map_err(|e| raise(&e))
    }

    /// End the stack: all of its sockets fail from then on. A stack of the parent process stays.
    fn close(&self, py: Python<'_>) {
        let Ok(net) = self.shared.net() else { return };
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| {
            // What waits to be sent is sent, and a capture that has ended completes its file. A
            // stack that has ended already has nothing to do.
            let _ = net.with_stack(|stack| {
                let now = stack.now();
                stack.poll(now);
            });
            net.shut_down();
            if let Some(driver) = driver {
                // A driver that panicked has ended too.
                let _ = driver.stop();
            }
        });
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.shared.is_of_parent() {
            let driver = self.driver.get_mut().unwrap_or_else(PoisonError::into_inner);
            core::mem::forget(driver.take());
        }
    }
}
