//! The rows of bench `core`: this stack compared with smoltcp, gVisor and the kernel. Called by
//! `main.rs`. Each row is a small function: `ours.rs` measures this stack, `peers` measures the
//! other one, and `harness.rs` computes the ratio from pairs of runs. Unless a row says otherwise,
//! a ratio is our gigabits per CPU-second divided by theirs. For each peer trial runs find the best
//! of several settings; the row's note names them.

use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;

use anyhow::{Result, anyhow};

use crate::drive::Bulk;
use crate::harness::{Bench, Better, Figure, Spec, best_of, spec};
use crate::measure::{Measurement, pattern};
use crate::peers::kernel::{self, Placement, Settings as Kernel};
use crate::peers::latency::{Waiting, ping_pong};
use crate::peers::{Kind, Veth, gvisor, smoltcp};
use crate::{hot, ours};

/// The rows, each with the value that it must reach and the value that it aims at.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec("memory MTU 1500 / smoltcp", Higher, 2.5, 3.2, "x", memory_1500_smoltcp),
        spec("memory MTU 65535 / smoltcp", Higher, 2.3, 3.2, "x", memory_65535_smoltcp),
        spec("memory MTU 65535 / kernel loopback", Higher, 2.0, 3.0, "x", memory_65535_loopback),
        spec("memory MTU 1500 / gVisor", Higher, 40.0, 55.0, "x", memory_1500_gvisor),
        spec("super-segments / kernel veth GSO", Higher, 2.5, 3.7, "x", super_segments_veth),
        spec("one 1 MB write / 16 KB writes", Higher, 0.95, 1.0, "x", one_big_write),
        spec("64-byte writes per second / kernel loopback", Higher, 5.0, 10.0, "x", small_writes),
        spec(
            "64-byte ping-pong polled on one thread: kernel blocking p50 / ours",
            Higher,
            20.0,
            40.0,
            "x",
            ping_pong_blocking,
        ),
        spec(
            "64-byte ping-pong polled: kernel spinning p50 / ours",
            Higher,
            15.0,
            30.0,
            "x",
            ping_pong_spinning,
        ),
        spec("1,000 flows, one segment a turn / one flow", Higher, 0.5, 0.65, "x", thousand_flows),
        spec(
            "bytes per idle endpoint, 10,000 connections",
            Lower,
            1500.0,
            600.0,
            "bytes",
            idle_endpoint,
        ),
        spec(
            "instructions per predicted segment",
            Lower,
            380.0,
            300.0,
            "instructions",
            predicted_segment,
        ),
        spec("checksum 8 KB hot / byte loop", Higher, 15.0, 24.0, "x", checksum_hot),
        spec("copy and sum 8 KB hot / memcpy", Higher, 0.75, 0.92, "x", copy_and_sum_hot),
        spec(
            "2,048-byte sender into a 32 KB window, 10 ms path, 200 ms delayed ACK: \
             with the send-space estimate / without",
            Higher,
            15.0,
            20.0,
            "x",
            send_space_estimate,
        ),
        spec("IPv6 / IPv4, memory MTU 1500", Higher, 0.95, 0.99, "x", v6_over_v4),
    ]
};

/// A function that measures our bulk transfer with a given shape, for `Bench::ratio`.
fn ours_bulk(shape: Bulk) -> impl FnMut(f64) -> Result<Measurement> {
    move |seconds| ours::bulk(shape, seconds)
}

fn memory_1500_smoltcp(b: &Bench) -> Result<Figure> {
    against_smoltcp(b, 1500)
}

fn memory_65535_smoltcp(b: &Bench) -> Result<Figure> {
    against_smoltcp(b, 65535)
}

fn against_smoltcp(b: &Bench, mtu: usize) -> Result<Figure> {
    let mut ours = ours_bulk(Bulk { mtu, ..Bulk::default() });
    ours(b.trial_s)?;
    let best = best_of(&smoltcp::candidates(mtu), 2, Better::Higher, |settings| {
        smoltcp::bulk(settings, b.trial_s)?.gbit_per_cpu_s()
    })?;
    b.ratio(Measurement::gbit_per_cpu_s, ours, |seconds| smoltcp::bulk(best, seconds))
}

