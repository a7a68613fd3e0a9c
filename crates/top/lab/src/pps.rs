//! `wirespeed lab pps`: packets a second that reach an application, by payload size.
//!
//! Called by: the lab.
//!
//! Two stacks run on one thread, joined in memory. The figure includes the work of both ends, with
//! the applications' copies and checksums. TCP is a bulk transfer over a link whose MTU fits the
//! payload exactly; UDP sends datagrams of that size.

use std::net::SocketAddr;
use std::time::Instant as Clock;

use base::{Instant, Mtu, Owner};
use clap::{ArgMatches, FromArgMatches};
use serde_json::{Value, json};
use stack::pair::{End, PairConfig, pair};
use stack::{CallError, ListenConfig};

use crate::figures::{Figures, ends, listed};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::pool::Progress;
use crate::report::{Column, Format, Report, Span, column, with_missing};
use crate::{Error, Run};

/// Payloads, in bytes; the last is the largest that fits MTU 1500 with timestamps.
const PAYLOADS: [usize; 6] = [64, 128, 256, 512, 1024, 1448];

/// IPv4 and TCP with timestamps.
const TCP_HEADERS: usize = 20 + 32;

const PORT: u16 = 5001;

/// Datagrams that are sent before the other end receives them.
const AT_ONCE: usize = 32;

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Seconds of a round
    #[arg(long, value_name = "S", default_value_t = 0.2)]
    seconds: f64,
}

const COLUMNS: &[Column] = &[
    column("protocol", "", "", Format::Heading),
    column("payload", "payload", "bytes of payload a packet", Format::Number(0)),
    column("pps", "packets/s", "packets a second to the application, median", Format::Number(0)),
    column("low_pps", "least", "packets a second, the slowest round", Format::Number(0)),
    column("high_pps", "most", "packets a second, the fastest round", Format::Number(0)),
    column("ns", "ns each", "ns a packet, both ends", Format::Number(0)),
    column("gbps", "Gb/s", "Gb/s of payload", Format::Number(2)),
];

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        }
    }
}

struct Sample {
    protocol: Protocol,
    payload: usize,
    /// Packets a second of each round.
    rounds: Vec<f64>,
}

/// Measure all payloads with both protocols.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    if !(0.01..=60.0).contains(&options.seconds) {
        return Err(Error::Usage("--seconds takes 0.01 to 60".to_owned()));
    }
    let rounds = if run.common.quick { 3 } else { 15 };
    let mut samples: Vec<Sample> = [Protocol::Tcp, Protocol::Udp]
        .into_iter()
        .flat_map(|protocol| {
            PAYLOADS.map(|payload| Sample { protocol, payload, rounds: Vec::new() })
        })
        .collect();
    let mut progress = Progress::new(rounds * samples.len());
    for round in 0..rounds {
        for at in 0..samples.len() {
            progress.at(round * samples.len() + at);
            let sample = &mut samples[at];
            if run.is_stopped() {
                break;
            }
            let pps = match sample.protocol {
                Protocol::Tcp => tcp(sample.payload, options.seconds, run)?,
                Protocol::Udp => udp(sample.payload, options.seconds, run)?,
            };
            sample.rounds.extend(pps);
        }
    }
    Ok(report(&options, rounds, &samples))
}

fn failed(what: &str, error: impl std::fmt::Debug) -> Error {
    Error::Failed(format!("{what}: {error:?}; please report this line"))
}

/// Both ends, and their clock.
struct World {
    client: End,
    server: End,
    clock: Clock,
}

impl World {
    fn new(mtu: usize) -> Result<World, Error> {
        let mut config = PairConfig::new([0x320, 0x400]);
        config.wire.mtu = Mtu::new(mtu).ok_or_else(|| failed("no MTU", mtu))?;
        let (client, server) = pair(&config);
        Ok(World { client, server, clock: Clock::now() })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1)
    }
}

/// Segments a second; `None` if the run was stopped.
fn tcp(payload: usize, seconds: f64, run: &Run<'_>) -> Result<Option<f64>, Error> {
    let mut world = World::new(payload + TCP_HEADERS)?;
    let to = SocketAddr::new(world.server.addr, PORT);
    let listening = world.server.stack.tcp_listen(to, ListenConfig::default());
    let listener = listening.map_err(|e| failed("listen", e))?;
    let now = world.now();
    let connecting =
        world.client.stack.tcp_connect(to, None, &tcp::Config::default(), Owner::program(), now);
    let stream = connecting.map_err(|e| failed("connect", e))?;
    let (data, mut into) = (vec![7; 64 << 10], vec![0; 128 << 10]);
    let (mut accepted, mut bytes, mut start) = (None, 0, None);
    while !run.is_stopped() {
        let now = world.now();
        world.client.stack.poll(now);
        while world.client.stack.next_event().is_some() {}
        let _ = world.client.stack.tcp_write(stream, &data);
        world.client.stack.flush();
        world.server.stack.poll(now);
        while world.server.stack.next_event().is_some() {}
        accepted = accepted.or_else(|| world.server.stack.tcp_accept(listener));
        while let Some(stream) = accepted {
            match world.server.stack.tcp_read(stream, &mut into) {
                Ok(0) | Err(CallError::WouldBlock) => break,
                Ok(n) => bytes += n,
                Err(error) => return Err(failed("read", error)),
            }
        }
        world.server.stack.flush();
        let (from, before) = match start {
            None if bytes > 1 << 20 => *start.insert((Clock::now(), bytes)),
            None => continue,
            Some(known) => known,
        };
        let took = from.elapsed().as_secs_f64();
        if took >= seconds {
            return Ok(Some((bytes - before) as f64 / payload as f64 / took));
        }
    }
    Ok(None)
}

