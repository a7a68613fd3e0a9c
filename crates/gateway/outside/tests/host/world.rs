//! A guest in memory, the gateway and the host, and the loop that runs them.
//!
//! Called by: the cases.

use core::net::SocketAddr;
use std::net::UdpSocket;
use std::time::Duration;

use base::{Instant, LinkKind, Owner};
use device::mem;
use gateway::{AllowAll, Around, Config, Gateway};
use stack::{ConnectError, Foreign, PortConfig, Route, Stack, StackConfig, TcpHandle};
use testbed::ip;
use wirespeed_outside::{Accepted, Egress, Host, HostGateway, Outlet, Wake};

/// The guest's addresses and the servers', which are the namespace's own.
pub(crate) const GUEST: &str = "10.0.2.100";
pub(crate) const SERVER: &str = "198.51.100.7";
pub(crate) const SERVER_V6: &str = "2001:db8:7::7";

/// How long something may take that takes no time.
const SOON: Duration = Duration::from_secs(10);

pub(crate) struct World {
    pub(crate) guest: Stack,
    pub(crate) inner: Stack,
    pub(crate) engine: HostGateway,
    pub(crate) host: Egress,
    /// Clients of published ports that were accepted go here.
    pub(crate) published_to: Option<SocketAddr>,
    /// Clients are those of a proxy.
    pub(crate) is_proxy: bool,
    began: std::time::Instant,
}

/// Give the namespace its addresses.
pub(crate) fn set_up() {
    assert!(ip("link set lo up"));
    assert!(ip(&format!("address add {SERVER}/32 dev lo")));
    assert!(ip(&format!("address add {SERVER_V6}/128 dev lo nodad")));
    // The kernel adds the route to it a little later.
    let itself = || {
        let socket = UdpSocket::bind(at(SERVER_V6, 0)).ok()?;
        socket.set_nonblocking(true).ok()?;
        socket.connect(socket.local_addr().ok()?).ok()?;
        socket.send(b"is there a route?").ok()?;
        socket.recv(&mut [0; 32]).ok()
    };
    assert!(testbed::until(SOON, || itself().is_some()), "the host does not reach itself");
}

pub(crate) fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

impl World {
    pub(crate) fn new() -> World {
        World::with(Config::default(), 256)
    }

    pub(crate) fn with(config: Config, sockets_max: usize) -> World {
        let wire = mem::Config { link: LinkKind::Ip, ..mem::Config::default() };
        let (left, right) = mem::pair(&wire);
        let foreign = Foreign { udp: true, echo: true, unclaimed: true, newcomers: false };
        let make = |device, seed, foreign, addresses: [&str; 2]| {
            let mut stack = Stack::new(StackConfig { foreign, ..StackConfig::new([7, seed]) });
            let addresses = addresses.map(|text| text.parse().expect("an address"));
            let config = PortConfig { addresses: addresses.into(), ..PortConfig::default() };
            stack.add_port(Box::new(device), config);
            stack
        };
        let own = [format!("{GUEST}/24"), "fd00::100/64".to_owned()];
        let mut guest = make(left, 1, Foreign::default(), own.each_ref().map(String::as_str));
        let mut inner = make(right, 2, foreign, ["10.0.2.2/24", "fd00::2/64"]);
        for all in ["0.0.0.0/0", "::/0"] {
            guest.add_route(Route::new(all.parse().expect("a network"), None, 0));
        }
        let engine = Gateway::new(&mut inner, config).expect("nobody else listens");
        let host = Egress::from(Host::new(sockets_max).expect("a descriptor"));
        let began = std::time::Instant::now();
        World { guest, inner, engine, host, published_to: None, is_proxy: false, began }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock()()
    }

    pub(crate) fn clock(&self) -> impl Fn() -> Instant + Send + use<> {
        let began = self.began;
        move || Instant::from_nanos(began.elapsed().as_nanos() as u64 + 1_000_000_000)
    }

