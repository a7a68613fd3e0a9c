//! A guest, a gateway's two stacks and a server, joined by wires without delay; the test advances
//! the time.
//!
//! Called by: the tests of the gateway.

use core::net::SocketAddr;
use std::collections::VecDeque;

use base::{Duration, Instant, LinkKind, Owner};
use device::mem;
use gateway::{Around, Config, Ends, Gateway, Glance, Policy, Verdict};
use host::dns;
use stack::{
    Foreign, ListenConfig, ListenerHandle, PortConfig, Route, Stack, StackConfig, TcpHandle,
    UdpHandle,
};

use crate::{Beyond, Socket, Tokens};

pub(super) const GUEST: &str = "10.0.2.100";
pub(super) const SERVER: &str = "198.51.100.7";

/// Answers of a policy, in turn; it allows everything when they are used up.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) verdicts: VecDeque<Verdict>,
    pub(super) asked: Vec<Ends>,
    pub(super) refused_name: Option<&'static str>,
    pub(super) hellos: Hellos,
}

/// What a policy says to the first bytes of flows.
#[derive(Default)]
pub(super) struct Hellos {
    /// It wants to see them; then what it says, in turn, and in the end that they pass.
    pub(super) answers: Option<VecDeque<Glance>>,
    /// What it saw, and whether that was all.
    pub(super) seen: Vec<(Vec<u8>, bool)>,
}

impl Answers {
    fn next(&mut self, ends: &Ends) -> Verdict {
        self.asked.push(*ends);
        self.verdicts.pop_front().unwrap_or(Verdict::Allow)
    }
}

impl dns::Policy for Answers {
    fn question(&mut self, asked: &dns::Asked<'_>) -> dns::Verdict {
        match self.refused_name {
            Some(name) if asked.name.to_string() == name => dns::Verdict::Refuse,
            _ => dns::Verdict::Pass,
        }
    }
}

impl Policy for Answers {
    fn tcp(&mut self, ends: &Ends) -> Verdict {
        self.next(ends)
    }

    fn udp(&mut self, ends: &Ends) -> Verdict {
        self.next(ends)
    }

    fn echo(&mut self, ends: &Ends) -> Verdict {
        self.next(ends)
    }

    fn wants_hello(&mut self, _: &Ends) -> bool {
        self.hellos.answers.is_some()
    }

    fn hello(&mut self, _: &Ends, bytes: &[u8], is_all: bool) -> Glance {
        self.hellos.seen.push((bytes.to_vec(), is_all));
        let answer = self.hellos.answers.as_mut().and_then(VecDeque::pop_front);
        answer.unwrap_or(Glance::Pass)
    }

    fn wants_datagrams(&mut self, ends: &Ends) -> bool {
        self.wants_hello(ends)
    }

    fn datagrams(&mut self, ends: &Ends, payload: &[u8], _: usize) -> Glance {
        self.hello(ends, payload, false)
    }
}

type Engine = Gateway<TcpHandle, Socket>;

pub(super) struct Bench<P = Answers> {
    pub(super) guest: Stack,
    pub(super) inner: Stack,
    pub(super) outer: Stack,
    pub(super) server: Stack,
    pub(super) engine: Engine,
    pub(super) tokens: Tokens,
    pub(super) policy: P,
    pub(super) now: Instant,
    /// The server takes nothing from its wire.
    pub(super) is_server_deaf: bool,
    tcp: tcp::Config,
}

pub(super) fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

/// Two stacks on a wire of bare IP, with these addresses.
fn wire(seed: u64, addresses: [&str; 2], foreign: [Foreign; 2]) -> [Stack; 2] {
    let (left, right) = mem::pair(&mem::Config { link: LinkKind::Ip, ..mem::Config::default() });
    let mut number = seed;
    let ends = [(left, addresses[0], foreign[0]), (right, addresses[1], foreign[1])];
    ends.map(|(device, address, foreign)| {
        number += 1;
        let mut stack = Stack::new(StackConfig { foreign, ..StackConfig::new([7, number]) });
        let addresses = vec![address.parse().expect("an address")];
        stack.add_port(Box::new(device), PortConfig { addresses, ..PortConfig::default() });
        stack
    })
}

