//! Calls over UDP in virtual time: calls that are lost are repeated, and few others are.

use std::collections::VecDeque;

use base::{Duration, Instant, KeyedHash};

use super::{PROGRAM, peer, server};
use crate::client::{CallError, CallId, Config, DatagramClient};
use crate::limits::{RTO_MAX, RTO_MIN};
use crate::server::Server;
use crate::xdr::Decoder;

/// A path with a delay that loses some datagrams, the same ones in each run.
struct World {
    now: Instant,
    client: DatagramClient,
    server: Server,
    delay: Duration,
    loss_percent: u64,
    draws: u64,
    to_server: VecDeque<(Instant, Vec<u8>)>,
    to_client: VecDeque<(Instant, Vec<u8>)>,
    sent: Vec<Instant>,
    results: Vec<(CallId, u32)>,
    expired: usize,
}

impl World {
    fn new(config: Config, delay_ms: u64, loss_percent: u64) -> World {
        World {
            now: Instant::from_nanos(1),
            client: DatagramClient::new(config, KeyedHash::new(3, 4)),
            server: server(),
            delay: Duration::from_millis(delay_ms),
            loss_percent,
            draws: 0,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            sent: Vec::new(),
            results: Vec::new(),
            expired: 0,
        }
    }

    fn is_lost(&mut self) -> bool {
        self.draws += 1;
        KeyedHash::new(5, 6).hash([self.draws]) % 100 < self.loss_percent
    }

    /// Do everything that happens at the current time, then advance to the time of the next event.
    fn step(&mut self) {
        while self.client.next_expired(self.now).is_some() {
            self.expired += 1;
        }
        while let Some(datagram) = self.client.next_datagram(self.now).map(<[u8]>::to_vec) {
            self.sent.push(self.now);
            if !self.is_lost() {
                self.to_server.push_back((self.now + self.delay, datagram));
            }
        }
        while self.to_server.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, datagram) = self.to_server.pop_front().expect("it is there");
            let mut reply = Vec::new();
            let answered = self.server.answer_datagram(&datagram, peer(), self.now, &mut reply);
            if answered && !self.is_lost() {
                self.to_client.push_back((self.now + self.delay, reply));
            }
        }
        while self.to_client.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, datagram) = self.to_client.pop_front().expect("it is there");
            if let Some((id, results)) = self.client.on_datagram(&datagram, self.now) {
                let results = results.expect("success");
                self.results.push((id, Decoder::whole(results).expect("a number")));
            }
        }
        if self.client.waiting() == 0 {
            return;
        }
        let next = [&self.to_server, &self.to_client].into_iter().filter_map(|q| q.front());
        let next = next.map(|(at, _)| *at).min().unwrap_or(Instant::NEVER);
        self.now = next.min(self.client.deadline()).max(self.now);
    }

    fn run(&mut self) {
        for _ in 0..1_000_000 {
            if self.client.waiting() == 0 {
                return;
            }
            self.step();
        }
        panic!("the calls did not end");
    }
}

#[test]
fn without_a_loss_nothing_is_repeated_and_the_time_out_follows_the_round_trip() {
    let mut world = World::new(Config::new(PROGRAM, 3), 100, 0);
    for _ in 0..200 {
        world.client.call(2, &(), world.now).expect("room");
        world.run();
    }
    assert_eq!(world.client.counts().retransmits, 0);
    let rto = world.client.rto();
    assert!(rto >= Duration::from_millis(200) && rto < Duration::from_millis(300), "{rto:?}");
    assert!(rto >= RTO_MIN);
}

