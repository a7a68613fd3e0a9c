//! The two kinds of hosts: Linux in a network namespace behind a TAP, and our stack behind a link
//! in memory. Each comes with the other end of its link, for the bridge.
//!
//! Called by: `real`. A namespace is gone with its host, however the run ends.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use base::{LinkKind, MacAddr};
use device::mem;
use device::namespace::Namespace;
use device::tap::{Config, Setup, Tap};
use device::{Device, Offloads};
use net::{DriverThread, Net, TcpSocket, blocking};
use stack::{PortConfig, Stack, StackConfig};
use tcp::cc::Algorithm;

use super::{LOOK, address, drain, failed, fill, linux_name};
use crate::Error;
use crate::namespace::new_namespace;

/// Queue length of a TAP in frames: bursts of a sender without pacing must not be lost there.
const TAP_QUEUE: u32 = 20_000;

/// A connection of either kind.
pub(super) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// The error of a call that ran into its time-out.
pub(super) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// A host at one end of the path.
pub(super) struct Host {
    address: Ipv4Addr,
    kind: Kind,
    algorithm: Algorithm,
}

enum Kind {
    Linux(Namespace),
    Ours(Net, Option<DriverThread>),
}

/// A listener of either kind.
pub(super) enum Listener {
    Linux(TcpListener),
    Ours(blocking::TcpListener),
}

impl Host {
    /// The host with this number, and the other end of its link, for the bridge.
    pub(super) fn new(
        number: u8,
        ours: bool,
        algorithm: Algorithm,
        seed: u64,
    ) -> Result<(Host, Box<dyn Device>), Error> {
        let address = address(number);
        let (kind, device) = match ours {
            true => our_host(number, seed)?,
            false => linux_host(address)?,
        };
        Ok((Host { address, kind, algorithm }, device))
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub(super) fn listen(&self, at: SocketAddr) -> Result<Listener, Error> {
        match &self.kind {
            Kind::Linux(namespace) => {
                let listening = namespace.inside(|| TcpListener::bind(at));
                let listener = listening.map_err(|error| failed(&error.to_string()))?;
                let listener = listener.and_then(|l| l.set_nonblocking(true).map(|()| l));
                listener.map(Listener::Linux).map_err(|error| refused("listen", &error))
            }
            Kind::Ours(net, _) => {
                let listener = blocking::TcpListener::bind(net, at);
                let listener = listener.and_then(|l| l.set_nonblocking(true).map(|()| l));
                listener.map(Listener::Ours).map_err(|error| refused("listen", &error))
            }
        }
    }

    /// Accept a connection for each of `counts`, and read from them until `over`.
    pub(super) fn serve(&self, listener: Listener, counts: &[AtomicU64], over: &AtomicBool) {
        let accept = || -> io::Result<Box<dyn Stream>> {
            match &listener {
                Listener::Linux(listener) => {
                    let (stream, _) = listener.accept()?;
                    stream.set_nonblocking(false)?;
                    stream.set_read_timeout(Some(LOOK))?;
                    Ok(Box::new(stream))
                }
                Listener::Ours(listener) => {
                    let (stream, _) = listener.accept()?;
                    stream.set_read_timeout(Some(LOOK))?;
                    Ok(Box::new(stream))
                }
            }
        };
        thread::scope(|scope| {
            for count in counts {
                let stream = loop {
                    match accept() {
                        Ok(stream) => break stream,
                        Err(_) if over.load(Ordering::Relaxed) => return,
                        Err(_) => thread::sleep(Duration::from_millis(1)),
                    }
                };
                scope.spawn(move || drain(stream, count, over));
            }
        });
    }

    /// Connect, and write until `over`.
    pub(super) fn send(&self, to: SocketAddr, over: &AtomicBool) {
        // If the connect fails, the flow delivers nothing, and the run reports that.
        if let Ok(stream) = self.connect(to) {
            fill(stream, over);
        }
    }

    fn connect(&self, to: SocketAddr) -> io::Result<Box<dyn Stream>> {
        match &self.kind {
            Kind::Linux(namespace) => {
                let name = linux_name(self.algorithm).unwrap_or("cubic");
                let connecting = namespace.inside(|| -> io::Result<TcpStream> {
                    let socket = socket2::Socket::new(
                        socket2::Domain::IPV4,
                        socket2::Type::STREAM,
                        Some(socket2::Protocol::TCP),
                    )?;
                    socket.set_tcp_congestion(name.as_bytes())?;
                    socket.connect(&to.into())?;
                    Ok(socket.into())
                });
                let stream = connecting.map_err(io::Error::other)??;
                stream.set_write_timeout(Some(LOOK))?;
                Ok(Box::new(stream))
            }
            Kind::Ours(net, _) => {
                let mut socket = TcpSocket::new(net);
                socket.config_mut().algorithm = self.algorithm;
                let stream = blocking::TcpStream::connect_with(&socket, to, None)?;
                stream.set_write_timeout(Some(LOOK))?;
                Ok(Box::new(stream))
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Kind::Ours(_, driver) = &mut self.kind
            && let Some(driver) = driver.take()
        {
            // A driver that panicked has printed its message.
            let _ = driver.stop();
        }
    }
}

fn refused(what: &str, error: &io::Error) -> Error {
    failed(&format!("cannot {what}: {error}"))
}

fn linux_host(address: Ipv4Addr) -> Result<(Kind, Box<dyn Device>), Error> {
    let namespace = new_namespace()?;
    let opened = namespace.inside(|| -> Result<Tap, Error> {
        let said = |error: device::tap::TapError| failed(&error.to_string());
        let config = Config { vnet_hdr: false, ..Config::default() };
        let mut tap = Tap::open(&config).map_err(said)?;
        let network = format!("{address}/24").parse();
        let network = network.map_err(|_| failed("the host has no valid address"))?;
        let (addresses, queue_frames) = (vec![network], Some(TAP_QUEUE));
        let setup = Setup { addresses, queue_frames, up: true, ..Setup::default() };
        tap.configure(&setup).map_err(said)?;
        Ok(tap)
    });
    let tap = opened.map_err(|error| failed(&error.to_string()))??;
    Ok((Kind::Linux(namespace), Box::new(tap)))
}

fn our_host(number: u8, seed: u64) -> Result<(Kind, Box<dyn Device>), Error> {
    let wire = mem::Config {
        link: LinkKind::Ethernet,
        offloads: Offloads::default(),
        ..mem::Config::default()
    };
    let (inner, outer) = mem::pair(&wire);
    let mut stack = Stack::new(StackConfig::new([seed, u64::from(number)]));
    let network = format!("{}/24", address(number)).parse();
    let network = network.map_err(|_| failed("the host has no valid address"))?;
    let mac = MacAddr([2, 0, 0, 0x97, 0, number]);
    stack.add_port(
        Box::new(inner),
        PortConfig { mac, addresses: vec![network], ..PortConfig::default() },
    );
    let (net, driver) =
        Net::spawn_thread(stack).map_err(|error| refused("start a thread", &error))?;
    Ok((Kind::Ours(net, Some(driver)), Box::new(outer)))
}
