//! `Stack::poll_before_flush`: an ACK that waits for the program's answer.

use core::net::SocketAddr;

use base::{Counter, Duration, Instant, Owner, Switch};

use crate::pair::{End, PairConfig, pair};
use crate::{Event, ListenConfig, TcpHandle};

/// Bytes of a request: two full segments and a little more, so that an ACK is due at once.
const REQUEST: usize = 3_000;

struct World {
    client: End,
    server: End,
    ends: (TcpHandle, TcpHandle),
    now: Instant,
}

impl World {
    fn new(config: &PairConfig) -> World {
        let (mut client, mut server) = pair(config);
        let now = Instant::from_nanos(1_000_000);
        let at = SocketAddr::new(server.addr, 111);
        let listener = server.stack.tcp_listen(at, ListenConfig::default()).expect("free");
        let config = tcp::Config { no_delay: true, ..tcp::Config::default() };
        let opened = client.stack.tcp_connect(at, None, &config, Owner::program(), now);
        for _ in 0..4 {
            client.stack.poll(now);
            server.stack.poll(now);
        }
        let accepted = server.stack.tcp_accept(listener).expect("connected");
        while server.stack.next_event().is_some() {}
        World { client, server, ends: (opened.expect("routed"), accepted), now }
    }

    /// The client sends a request, which then is on the wire.
    fn request(&mut self) {
        let written = self.client.stack.tcp_write(self.ends.0, &[7; REQUEST]);
        assert_eq!(written, Ok(REQUEST));
        self.client.stack.flush();
    }

    fn read(&mut self) {
        let mut into = [0; 2 * REQUEST];
        assert_eq!(self.server.stack.tcp_read(self.ends.1, &mut into), Ok(REQUEST));
    }

    /// The number of segments that the server has sent, and how many of them were ACKs without
    /// data.
    fn sent(&self) -> (u64, u64) {
        let counters = self.server.stack.counters();
        (counters.of(Counter::TcpSegmentsOut), counters.of(Counter::TcpAcksOut))
    }

    /// Bytes that the client has sent and that are not acknowledged.
    fn in_flight(&mut self) -> u32 {
        self.client.stack.poll(self.now);
        self.client.stack.tcp_info(self.ends.0).expect("open").in_flight
    }
}

#[test]
fn an_answer_carries_the_ack_of_its_request() {
    let mut world = World::new(&PairConfig::new([1, 2]));
    let (segments, acks) = world.sent();
    for _ in 0..10 {
        world.request();
        assert!(world.server.stack.poll_before_flush(world.now) > 0);
        let events: Vec<Event> = core::iter::from_fn(|| world.server.stack.next_event()).collect();
        let [Event::Tcp(handle, events)] = events[..] else { panic!("{events:?}") };
        assert!(handle == world.ends.1 && events.has(tcp::Events::READABLE));
        world.read();
        assert_eq!(world.server.stack.tcp_write(world.ends.1, b"answer"), Ok(6));
        world.server.stack.flush();
        assert_eq!(world.in_flight(), 0);
        let mut answer = [0; 8];
        assert_eq!(world.client.stack.tcp_read(world.ends.0, &mut answer), Ok(6));
        world.now += Duration::from_millis(1);
    }
    let (now_segments, now_acks) = world.sent();
    assert_eq!((now_segments - segments, now_acks - acks), (10, 0));
}

#[test]
fn who_does_not_answer_acknowledges_when_it_flushes() {
    let mut world = World::new(&PairConfig::new([1, 2]));
    let (segments, acks) = world.sent();
    world.request();
    world.server.stack.poll_before_flush(world.now);
    assert_eq!(world.sent(), (segments, acks));
    assert!(world.server.stack.has_output());
    world.server.stack.flush();
    assert_eq!(world.sent(), (segments + 1, acks + 1));
    assert_eq!(world.in_flight(), 0);
    assert!(world.server.stack.next_deadline() > world.now);
}

#[test]
fn who_does_not_flush_acknowledges_with_the_next_poll() {
    let mut world = World::new(&PairConfig::new([1, 2]));
    let (segments, acks) = world.sent();
    world.request();
    world.server.stack.poll_before_flush(world.now);
    assert_eq!(
        world.server.stack.next_deadline(),
        world.now,
        "the driver may sleep while an ACK is held"
    );
    assert_eq!(world.sent(), (segments, acks));
    world.server.stack.poll_before_flush(world.now);
    assert_eq!(world.sent(), (segments + 1, acks + 1));
    assert!(world.server.stack.next_deadline() > world.now);
}

#[test]
fn an_ack_that_is_due_at_once_is_not_held() {
    let mut world = World::new(&PairConfig::new([1, 2]));
    world.request();
    world.server.stack.poll(world.now);
    let (segments, acks) = world.sent();
    world.client.stack.tcp_shutdown_write(world.ends.0);
    world.client.stack.flush();
    world.server.stack.poll_before_flush(world.now);
    assert_eq!(world.sent(), (segments + 1, acks + 1), "a FIN is not acknowledged at once");
}

#[test]
fn off_the_ack_goes_out_in_poll() {
    let mut config = PairConfig::new([1, 2]);
    config.stack.switches = config.stack.switches.with(Switch::AnswerAck, false);
    let mut world = World::new(&config);
    let (segments, acks) = world.sent();
    world.request();
    world.server.stack.poll_before_flush(world.now);
    assert_eq!(world.sent(), (segments + 1, acks + 1));
    assert!(!world.server.stack.has_output());
}