fn memory_65535_loopback(b: &Bench) -> Result<Figure> {
    let mut ours = ours_bulk(Bulk { mtu: 65535, ..Bulk::default() });
    ours(b.trial_s)?;
    let best = best_of(&Placement::all(b.cores), 3, Better::Higher, |placement| {
        kernel::loopback(b.cores, Kernel::bulk(placement), b.trial_s)?.gbit_per_cpu_s()
    })?;
    let theirs = |seconds| kernel::loopback(b.cores, Kernel::bulk(best), seconds);
    b.ratio(Measurement::gbit_per_cpu_s, ours, theirs)
}

fn memory_1500_gvisor(b: &Bench) -> Result<Figure> {
    let mut ours = ours_bulk(Bulk::default());
    ours(b.trial_s)?;
    let program = gvisor_program(b)?;
    let best = best_of(&gvisor::candidates(1500, b.cores), 2, Better::Higher, |settings| {
        gvisor::bulk(program, b.cores, settings, b.trial_s.max(0.3))?.gbit_per_cpu_s()
    })?;
    let theirs = |seconds| gvisor::bulk(program, b.cores, best, seconds);
    b.ratio(Measurement::gbit_per_cpu_s, ours, theirs)
}

/// The path of our program that runs gVisor's stack; it is built on first use.
pub fn gvisor_program(b: &Bench) -> Result<&Path> {
    let built = b.learned.gvisor.get_or_init(|| {
        eprintln!("    building bench/gvisor with go build");
        gvisor::build(b.cores).map_err(|why| format!("{why:#}"))
    });
    built.as_deref().map_err(|why| anyhow!("{why}"))
}

/// The namespaces, joined by a veth pair, for rows that compare with the kernel; made on first use.
pub fn veth(b: &Bench) -> Result<&Veth> {
    let made =
        b.learned.veth.get_or_init(|| Veth::new(Kind::Offload).map_err(|why| format!("{why:#}")));
    made.as_ref().map_err(|why| anyhow!("{why}"))
}

fn super_segments_veth(b: &Bench) -> Result<Figure> {
    let shape = Bulk { super_segments: true, link_checksums: true, ..Bulk::default() };
    let mut ours = ours_bulk(shape);
    ours(b.trial_s)?;
    let made = ours::bulk(Bulk { link_checksums: false, ..shape }, b.seconds)?.gbit_per_cpu_s()?;
    let veth = veth(b)?;
    let best = best_of(&Placement::all(b.cores), 3, Better::Higher, |placement| {
        veth.bulk(b.cores, Kernel::bulk(placement), b.trial_s)?.gbit_per_cpu_s()
    })?;
    let theirs = |seconds| veth.bulk(b.cores, Kernel::bulk(best), seconds);
    let mut figure = b.ratio(Measurement::gbit_per_cpu_s, ours, theirs)?;
    let also = "; on both sides the link does the checksums; our figure if our stack does them: ";
    figure.note = format!("{}{also}{made:.4}", figure.note);
    Ok(figure)
}

fn one_big_write(b: &Bench) -> Result<Figure> {
    // Both sides write from the same megabyte of memory, because reading a whole megabyte costs
    // more than reading one part of it again and again.
    let shape = Bulk { payload: 1 << 20, ..Bulk::default() };
    let big = ours_bulk(Bulk { write: 1 << 20, ..shape });
    let small = ours_bulk(Bulk { write: 16 << 10, ..shape });
    b.close_ratio(Measurement::gbit_per_cpu_s, big, small)
}

fn small_writes(b: &Bench) -> Result<Figure> {
    ours::small_writes(64, b.trial_s)?;
    let candidates = kernel::small_write_candidates(b.cores);
    let best = best_of(&candidates, 2, Better::Higher, |settings| {
        kernel::loopback(b.cores, settings, b.trial_s)?.units_per_cpu_s()
    })?;
    let theirs = |seconds| kernel::loopback(b.cores, best, seconds);
    b.ratio(Measurement::units_per_cpu_s, |seconds| ours::small_writes(64, seconds), theirs)
}