#[test]
fn time_outs_double_with_jitter_until_the_call_is_given_up() {
    let config = Config { timeout: Duration::from_secs(120), ..Config::new(PROGRAM, 3) };
    let mut world = World::new(config, 1, 100);
    world.client.call(2, &(), world.now).expect("room");
    world.run();
    assert_eq!((world.expired, world.results.len()), (1, 0));
    let gaps: Vec<u64> = world.sent.windows(2).map(|w| w[1].since(w[0]).as_millis()).collect();
    for (n, &gap) in gaps.iter().enumerate() {
        let least = (1_000 << n).min(RTO_MAX.as_millis());
        assert!((least..=least * 5 / 4).contains(&gap), "try {n} after {gap} ms: {gaps:?}");
    }
    assert!(gaps.len() >= 8, "{gaps:?}");
    assert!(gaps.iter().any(|gap| gap % 1_000 != 0), "no jitter: {gaps:?}");
}

#[test]
fn on_a_lossy_path_each_call_is_carried_out_once_and_there_is_no_storm() {
    let config = Config { timeout: Duration::from_secs(600), ..Config::new(PROGRAM, 3) };
    let mut world = World::new(config, 20, 20);
    for _ in 0..256 {
        world.client.call(2, &(), world.now).expect("room");
    }
    world.run();
    let mut counts: Vec<u32> = world.results.iter().map(|&(_, count)| count).collect();
    counts.sort_unstable();
    // Each call got its own count: none was carried out twice, and none is missing.
    assert_eq!(counts, (1..=256).collect::<Vec<u32>>());
    let repeated = world.client.counts().retransmits;
    // A fifth of the datagrams is lost in each direction: 256 * (1 / 0.64 - 1) = 144 calls have to
    // be repeated.
    assert!((60..250).contains(&repeated), "{repeated} calls were repeated");
    assert!(
        world.server.repeated() > 20,
        "only {} replies came from the cache",
        world.server.repeated()
    );
}

#[test]
fn the_window_grows_with_replies_and_halves_once_for_a_round_trip() {
    let mut world = World::new(Config::new(PROGRAM, 3), 10, 0);
    for _ in 0..200 {
        world.client.call(2, &(), world.now).expect("room");
    }
    world.run();
    let grown = world.client.window();
    assert!(grown >= 16, "{grown}");
    world.loss_percent = 100;
    for _ in 0..grown {
        world.client.call(2, &(), world.now).expect("room");
    }
    let halved = world.client.counts().halved;
    let sent = world.sent.len();
    while world.sent.len() < sent + grown + 1 {
        world.step();
    }
    // All of these calls time out together, which counts as one loss.
    assert_eq!(world.client.counts().halved, halved + 1);
    assert_eq!(world.client.window(), grown / 2);
}

#[test]
fn a_forged_reply_and_a_late_one_change_nothing() {
    let mut client = DatagramClient::new(Config::new(PROGRAM, 3), KeyedHash::new(1, 9));
    let now = Instant::from_nanos(1);
    let id = client.call(2, &(), now).expect("room");
    let datagram = client.next_datagram(now).expect("a call").to_vec();
    let mut reply = Vec::new();
    assert!(server().answer_datagram(&datagram, peer(), now, &mut reply));
    for bit in 0..32 {
        let mut forged = reply.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert!(client.on_datagram(&forged, now).is_none());
    }
    assert_eq!(client.on_datagram(&reply, now).map(|(id, _)| id), Some(id));
    assert!(client.on_datagram(&reply, now).is_none());
    assert_eq!(client.drops().of(base::DropReason::RpcNotAsked), 33);
}

#[test]
fn what_fits_no_datagram_and_what_is_one_too_many_is_refused() {
    let config = Config { calls: 2, ..Config::new(PROGRAM, 3) };
    let mut client = DatagramClient::new(config, KeyedHash::new(1, 9));
    let now = Instant::from_nanos(1);
    let large = crate::xdr::Bytes(vec![0; 65_507]);
    assert!(matches!(client.call(3, &large, now), Err(CallError::TooLong(_, 65_507))));
    client.call(2, &(), now).expect("room");
    client.call(2, &(), now).expect("room");
    assert!(matches!(client.call(2, &(), now), Err(CallError::TooManyCalls(2))));
}