impl Bench {
    pub(super) fn new(config: Config) -> Bench {
        Bench::with_policy(config, Answers::default())
    }

    pub(super) fn listen(stack: &mut Stack, port: u16) -> ListenerHandle {
        let any = SocketAddr::from(([0, 0, 0, 0], port));
        stack.tcp_listen(any, ListenConfig::default()).expect("a free port")
    }

    pub(super) fn udp(stack: &mut Stack, port: u16) -> UdpHandle {
        let any = SocketAddr::from(([0, 0, 0, 0], port));
        stack.udp_bind(any, Owner::program()).expect("a free port")
    }
}

impl<P: Policy> Bench<P> {
    pub(super) fn with_policy(config: Config, policy: P) -> Bench<P> {
        let none = Foreign::default();
        let foreign = Foreign { udp: true, echo: true, unclaimed: true, ..Foreign::default() };
        let [mut guest, mut inner] = wire(10, ["10.0.2.100/24", "10.0.2.2/24"], [none, foreign]);
        let [outer, server] = wire(20, ["198.51.100.1/24", "198.51.100.7/24"], [none; 2]);
        let all = "0.0.0.0/0".parse().expect("a network");
        guest.add_route(Route::new(all, None, 0));
        let engine = Gateway::new(&mut inner, config).expect("nobody else listens");
        let tokens = Tokens::default();
        let (now, tcp) = (Instant::ZERO + Duration::from_secs(1), tcp::Config::default());
        Bench {
            guest,
            inner,
            outer,
            server,
            engine,
            tokens,
            policy,
            now,
            is_server_deaf: false,
            tcp,
        }
    }

    /// Do something with the engine.
    pub(super) fn with<R>(
        &mut self,
        act: impl FnOnce(&mut Engine, &mut Around<'_, Beyond<'_>, P>) -> R,
    ) -> R {
        let mut beyond = Beyond {
            stack: &mut self.outer,
            tokens: &mut self.tokens,
            tcp: &self.tcp,
            now: self.now,
        };
        let mut around = Around {
            stack: &mut self.inner,
            outside: &mut beyond,
            policy: &mut self.policy,
            now: self.now,
        };
        act(&mut self.engine, &mut around)
    }

    /// Let everything happen that happens at this moment.
    pub(super) fn settle(&mut self) {
        let mut idle_rounds = 0;
        for _ in 0..400 {
            let now = self.now;
            let mut work = self.guest.poll(now) + self.inner.poll(now);
            work += self.outer.poll(now);
            if !self.is_server_deaf {
                work += self.server.poll(now);
            }
            while let Some(event) = self.inner.next_event() {
                self.engine.event(event);
            }
            while let Some(event) = self.outer.next_event() {
                if let Some((token, ready)) = self.tokens.ready(&event) {
                    self.engine.ready(token, ready);
                }
            }
            while self.guest.next_event().is_some() || self.server.next_event().is_some() {}
            let has_work = self.engine.has_work() || self.engine.next_deadline() <= now;
            if has_work {
                self.with(|engine, around| engine.turn(around));
                self.inner.flush();
                self.outer.flush();
            }
            // What the last stack of an idle round has sent arrives in the next one.
            idle_rounds = if work == 0 && !has_work { idle_rounds + 1 } else { 0 };
            if idle_rounds == 2 {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Let the time pass, in steps of a quarter of a second.
    pub(super) fn pass(&mut self, seconds: u64) {
        for _ in 0..4 * seconds {
            self.now += Duration::from_millis(250);
            self.settle();
        }
    }

    /// Connect from the guest, and let it happen.
    pub(super) fn connect(&mut self, to: &str) -> TcpHandle {
        let (config, now) = (tcp::Config::default(), self.now);
        let made = self.guest.tcp_connect(at(to), None, &config, Owner::program(), now);
        self.settle();
        made.expect("there is a route")
    }
}