fn ping_pong_blocking(b: &Bench) -> Result<Figure> {
    against_ping_pong(b, &Waiting::blocking(b.cores))
}

fn ping_pong_spinning(b: &Bench) -> Result<Figure> {
    against_ping_pong(b, &Waiting::spinning(b.cores))
}

/// The ratio of these rows is the peer's latency over ours, because a lower latency is better.
fn against_ping_pong(b: &Bench, candidates: &[Waiting]) -> Result<Figure> {
    ours::ping_pong(64, b.trial_s)?;
    let best = best_of(candidates, 3, Better::Lower, |waiting| {
        ping_pong(b.cores, waiting, b.trial_s)?.p50_ns()
    })?;
    let theirs = |seconds| ping_pong(b.cores, best, seconds);
    b.ratio(Measurement::p50_ns, theirs, |seconds| ours::ping_pong(64, seconds))
}

fn thousand_flows(b: &Bench) -> Result<Figure> {
    let many = ours_bulk(Bulk { flows: 1000, ..Bulk::default() });
    b.close_ratio(Measurement::gbit_per_cpu_s, many, ours_bulk(Bulk::default()))
}

fn idle_endpoint(_: &Bench) -> Result<Figure> {
    let value = ours::idle_endpoint_bytes(10_000)?;
    Ok(Figure {
        value,
        samples: vec![value],
        note: "growth of resident memory for each endpoint, free buffers included".into(),
    })
}

fn predicted_segment(_: &Bench) -> Result<Figure> {
    let value = ours::predicted_segment_instructions()?;
    let note = "without copying and summing the payload, counted by valgrind".to_owned();
    Ok(Figure { value, samples: vec![value], note })
}

fn checksum_hot(b: &Bench) -> Result<Figure> {
    let data = pattern(hot::BYTES);
    b.hot_ratio(
        Measurement::gbit_per_cpu_s,
        |seconds| hot::passes("checksum", seconds, || ours::checksum(black_box(&data))),
        |seconds| hot::passes("byte loop", seconds, || ours::checksum_byte_loop(black_box(&data))),
    )
}

fn copy_and_sum_hot(b: &Bench) -> Result<Figure> {
    let from = pattern(hot::BYTES);
    // Both sides copy the same bytes. The destination's offset in its page is far from the
    // source's.
    let memory = RefCell::new(vec![0_u8; 2 * hot::BYTES]);
    let page_offset = |at: *const u8| at as usize % 4096;
    let apart = (page_offset(from.as_ptr()) + 6144 - page_offset(memory.borrow().as_ptr())) % 4096;
    let to = apart..apart + hot::BYTES;
    b.hot_ratio(
        Measurement::gbit_per_cpu_s,
        |seconds| {
            let mut memory = memory.borrow_mut();
            hot::passes("copy and sum", seconds, || {
                ours::copy_and_sum(black_box(&mut memory[to.clone()]), black_box(&from))
            })
        },
        |seconds| {
            let mut memory = memory.borrow_mut();
            hot::passes("memcpy", seconds, || {
                black_box(&mut memory[to.clone()]).copy_from_slice(black_box(&from));
                Ok(())
            })
        },
    )
}

fn send_space_estimate(_: &Bench) -> Result<Figure> {
    let with = ours::small_sender_bytes_per_s(true)?;
    let without = ours::small_sender_bytes_per_s(false)?;
    let note = format!("{with:.0} bytes/s with, {without:.0} without, in virtual time");
    Ok(Figure { value: with / without, samples: vec![with / without], note })
}

fn v6_over_v4(b: &Bench) -> Result<Figure> {
    let v6 = ours_bulk(Bulk { v6: true, ..Bulk::default() });
    b.close_ratio(Measurement::gbit_per_cpu_s, v6, ours_bulk(Bulk::default()))
}
