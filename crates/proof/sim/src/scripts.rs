//! Random scripts of applications: bulk in one direction and in both, requests and replies, readers
//! that pause, and every kind of close.
//!
//! Called by: `scenario`.

use base::Duration;
use tcp::cc::Algorithm;
use tcp::{Config, Ecn};

use crate::app::{Finish, Read, Script, Write};
use crate::scenario::Draw;

/// The scripts of both ends of a connection.
pub(crate) fn draw(draw: &mut Draw) -> (Script, Script) {
    match draw.range(0, 9) {
        0..=2 => (sender(draw), receiver(draw)),
        3 => (receiver(draw), sender(draw)),
        4 => (both_ways(draw), both_ways(draw)),
        5..=6 => request_and_reply(draw),
        7 => (sender(draw), stops_and_leaves(draw)),
        8 => (leaves_early(draw), both_ways(draw)),
        _ => (both_ways(draw), leaves_early(draw)),
    }
}

fn bytes(draw: &mut Draw) -> u64 {
    draw.magnitude(1, 3_000_000)
}

fn graceful(writes: Vec<Write>, reads: Vec<Read>) -> Script {
    let mut script = Script { writes, reads, finish: Finish::Close };
    script.writes.push(Write::Finish);
    script.reads.push(Read::ToEnd);
    script
}

/// An end that sends, sometimes with pauses.
fn sender(draw: &mut Draw) -> Script {
    let mut writes = vec![Write::Bytes(bytes(draw))];
    while draw.happens(0.3) && writes.len() < 8 {
        writes.push(Write::Sleep(Duration::from_millis(draw.magnitude(1, 10_000))));
        writes.push(Write::Bytes(bytes(draw)));
    }
    graceful(writes, vec![])
}

/// An end that reads to the end of the stream, sometimes with stops that are long enough for the
/// window to close.
fn receiver(draw: &mut Draw) -> Script {
    let mut reads = Vec::new();
    while draw.happens(0.5) && reads.len() < 8 {
        reads.push(Read::Bytes(bytes(draw) / 4 + 1));
        reads.push(Read::Stop(Duration::from_millis(draw.magnitude(10, 20_000))));
    }
    // The end closes its own half at once, or only after the peer's first byte.
    let writes = if draw.happens(0.5) { vec![Write::AwaitRead(1)] } else { vec![] };
    graceful(writes, reads)
}

fn both_ways(draw: &mut Draw) -> Script {
    graceful(vec![Write::Bytes(bytes(draw))], vec![])
}

fn request_and_reply(draw: &mut Draw) -> (Script, Script) {
    let (request, reply) = (draw.magnitude(1, 5_000), draw.magnitude(1, 200_000));
    let (mut client, mut server) = (Vec::new(), Vec::new());
    for turn in 1..=draw.magnitude(1, 30) {
        client.extend([Write::Bytes(request), Write::AwaitRead(turn * reply)]);
        server.extend([Write::AwaitRead(turn * request), Write::Bytes(reply)]);
        if draw.happens(0.1) {
            client.push(Write::Sleep(Duration::from_millis(draw.magnitude(1, 5_000))));
        }
    }
    (graceful(client, vec![]), graceful(server, vec![]))
}

/// An end that reads a part, and closes with data unread, so that the peer is reset.
fn stops_and_leaves(draw: &mut Draw) -> Script {
    let reads = vec![
        Read::Bytes(bytes(draw) / 4 + 1),
        Read::Stop(Duration::from_millis(draw.magnitude(1, 2_000))),
    ];
    let finish = if draw.happens(0.5) { Finish::Close } else { Finish::Abort };
    Script { writes: vec![], reads, finish }
}

/// An end that writes, and closes or resets without reading.
fn leaves_early(draw: &mut Draw) -> Script {
    let finish = if draw.happens(0.5) { Finish::Close } else { Finish::Abort };
    Script { writes: vec![Write::Bytes(bytes(draw))], reads: vec![], finish }
}

/// A connection's settings.
pub(crate) fn config(draw: &mut Draw) -> Config {
    let mut config = Config::default();
    if draw.happens(0.5) {
        let [receive, send] = [(); 2].map(|()| draw.magnitude(4_096, 4_000_000) as u32);
        if draw.happens(0.5) {
            config.set_fixed_buffers(receive, send);
        } else {
            // Buffers that are tuned, from an initial size that may be small to a maximum that may
            // be close to it.
            (config.receive_buffer_bytes, config.send_buffer_bytes) = (receive, send);
            config.receive_buffer_max_bytes = draw.magnitude(65_536, 1 << 30) as u32;
            config.send_buffer_max_bytes = draw.magnitude(65_536, 1 << 30) as u32;
        }
    }
    config.algorithm = draw.one_of(Algorithm::ALL);
    config.no_delay = draw.happens(0.5);
    config.timestamps = !draw.happens(0.2);
    config.sack = !draw.happens(0.2);
    config.window_scaling = !draw.happens(0.2);
    config.ecn = draw.one_of(&[Ecn::Off, Ecn::Accept, Ecn::On, Ecn::On]);
    if draw.happens(0.2) {
        config.ack_delay = Duration::from_millis(draw.range(1, 400));
    }
    config
}

/// Turn keepalive on, for a connection whose peer may vanish silently.
pub(crate) fn keep_alive(config: &mut Config) {
    config.keepalive_idle = Some(Duration::from_secs(20));
    config.keepalive_interval = Duration::from_secs(5);
    config.keepalive_probes_max = 9;
}

/// A short description of a script and its connection's settings.
pub(crate) fn describe(script: &Script, config: &Config) -> String {
    let mut text = String::new();
    for (index, step) in script.writes.iter().enumerate() {
        if index == 6 {
            text.push_str(" ...");
            break;
        }
        text.push_str(&format!(" {step:?}"));
    }
    format!(
        "[{} |{text} | {:?} | {:?}; buffers {}..{}/{}..{} {}{}{}{} ECN {:?} ack delay {} ms]",
        config.algorithm.name(),
        script.reads,
        script.finish,
        config.send_buffer_bytes,
        config.send_buffer_max_bytes,
        config.receive_buffer_bytes,
        config.receive_buffer_max_bytes,
        if config.timestamps { "T" } else { "-" },
        if config.sack { "S" } else { "-" },
        if config.window_scaling { "W" } else { "-" },
        if config.no_delay { "N" } else { "-" },
        config.ecn,
        config.ack_delay.as_millis(),
    )
}
