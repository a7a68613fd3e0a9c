//! The stack that the guest sees, on a thread of its own: three routers and then every host, which
//! does by port number what a case wants to see.
//!
//! Called by: `cases.rs`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::{Instant, LinkKind, MacAddr};
use device::tap::{Config, Setup, Tap};
use wirespeed_stack::{
    ErrorKind, Event, Foreign, ForeignDatagram, ForeignKind, IpSettings, ListenConfig,
    ListenerHandle, PortConfig, Route, Stack, StackConfig, TcpHandle, Unreachable,
};

/// The guest's addresses, and the default routes without a gateway.
pub(crate) const GUEST: [&str; 2] = ["10.77.0.2/24", "fd77::2/64"];

/// Routers on the way to every host.
const HOPS: u8 = 3;

/// UDP and TCP ports, and what a host does there. UDP ports of traceroute are closed.
pub(crate) const ECHO: u16 = 7;
pub(crate) const NARROW: u16 = 70;
pub(crate) const NO_HOST: u16 = 81;
pub(crate) const NO_NET: u16 = 82;
pub(crate) const PROHIBITED: u16 = 83;
pub(crate) const CLOSED: u16 = 84;

/// The MTU behind the second router, which [`NARROW`] reports.
pub(crate) const NARROW_MTU: usize = 1_400;

/// The stack; it ends with this value.
pub(crate) struct Gateway {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Make the interface in this thread's namespace, give the guest its addresses and routes, and
    /// begin to answer.
    pub(crate) fn start() -> Gateway {
        let tap =
            Config { name: Some("ws0".into()), link: LinkKind::Ethernet, ..Config::default() };
        let mut tap = Tap::open(&tap).expect("root opens a TAP");
        tap.configure(&Setup { up: true, ..Setup::default() }).expect("root sets it up");
        for (n, address) in GUEST.iter().enumerate() {
            let nodad = if n == 1 { " nodad" } else { "" };
            assert!(testbed::ip(&format!("addr add {address} dev ws0{nodad}")));
        }
        assert!(testbed::ip("route add default dev ws0"));
        assert!(testbed::ip("-6 route add default dev ws0"));
        let foreign = Foreign { udp: true, echo: true, ..Foreign::default() };
        let mut stack = Stack::new(StackConfig { foreign, ..StackConfig::new([4, 5]) });
        let addresses = ["10.77.0.1/24", "fd77::1/64"];
        let addresses = addresses.iter().map(|a| a.parse().expect("an address")).collect();
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let port = stack.add_port(Box::new(tap), PortConfig { mac, addresses, answer_all: true });
        for network in ["0.0.0.0/0", "::/0"] {
            let network = network.parse().expect("a network");
            assert!(stack.add_route(Route::new(network, None, port.0)));
        }
        let config = ListenConfig { inspect: true, ..ListenConfig::default() };
        let any = "0.0.0.0:0".parse().expect("an address");
        let listener = stack.tcp_listen(any, config).expect("nobody else listens");
        let ends = Arc::new(AtomicBool::new(false));
        let world = World { stack, listener, flows: BTreeMap::new(), next_tag: 0 };
        let told = ends.clone();
        let thread = Some(thread::spawn(move || world.run(&told)));
        Gateway { ends, thread }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the gateway has panicked");
        }
    }
}

struct World {
    stack: Stack,
    listener: ListenerHandle,
    /// By tag.
    flows: BTreeMap<u64, TcpHandle>,
    next_tag: u64,
}

/// The router that many hops away.
pub(crate) fn router(hops: u8, is_v4: bool) -> IpAddr {
    match is_v4 {
        true => Ipv4Addr::new(203, 0, 113, hops).into(),
        false => Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, hops.into()).into(),
    }
}

impl World {
    fn run(mut self, ends: &AtomicBool) {
        let began = std::time::Instant::now();
        let mut datagrams = Vec::new();
        while !ends.load(Ordering::Relaxed) {
            let now = Instant::from_nanos(1 + began.elapsed().as_nanos() as u64);
            self.stack.poll(now);
            self.events();
            self.stack.foreign_receive(&mut datagrams, 256);
            for datagram in datagrams.drain(..) {
                self.datagram(datagram, now);
            }
            self.requests();
            self.stack.flush();
            thread::sleep(Duration::from_micros(300));
        }
    }

    fn datagram(&mut self, datagram: ForeignDatagram, now: Instant) {
        let ForeignDatagram { flow, ttl, payload, .. } = datagram;
        let (len, is_v4) = (payload.len(), flow.src.is_ipv4());
        let error = |stack: &mut Stack, kind: ErrorKind, from: IpAddr| {
            stack.icmp_error(&flow, len, kind, from, now).expect("within the limit");
        };
        let (stack, ip) = (&mut self.stack, IpSettings { ttl: 64 - HOPS, ..IpSettings::default() });
        if ttl <= HOPS {
            error(stack, ErrorKind::Transient, router(ttl, is_v4));
        } else if let ForeignKind::Echo { id, seq } = flow.kind {
            let ends = (flow.dst.ip(), flow.src);
            stack.echo_reply(ends, (id, seq), ip, payload.as_slice(), now).expect("routed");
        } else {
            let unreachable = ErrorKind::Unreachable;
            match flow.dst.port() {
                NO_HOST => error(stack, unreachable(Unreachable::Host), router(HOPS, is_v4)),
                NO_NET => error(stack, unreachable(Unreachable::Net), router(1, is_v4)),
                PROHIBITED => error(stack, unreachable(Unreachable::Prohibited), router(1, is_v4)),
                NARROW if len > NARROW_MTU => {
                    error(stack, ErrorKind::TooBig(NARROW_MTU), router(2, is_v4));
                }
                ECHO | NARROW => {
                    let ends = (flow.dst, flow.src);
                    let sent = stack.udp_send_mbuf_between(ends, ip, payload, 0, now);
                    assert_eq!(sent, Ok(len));
                    return;
                }
                _ => error(stack, unreachable(Unreachable::Port), flow.dst.ip()),
            }
        }
        self.stack.give_back(payload);
    }

    fn requests(&mut self) {
        while let Some((request, dst, _)) = self.stack.tcp_request(self.listener) {
            match dst.port() {
                NO_HOST => self.stack.tcp_unreachable(request, Unreachable::Host),
                NO_NET => self.stack.tcp_unreachable(request, Unreachable::Net),
                PROHIBITED => self.stack.tcp_unreachable(request, Unreachable::Prohibited),
                CLOSED => self.stack.tcp_refuse(request),
                _ => {
                    let handle = self.stack.tcp_complete(request).expect("room");
                    assert!(self.stack.tcp_set_tag(handle, Some(self.next_tag)));
                    self.flows.insert(self.next_tag, handle);
                    self.next_tag += 1;
                }
            }
        }
    }

    /// Connections send back what they receive.
    fn events(&mut self) {
        while let Some(event) = self.stack.next_event() {
            let tag = match event {
                Event::Tagged(tag, _) => tag,
                Event::Tcp(..) => panic!("all connections have tags"),
                _ => continue,
            };
            let Some(&handle) = self.flows.get(&tag) else { continue };
            let mut bytes = [0; 4_096];
            while let Ok(n) = self.stack.tcp_read(handle, &mut bytes) {
                if n == 0 {
                    self.stack.tcp_close(handle);
                    self.flows.remove(&tag);
                    break;
                }
                assert_eq!(self.stack.tcp_write(handle, &bytes[..n]), Ok(n));
            }
        }
    }
}
