//! Linux as a router between two veth pairs, and our router between two veth pairs over AF_XDP.
//! Called by `router` and `filter`. Each router has a namespace of its own. The routers are those
//! of `wirespeed lab forward`.

use anyhow::{Result, anyhow, ensure};
use lab::forward::Shape;
use lab::forward::outside::{Kind, Outside};

use super::memory::forwarding;
use crate::harness::{Bench, Figure, paired};
use crate::measure::{Measurement, median, pin};
use crate::namespace::{enter, enter_new_namespace};

/// Runs `work` on a pinned thread. The thread's namespaces end with it.
pub(crate) fn on_thread<T: Send>(
    core: usize,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            pin(&[core])?;
            work()
        });
        thread.join().map_err(|_| anyhow!("measuring panicked"))?
    })
}

fn measurement(ns: f64, units: u64, wall_s: f64, settings: String) -> Measurement {
    let cpu_s = ns * units as f64 * 1e-9;
    Measurement { units, cpu_s, wall_s, settings, ..Measurement::default() }
}

/// Measures the router together with the sending to it; `cpu_s` of the result is the cost of both.
fn whole(router: &mut Outside, seconds: f64) -> Result<Measurement> {
    let (ns, units) = router.whole(seconds, &|| false)?;
    Ok(measurement(ns, units, seconds, format!("{ns:.0} ns with sending")))
}

/// Measures the router without the sending. The softirq of one veth pair is subtracted with the
/// sending, which is in the router's favour.
pub(crate) fn own(router: &mut Outside, seconds: f64) -> Result<Measurement> {
    let cost = router.measure(seconds, &|| false)?;
    let (all_ns, alone_ns) = (cost.whole_ns, cost.alone_ns);
    let own_ns = all_ns - alone_ns;
    ensure!(
        own_ns > 0.0,
        "sending alone cost {alone_ns:.0} ns, sending and forwarding {all_ns:.0}"
    );
    let settings =
        format!("kernel {own_ns:.0} ns: {all_ns:.0} less {alone_ns:.0} for sending alone");
    Ok(measurement(own_ns, cost.packets, seconds, settings))
}

/// The ratio of packets per CPU-second, our router over the kernel's, measured in pairs.
pub(crate) fn ratio(
    (pairs, seconds, trial_s): (usize, f64, f64),
    mut ours: impl FnMut(f64) -> Result<Measurement>,
    mut theirs: impl FnMut(f64) -> Result<Measurement>,
) -> Result<Figure> {
    ours(trial_s)?;
    theirs(trial_s)?;
    let mut notes = (String::new(), String::new());
    let samples = paired(
        pairs,
        || {
            let measured = ours(seconds)?;
            notes.0.clone_from(&measured.settings);
            measured.units_per_cpu_s()
        },
        || {
            let measured = theirs(seconds)?;
            notes.1.clone_from(&measured.settings);
            measured.units_per_cpu_s()
        },
    )?;
    let note = format!("{} and {}, the last pair", notes.0, notes.1);
    Ok(Figure { value: median(&samples), samples, note })
}

/// The number of pairs, the seconds of each side, and the seconds of a trial run.
pub(crate) fn plan(b: &Bench) -> (usize, f64, f64) {
    (b.pairs, b.seconds, b.trial_s)
}

pub(super) fn memory_against_veths(b: &Bench) -> Result<Figure> {
    let plan = plan(b);
    on_thread(b.cores.first, move || {
        let _namespace = enter_new_namespace()?;
        let mut kernel = Outside::new(Kind::Kernel, Shape::default())?;
        let ours = |seconds| forwarding(Shape::default(), seconds);
        ratio(plan, ours, |seconds| own(&mut kernel, seconds))
    })
}

pub(super) fn xdp_against_veths(b: &Bench) -> Result<Figure> {
    let plan = plan(b);
    on_thread(b.cores.first, move || {
        let theirs = enter_new_namespace()?;
        let mut kernel = Outside::new(Kind::Kernel, Shape::default())?;
        let ours = enter_new_namespace()?;
        let mut router = Outside::new(Kind::Xdp, Shape::default())?;
        ratio(
            plan,
            |seconds| {
                enter(&ours)?;
                whole(&mut router, seconds)
            },
            |seconds| {
                enter(&theirs)?;
                whole(&mut kernel, seconds)
            },
        )
    })
}