    /// A turn of the loop. It waits for the host, at most until `wait` is over, if nothing else is
    /// to be done.
    pub(crate) fn turn(&mut self, wait: Duration) {
        let now = self.now();
        let mut work = self.guest.poll(now) + self.inner.poll_before_flush(now);
        while self.guest.next_event().is_some() {}
        while let Some(event) = self.inner.next_event() {
            self.engine.event(event);
        }
        while let Some(wake) = self.host.next_wake() {
            work += 1;
            match wake {
                Wake::Outside(token, ready) => self.engine.ready(token, ready),
                Wake::Own(number, _) => panic!("nobody watches {number}"),
            }
        }
        let World { inner, engine, host, .. } = self;
        let mut around = Around { stack: inner, outside: host, policy: &mut AllowAll, now };
        while self.is_proxy
            && let Some(Accepted { tcp, client, .. }) = around.outside.accept()
        {
            engine.accept_client(Outlet::Host(tcp), client, &mut around);
        }
        while let Some(to) = self.published_to
            && let Some(Accepted { tcp, client, .. }) = around.outside.accept()
        {
            engine.accept_published(Outlet::Host(tcp), client, to, &mut around);
        }
        engine.turn(&mut around);
        inner.flush();
        let is_busy = work > 0 || engine.has_work();
        let deadline = inner.next_deadline().min(engine.next_deadline());
        let latest = now + base::Duration::from_nanos(wait.as_nanos() as u64);
        let until =
            if is_busy { now } else { deadline.min(latest).min(self.guest.next_deadline()) };
        self.host.wait(now, until).expect("the descriptors are ours");
    }

    /// Run until something is so.
    ///
    /// # Panics
    /// It is not so soon.
    #[track_caller]
    pub(crate) fn until(&mut self, mut so: impl FnMut(&mut World) -> bool) {
        let began = std::time::Instant::now();
        while !so(self) {
            if began.elapsed() >= SOON {
                let flows = self.engine.flows(self.now()).take(8);
                let flows: Vec<_> = flows.map(|row| (row.ends, row.state)).collect();
                panic!("it never happens: {flows:?}, {:?}", self.engine.counts());
            }
            self.turn(Duration::from_millis(10));
        }
    }

    /// Begin to connect from the guest.
    pub(crate) fn connect(&mut self, to: SocketAddr) -> TcpHandle {
        self.try_connect(to).expect("there is a route")
    }

    fn try_connect(&mut self, to: SocketAddr) -> Result<TcpHandle, ConnectError> {
        let now = self.now();
        self.guest.tcp_connect(to, None, &tcp::Config::default(), Owner::program(), now)
    }

    /// Connect from the guest, and wait for the answer.
    #[track_caller]
    pub(crate) fn open(&mut self, to: SocketAddr) -> TcpHandle {
        let client = self.connect(to);
        self.until(|w| w.state(client) != (tcp::State::SynSent, None));
        assert_eq!(self.state(client), (tcp::State::Established, None));
        client
    }

    /// How the next flow ends.
    #[track_caller]
    pub(crate) fn end(&mut self) -> gateway::End {
        let mut report = None;
        self.until(|w| {
            report = w.engine.next_report();
            report.is_some()
        });
        report.expect("it has come").end
    }

    pub(crate) fn state(&self, handle: TcpHandle) -> (tcp::State, Option<tcp::Error>) {
        self.guest.tcp_state(handle).expect("it is kept")
    }

    /// Read what comes, up to this many bytes or the end of the stream.
    #[track_caller]
    pub(crate) fn read(&mut self, handle: TcpHandle, most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        self.until(|w| {
            let mut into = [0; 4_096];
            loop {
                let room = into.len().min(most - all.len());
                match w.guest.tcp_read(handle, &mut into[..room]) {
                    Ok(0) => return true,
                    Ok(n) => all.extend_from_slice(&into[..n]),
                    Err(stack::CallError::WouldBlock) => return all.len() == most,
                    Err(error) => panic!("after {} bytes: {error:?}", all.len()),
                }
            }
        });
        all
    }

    /// Nothing is left of any flow or session.
    pub(crate) fn is_empty(&self) -> bool {
        self.engine.flow_count() == 0
            && self.engine.session_counts() == (0, 0)
            && self.engine.client_count() == 0
            && self.host.open_count() == 0
    }
}
