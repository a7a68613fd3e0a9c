//! Linux as a router with nft's rules between two veth pairs, compared with our router in memory.
//! Called by `filter`. The kernel's router is the one of bench `router`, and is measured in the
//! same way.

use anyhow::{Result, ensure};
use lab::forward::outside::{Kind, Outside};
use lab::forward::{Shape, Transport};

use super::memory::{Filtered, flows};
use super::rules::{Rules, masqueraded, stateful};
use crate::harness::{Bench, Figure};
use crate::measure::median;
use crate::namespace::enter_new_namespace;
use crate::router::kernel::{on_thread, own, plan, ratio};

/// The kernel's router with these rules, in the calling thread's namespace. The handshakes of its
/// connections have passed.
pub(super) fn kernel(shape: Shape, rules: Rules) -> Result<Outside> {
    let mut kernel = Outside::new(Kind::Kernel, shape)?;
    kernel.set_rules(&rules.nft())?;
    if rules.has_states && shape.transport == Transport::Tcp {
        kernel.shake_hands(shape, rules.is_masqueraded)?;
        let tracked = kernel.tracked()?;
        ensure!(tracked == u64::from(shape.flows), "the kernel tracks {tracked} flows");
    }
    Ok(kernel)
}

/// The ratio of packets per CPU-second, ours over the kernel's.
fn rates(b: &Bench, rules: Rules) -> Result<Figure> {
    let plan = plan(b);
    on_thread(b.cores.first, move || {
        let _namespace = enter_new_namespace()?;
        let mut ours = Filtered::new(flows(), Some(rules))?;
        let mut theirs = kernel(flows(), rules)?;
        ratio(plan, |seconds| ours.forwarding(seconds), |seconds| own(&mut theirs, seconds))
    })
}

pub(super) fn with_states(b: &Bench) -> Result<Figure> {
    rates(b, stateful(100))
}

pub(super) fn with_nat(b: &Bench) -> Result<Figure> {
    rates(b, masqueraded(100))
}

/// The inverse of the ratio of [`rates`], so that lower is better.
pub(super) fn without_states(b: &Bench) -> Result<Figure> {
    let rules = Rules { has_states: false, ..stateful(100) };
    let Figure { samples, note, .. } = rates(b, rules)?;
    let samples: Vec<f64> = samples.iter().map(|ratio| 1.0 / ratio).collect();
    Ok(Figure { value: median(&samples), samples, note })
}