/// Datagrams a second; `None` if the run was stopped.
fn udp(payload: usize, seconds: f64, run: &Run<'_>) -> Result<Option<f64>, Error> {
    let mut world = World::new(1_500)?;
    let to = SocketAddr::new(world.server.addr, PORT);
    let bind =
        |end: &mut End, at| end.stack.udp_bind(at, Owner::program()).map_err(|e| failed("bind", e));
    let receiver = bind(&mut world.server, to)?;
    let from = SocketAddr::new(world.client.addr, 0);
    let sender = bind(&mut world.client, from)?;
    let (data, mut into) = (vec![7; payload], vec![0; payload]);
    let (mut count, mut start) = (0u64, None);
    while !run.is_stopped() {
        let now = world.now();
        world.client.stack.poll(now);
        for _ in 0..AT_ONCE {
            let sent = world.client.stack.udp_send(sender, to, &data, now);
            sent.map_err(|e| failed("send", e))?;
        }
        world.client.stack.flush();
        world.server.stack.poll(now);
        while world.server.stack.next_event().is_some() {}
        while let Some(datagram) = world.server.stack.udp_receive(receiver) {
            into.copy_from_slice(datagram.payload.as_slice());
            world.server.stack.give_back(datagram.payload);
            count += 1;
        }
        world.server.stack.flush();
        let (from, before) = match start {
            None if count > 1_000 => *start.insert((Clock::now(), count)),
            None => continue,
            Some(known) => known,
        };
        let took = from.elapsed().as_secs_f64();
        if took >= seconds {
            return Ok(Some((count - before) as f64 / took));
        }
    }
    Ok(None)
}

fn report(options: &Options, rounds: usize, samples: &[Sample]) -> Report {
    let row = |sample: &Sample| {
        let span = Span::of(sample.rounds.iter().copied());
        let pps = span.map(|span| span.mid);
        vec![
            json!(sample.protocol.name()),
            json!(sample.payload),
            json!(pps),
            json!(span.map(|span| span.low)),
            json!(span.map(|span| span.high)),
            json!(pps.map(|pps| 1e9 / pps)),
            json!(pps.map(|pps| pps * sample.payload as f64 * 8e-9)),
        ]
    };
    let as_json = |sample: &Sample| {
        json!({
            "protocol": sample.protocol.name(),
            "payload": sample.payload,
            "pps": sample.rounds,
        })
    };
    let notes = vec![
        "Two stacks on one thread, joined in memory; the figures include the work of both ends. \
         IPv4; checksums are computed and verified, and the application copies the data out."
            .to_owned(),
    ];
    let unmeasured = samples.iter().filter(|sample| sample.rounds.is_empty()).count();
    let notes = with_missing(notes, unmeasured, samples.len(), "rows");
    let rows: Vec<_> = samples.iter().map(row).collect();
    Report {
        settings: json!({ "seconds": options.seconds, "rounds": rounds }),
        shows: shows(&Figures::of(COLUMNS, &rows)),
        columns: COLUMNS.to_vec(),
        rows,
        fits: Vec::new(),
        samples: samples.iter().map(as_json).collect::<Vec<Value>>(),
        notes,
        plot: Some(Plot::Dots(dots(samples))),
    }
}

/// Sentences on the figures: packets a second at the cheapest and the dearest size, and the highest
/// bit rate.
fn shows(figures: &Figures<'_>) -> Vec<String> {
    let names = figures.texts("protocol");
    let each = |key: &'static str, words: &dyn Fn(f64, f64, f64, f64) -> String| {
        let said = names.iter().filter_map(|name| {
            let of = figures.rows().filter(|row| row.text("protocol") == *name);
            let [(low, few), (high, many)] = ends(of, key)?;
            let (few, many) = (few.number("payload")?, many.number("payload")?);
            Some(format!("{name} {}", words(low, few, high, many)))
        });
        listed(&said.collect::<Vec<_>>())
    };
    let packets = each("pps", &|low, few, high, many| {
        let (high, low) = (high / 1e3, low / 1e3);
        format!("{high:.0} thousand ({many:.0} bytes each) to {low:.0} thousand ({few:.0} bytes)")
    });
    let bits = each("gbps", &|_, _, high, many| format!("{high:.2} Gb/s ({many:.0} bytes)"));
    if packets.is_empty() {
        return Vec::new();
    }
    vec![
        format!("Packets a second from application to application, on one core: {packets}."),
        format!("The most payload is carried by {bits}."),
    ]
}

fn dots(samples: &[Sample]) -> Dots {
    let point = |sample: &Sample| Point {
        row: PAYLOADS.iter().position(|&p| p == sample.payload).unwrap_or(0),
        series: usize::from(sample.protocol == Protocol::Udp),
        span: Span::of(sample.rounds.iter().map(|pps| pps / 1e6)),
        quoted: None,
    };
    Dots {
        title: "Packets that reach an application".to_owned(),
        subtitle: "Both ends on one thread, joined in memory".to_owned(),
        axis: "million a second".to_owned(),
        row_title: "payload:".to_owned(),
        rows: PAYLOADS.iter().map(|p| format!("{p} bytes")).collect(),
        series: vec!["TCP".to_owned(), "UDP".to_owned()],
        panels: vec![Panel {
            title: String::new(),
            rows: Vec::new(),
            points: samples.iter().map(point).collect(),
        }],
        quoted: String::new(),
    }
}
