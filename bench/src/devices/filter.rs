//! Compares our packet filters with libpcap's interpreter, on one matching packet in the cache.
//! Called by the table. libpcap compiles the text of the filter, so that both sides run the same
//! instructions. libpcap's side is `bpf_filter`, the innermost function that it exports.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bpf::{Filter, Libpcap, Packet, Program, linktype};

use crate::harness::{Bench, Figure};
use crate::measure::{Measurement, thread_cpu_s};

const TEXT: &str = "tcp and port 80 and host 10.0.0.1";
const SNAPLEN: u32 = 262_144;

/// How often the filter runs between two readings of the clock, so that the cost of the readings is
/// negligible.
const BATCH: u64 = 4096;

/// The filters of both sides, and the packet.
struct Sides {
    libpcap: Libpcap,
    filter: Filter,
    frame: [u8; 64],
}

impl Sides {
    fn new() -> Result<Sides> {
        let libpcap = Libpcap::load()?;
        let program = Program::new(&libpcap.compile(TEXT, linktype::ETHERNET, SNAPLEN)?)?;
        let sides = Sides { libpcap, filter: Filter::new(program), frame: request() };
        ensure!(sides.filter.is_compiled(), "our filter compiler does not support this machine");
        let (packet, program) = (Packet::whole(&sides.frame), sides.filter.program());
        let answers = [
            sides.libpcap.interpret(program, &packet),
            program.run(&packet),
            sides.filter.run(&packet),
        ];
        ensure!(
            answers == [SNAPLEN; 3],
            "the packet does not match in all three filters: {answers:?}"
        );
        Ok(sides)
    }

    fn theirs(&self, seconds: f64) -> Result<Measurement> {
        let program = self.filter.program();
        Ok(self.runs("bpf_filter", seconds, |packet| self.libpcap.interpret(program, packet)))
    }

    fn runs(&self, what: &str, seconds: f64, run: impl Fn(&Packet<'_>) -> u32) -> Measurement {
        let limit = Duration::from_secs_f64(seconds);
        let packet = Packet::whole(&self.frame);
        let (start, cpu, mut units) = (Instant::now(), thread_cpu_s(), 0);
        while start.elapsed() < limit {
            for _ in 0..BATCH {
                black_box(run(black_box(&packet)));
            }
            units += BATCH;
        }
        Measurement {
            bytes: units * self.frame.len() as u64,
            wall_s: start.elapsed().as_secs_f64(),
            cpu_s: thread_cpu_s() - cpu,
            units,
            p50_ns: None,
            settings: format!("{what}, ns a packet"),
        }
    }

    fn noted(&self, figure: Figure) -> Figure {
        let (count, version) = (self.filter.program().insns().len(), self.libpcap.version());
        Figure { note: format!("{}; {count} instructions, {version}", figure.note), ..figure }
    }
}

/// A packet from a client to port 80 of 10.0.0.1. The filter has to compare both ports and both
/// addresses to match it.
fn request() -> [u8; 64] {
    let mut frame = [0; 64];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[23] = 6;
    frame[26..34].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
    frame[34..38].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    frame
}

/// The time of libpcap's interpreter divided by that of our machine code.
pub(super) fn compiled(b: &Bench) -> Result<Figure> {
    let sides = Sides::new().context("making the filters of both sides")?;
    let ours = |seconds| Ok(sides.runs("our JIT", seconds, |packet| sides.filter.run(packet)));
    Ok(sides.noted(b.hot_ratio(ns_a_packet, |seconds| sides.theirs(seconds), ours)?))
}

/// The time of libpcap's interpreter divided by that of our interpreter.
pub(super) fn interpreted(b: &Bench) -> Result<Figure> {
    let sides = Sides::new().context("making the filters of both sides")?;
    let program = sides.filter.program();
    let ours = |seconds| Ok(sides.runs("our interpreter", seconds, |packet| program.run(packet)));
    Ok(sides.noted(b.hot_ratio(ns_a_packet, |seconds| sides.theirs(seconds), ours)?))
}

fn ns_a_packet(measured: &Measurement) -> Result<f64> {
    Ok(1e9 / measured.units_per_cpu_s()?)
}
