//! Prints nanoseconds per call of every checksum rung at the relevant lengths.
//!
//! Run: `taskset -c 1 cargo run --release -p wirespeed-wire --example ladder`.
//! Prints lower quartiles of 31 samples, because others share the machine; cases are interleaved,
//! so that a slow phase of the machine affects all of them.
//! Hot: the same buffers again. Cold: a walk over 64 MB. `alias`: dst = src + 256 modulo 4096, the
//! distance at which loads are mistaken to depend on earlier stores (4K aliasing).

use std::hint::black_box;
use std::time::Instant;

use wirespeed_wire::checksum::Ladder;

const SAMPLES: usize = 31;

/// Offsets of the buffers.
#[derive(Clone, Copy)]
struct Offsets {
    name: &'static str,
    src: usize,
    dst: usize,
    stride: usize,
}

struct Memory {
    src: Vec<u8>,
    dst: Vec<u8>,
}

fn aligned(buffer: &[u8]) -> usize {
    buffer.as_ptr().align_offset(4096)
}

/// Nanoseconds per call of `f(src, dst)`, one sample.
fn sample(m: &mut Memory, place: Offsets, len: usize, f: &mut dyn FnMut(&[u8], &mut [u8])) -> f64 {
    let (src_base, dst_base) = (aligned(&m.src) + place.src, aligned(&m.dst) + place.dst);
    let span = (m.src.len() - 16_384).saturating_sub(len);
    let rounds = if place.stride == 0 { 400_000 / (len + 200) + 1 } else { 60 };
    let mut at = 0;
    let start = Instant::now();
    for _ in 0..rounds {
        let src = &m.src[src_base + at..][..len];
        let dst = &mut m.dst[dst_base + at..][..len];
        f(black_box(src), black_box(dst));
        if place.stride != 0 {
            at = ((at + place.stride) % span) & !4095;
        }
    }
    start.elapsed().as_nanos() as f64 / rounds as f64
}

fn lower_quartile(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 4]
}

type Case = (String, Box<dyn FnMut(&[u8], &mut [u8])>);

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for rung in Ladder::available() {
        cases.push((
            format!("sum {rung:?}"),
            Box::new(move |s, _| {
                black_box(black_box(rung).sum(s));
            }),
        ));
    }
    cases.push(("memcpy".into(), Box::new(|s, d| d.copy_from_slice(s))));
    for rung in Ladder::available().skip(2) {
        cases.push((
            format!("fused {rung:?}"),
            Box::new(move |s, d| {
                black_box(black_box(rung).copy_sum(s, d));
            }),
        ));
        cases.push((
            format!("separate {rung:?}"),
            Box::new(move |s, d| {
                black_box(black_box(rung).copy_then_sum(s, d));
            }),
        ));
    }
    cases
}

fn main() {
    let size = 64 << 20;
    let mut memory = Memory { src: vec![0x5a; size], dst: vec![1; size] };
    let big = 1_052_672; // 1 MB and a page: more than the caches that matter
    let places = [
        Offsets { name: "hot", src: 0, dst: 2048, stride: 0 },
        Offsets { name: "hot same page offset", src: 0, dst: 0, stride: 0 },
        Offsets { name: "hot alias", src: 0, dst: 256, stride: 0 },
        Offsets { name: "hot unaligned", src: 9, dst: 2048 + 54, stride: 0 },
        Offsets { name: "cold", src: 0, dst: 2048, stride: big },
    ];
    let lens = [8, 20, 32, 40, 64, 96, 128, 192, 256, 512, 1448, 4096, 8192, 16_384, 65_536];
    for place in places {
        let mut cases = cases();
        println!("\n{}: ns a call", place.name);
        print!("{:>8}", "bytes");
        for (name, _) in &cases {
            print!(" {name:>15}");
        }
        println!();
        for len in lens {
            let mut samples = vec![Vec::new(); cases.len()];
            for _ in 0..SAMPLES {
                for (i, (_, f)) in cases.iter_mut().enumerate() {
                    samples[i].push(sample(&mut memory, place, len, f.as_mut()));
                }
            }
            print!("{len:>8}");
            for s in samples {
                print!(" {:>15.1}", lower_quartile(s));
            }
            println!();
        }
    }
}
