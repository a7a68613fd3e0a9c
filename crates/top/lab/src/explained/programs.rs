//! Situations whose limit is a program, a buffer or a processor at one of the ends.
//!
//! Called by: `situations`.

use base::Duration;
use link::Settings;
use sim::app::{Finish, Read, Script, Write};
use sim::{Cost, PortSettings};
use tcp::Config;

use super::draw::Draw;
use super::world::Setup;

/// Steps in a list of steps that lasts longer than any draw.
const STEPS: usize = 20_000;

pub(super) fn script(writes: Vec<Write>, reads: Vec<Read>) -> Script {
    Script { writes, reads, finish: Finish::Close }
}

/// A program that writes everything it can.
pub(super) fn writer() -> Script {
    script(vec![Write::AwaitOpen, Write::Bytes(u64::MAX)], vec![])
}

/// A program that reads everything that comes.
pub(super) fn reader() -> Script {
    script(vec![], vec![Read::ToEnd])
}

/// A path with this round trip and no other limit, and a bulk flow over it.
pub(super) fn setup(round_trip: Duration) -> Setup {
    let way = Settings {
        delay: Duration::from_nanos(round_trip.as_nanos() / 2),
        queue_bytes: 1 << 30,
        ..Settings::default()
    };
    Setup {
        links: (way.clone(), way),
        ports: (PortSettings::default(), PortSettings::default()),
        config: (Config::default(), Config::default()),
        scripts: (writer(), reader()),
        costs: (Cost::default(), Cost::default()),
        hook: None,
        unplugged: None,
        from: Duration::from_secs(3),
        length: Duration::from_secs(5),
        at_acceptor: false,
    }
}

/// Fix the size of the receive buffer.
fn receive(config: &mut Config, bytes: u64) {
    (config.receive_buffer_bytes, config.receive_buffer_max_bytes) = (bytes as u32, 0);
}

/// A list that repeats these steps, [`STEPS`] in all.
fn again<T: Clone>(steps: &[T]) -> Vec<T> {
    steps.iter().cloned().cycle().take(STEPS).collect()
}

pub(super) fn slow_writer(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(1, 100));
    let (bytes, every) = (d.magnitude(200.0, 20_000.0) as u64, d.ms(5, 60));
    setup.scripts.0.writes = again(&[Write::AwaitOpen, Write::Bytes(bytes), Write::Sleep(every)]);
    setup
}

pub(super) fn slow_writer_there(d: &mut Draw) -> Setup {
    Setup { at_acceptor: true, ..slow_writer(d) }
}

pub(super) fn one_request(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(5, 100));
    let (request, answer) = (d.magnitude(500.0, 8000.0) as u64, d.range(50, 400));
    // With `no_delay` the last part of a request that is longer than a segment does not wait for an
    // ACK.
    setup.config.0.no_delay = true;
    let steps = 0..STEPS as u64 / 4;
    let asks =
        steps.clone().flat_map(|n| [Write::Bytes(request), Write::AwaitRead((n + 1) * answer)]);
    let answers = steps.flat_map(|n| [Write::AwaitRead((n + 1) * request), Write::Bytes(answer)]);
    setup.scripts = (
        script(core::iter::once(Write::AwaitOpen).chain(asks).collect(), vec![Read::ToEnd]),
        script(answers.collect(), vec![Read::ToEnd]),
    );
    setup
}

pub(super) fn nagle(d: &mut Draw) -> Setup {
    let round_trip_us = d.range(400, 10_000);
    let mut setup = setup(Duration::from_micros(round_trip_us));
    let [head, body, answer] = [0; 3].map(|_| d.range(50, 600));
    // The second write has to follow before the ACK of the first arrives, or it would not wait.
    let gap = Duration::from_micros(d.range(100, (round_trip_us / 2).min(1000)));
    let steps = 0..STEPS as u64 / 4;
    let asks = steps.clone().flat_map(|n| {
        let read = Write::AwaitRead((n + 1) * answer);
        [Write::Bytes(head), Write::Sleep(gap), Write::Bytes(body), read]
    });
    let answers =
        steps.flat_map(|n| [Write::AwaitRead((n + 1) * (head + body)), Write::Bytes(answer)]);
    setup.scripts = (
        script(core::iter::once(Write::AwaitOpen).chain(asks).collect(), vec![Read::ToEnd]),
        script(answers.collect(), vec![Read::ToEnd]),
    );
    setup
}

pub(super) fn idle(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(1, 100));
    let bytes = d.magnitude(1e3, 1e5) as u64;
    setup.scripts.0.writes =
        vec![Write::AwaitOpen, Write::Bytes(bytes), Write::Sleep(Duration::from_secs(3600))];
    setup
}

pub(super) fn send_buffer(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(10, 100));
    let bytes = d.magnitude(8e3, 64e3) as u32;
    (setup.config.0.send_buffer_bytes, setup.config.0.send_buffer_max_bytes) = (bytes, 0);
    setup
}

/// The time between two reads with which a program reads at most a quarter of the buffer in a round
/// trip. Windows are half of the buffer: if the program read faster, the buffer would be as much of
/// a limit as the program.
pub(super) fn quarter_of(
    buffer: u64,
    round_trip: Duration,
    bytes: u64,
    every: Duration,
) -> Duration {
    every.max(Duration::from_nanos(4 * round_trip.as_nanos() * bytes / buffer.max(1)))
}

pub(super) fn slow_reader(d: &mut Draw) -> Setup {
    let round_trip = d.ms(1, 40);
    let mut setup = setup(round_trip);
    let buffer = d.magnitude(64e3, 512e3) as u64;
    receive(&mut setup.config.1, buffer);
    let (bytes, every) = (d.magnitude(4e3, 32e3) as u64, d.ms(20, 100));
    let every = quarter_of(buffer, round_trip, bytes, every);
    setup.scripts.1.reads = again(&[Read::Bytes(bytes), Read::Stop(every)]);
    setup
}

pub(super) fn our_reader(d: &mut Draw) -> Setup {
    Setup { at_acceptor: true, ..slow_reader(d) }
}

pub(super) fn stopped_reader(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(1, 100));
    receive(&mut setup.config.1, d.magnitude(64e3, 512e3) as u64);
    let reads = d.range(1, 40);
    let mut list = again(&[Read::Bytes(20_000), Read::Stop(Duration::from_millis(100))]);
    list.truncate(2 * reads as usize);
    list.push(Read::Stop(Duration::from_secs(3600)));
    setup.scripts.1.reads = list;
    setup.from = Duration::from_secs(5);
    setup
}

pub(super) fn peer_window(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(10, 100));
    receive(&mut setup.config.1, d.magnitude(6e3, 64e3) as u64);
    setup
}

pub(super) fn our_buffer(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(10, 100));
    receive(&mut setup.config.1, d.magnitude(8e3, 64e3) as u64);
    Setup { at_acceptor: true, ..setup }
}

pub(super) fn silly_window(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(5, 100));
    receive(&mut setup.config.1, d.range(500, 2800));
    setup
}

pub(super) fn processor(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(1, 20));
    setup.costs.1.frame = Duration::from_micros(d.range(100, 400));
    Setup { at_acceptor: true, ..setup }
}
