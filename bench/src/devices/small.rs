//! Segments of 64 bytes: the cost for a host that gets only small ones. Called by `devices`. The
//! MTU of the link leaves room for 64 bytes behind the headers, so that a bulk transfer has only
//! such segments, for the kernel as for us; the figure is bits a CPU-second of both ends.

use anyhow::Result;

use crate::drive::Bulk;
use crate::harness::{Bench, Better, Figure, best_of};
use crate::measure::Measurement;
use crate::ours;
use crate::outside::small_segments;
use crate::peers::kernel::{Placement, Settings};
use crate::peers::veth::{Kind, SMALL_MTU, Veth};

fn against_veth(b: &Bench, mut ours: impl FnMut(f64) -> Result<Measurement>) -> Result<Figure> {
    ours(b.trial_s)?;
    let veth = Veth::new(Kind::SmallSegments)?;
    let best = best_of(&Placement::all(b.cores), 2, Better::Higher, |placement| {
        veth.bulk(b.cores, Settings::bulk(placement), b.trial_s)?.gbit_per_cpu_s()
    })?;
    let kernel = |seconds| veth.bulk(b.cores, Settings::bulk(best), seconds);
    b.ratio(Measurement::gbit_per_cpu_s, ours, kernel)
}

pub(super) fn over_memory(b: &Bench) -> Result<Figure> {
    let shape = Bulk { mtu: SMALL_MTU, ..Bulk::default() };
    against_veth(b, move |seconds| ours::bulk(shape, seconds))
}

pub(super) fn over_tap(b: &Bench) -> Result<Figure> {
    against_veth(b, |seconds| small_segments(b, seconds))
}
