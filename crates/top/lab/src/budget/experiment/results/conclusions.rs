//! The sentences of the report: which end limits, what to fix next, and what the figures do not
//! say.
//!
//! Called by: `results.rs`.

use profile::{Event, Kind, Mean, Stage, largest};

use super::figures::{SIZE, What};
use crate::budget::experiment::work::Role;
use crate::budget::experiment::{Case, Measured};
use crate::report::Span;

/// Two sentences: which end limits, and what to do next.
pub(super) fn shows(measured: &Measured) -> Vec<String> {
    let cost = |role| measured.mean(role, SIZE, What::Unsampled, Event::Time);
    let all = [Role::Sender, Role::Receiver].map(|role| cost(role).map(|mean| (role, mean)));
    let ([Some(sender), Some(receiver)], Some(forwarder)) = (all, cost(Role::Forwarder)) else {
        return Vec::new();
    };
    let limiting = largest(&[sender, receiver]);
    let limits = match limiting.as_slice() {
        [one] => format!("on a core each, the {} limits", one.name()),
        _ => "the rounds do not tell which end limits".to_owned(),
    };
    let first = format!(
        "A packet of {SIZE} bytes costs the sender {:.0} ns, the receiver {:.0} ns and a router \
         {:.0} ns: {limits}.",
        sender.1.value, receiver.1.value, forwarder.value
    );
    let role = limiting.first().copied().unwrap_or(Role::Sender);
    vec![first, next(measured, role)]
}

/// The stage to fix, for a role.
fn next(measured: &Measured, role: Role) -> String {
    let of = |stage| measured.mean(role, SIZE, What::Stage(stage), Event::Time);
    let stages = Stage::ALL.into_iter().filter(|&stage| stage != Stage::Other);
    let stages: Vec<(Stage, Mean)> = stages.filter_map(|s| of(s).map(|mean| (s, mean))).collect();
    let sum = measured.mean(role, SIZE, What::Sum, Event::Time).map_or(0.0, |sum| sum.value);
    match largest(&stages).as_slice() {
        [] => "Nothing was sampled, so it is not known what to fix.".to_owned(),
        [stage] => {
            let ns = of(*stage).unwrap_or_default().value;
            let line = measured.line(role, What::Stage(*stage), Event::Time);
            let bytes = line.map_or(0.0, |line| line.slope * SIZE as f64 / ns.max(1e-9));
            let grows = if bytes > 0.5 { "by the byte" } else { "by the packet" };
            format!(
                "To go faster, fix this next: {} at the {}, {ns:.0} of its {sum:.0} ns, paid \
                 {grows}: {}.",
                stage.name(),
                role.name(),
                stage.remedy()
            )
        }
        several => {
            let names: Vec<&str> = several.iter().take(3).map(|stage| stage.name()).collect();
            format!(
                "To go faster at the {}, fix one of {}: the samples do not tell which is the \
                 largest; more rounds do (without --quick, on a quiet machine).",
                role.name(),
                names.join(", ")
            )
        }
    }
}

pub(super) fn notes(measured: &Measured) -> Vec<String> {
    let mut notes = vec![format!(
        "The stages are from {} samples of the thread, {} a second, each counted for the stage \
         whose code it is in; {} had no room. 'by the clock' is the thread's processor time in the \
         same rounds; 'no samples' is its processor time in rounds without samples, which \
         alternate with those.",
        measured.samples, measured.hz, measured.lost
    )];
    if let Some(why) = &measured.refused {
        notes.push(format!("There are only figures without samples: {why}."));
    }
    let ratios = measured.cases.iter().filter(|case| case.size == SIZE);
    let ratios = ratios.filter_map(|case| {
        let (all, span) = (case.ratio()?, Span::of(case.ratios())?);
        Some(format!("{} {all:.3} (rounds {:.3} to {:.3})", case.role.name(), span.low, span.high))
    });
    let ratios: Vec<String> = ratios.collect();
    if !ratios.is_empty() {
        let all = ratios.join(", ");
        notes.push(format!("All stages over the clock at {SIZE} bytes: {all}."));
    }
    if let Some(added) = Span::of(measured.cases.iter().flat_map(Case::added)) {
        notes.push(format!("The samples add {:.1} % to the cost.", added.mid * 100.0));
    }
    notes.extend(shares(measured));
    notes.extend(counters(measured));
    notes.extend(noise(measured));
    notes.push(
        "The sender computes the checksum while it copies: that pass is 'copy'; 'checksum' is \
         passes that only sum. In memory there are no system calls and no wake-ups, so that \
         'driver' is the rings alone: `wirespeed show budget` has the costs of a running program."
            .to_owned(),
    );
    notes
}

/// The shares of four kinds of work at both ends, compared with those of 1988.
fn shares(measured: &Measured) -> Option<String> {
    let mut kinds = [0.0; 4];
    for role in [Role::Sender, Role::Receiver] {
        for stage in Stage::ALL {
            let mean = measured.mean(role, SIZE, What::Stage(stage), Event::Time)?;
            kinds[stage.kind() as usize] += mean.value;
        }
    }
    let all: f64 = kinds.iter().sum();
    let percent = |kind: Kind| kinds[kind as usize] / all * 100.0;
    (all > 0.0).then(|| {
        format!(
            "Both ends together: protocol {:.0} %, bytes copied and summed {:.0} %, device and \
             buffers {:.0} %, rest {:.0} %. In 1988 it was protocol 30 %, stalls 15 %, device, \
             interrupt and task 55 %.",
            percent(Kind::Protocol),
            percent(Kind::Bytes),
            percent(Kind::Device),
            percent(Kind::Outside)
        )
    })
}

/// The events that the processor did not count.
fn counters(measured: &Measured) -> Vec<String> {
    let mut notes = Vec::new();
    if measured.refused.is_some() || measured.events.is_empty() {
        return notes;
    }
    let absent: Vec<&str> = [(Event::Cycles, "cycles"), (Event::Stalled, "stalled cycles")]
        .into_iter()
        .filter(|(event, _)| !measured.has(*event))
        .map(|(_, name)| name)
        .collect();
    if !absent.is_empty() {
        notes.push(format!(
            "No {}: the processor does not count them for us. A virtual machine has counters if \
             its host passes them on (a virtual PMU).",
            absent.join(" and ")
        ));
    }
    match &measured.counted {
        Some(Ok(_)) => notes.push(
            "valgrind's callgrind counts the instructions of the same work one by one: exact, the \
             same in every run, for a processor without AVX-512."
                .to_owned(),
        ),
        Some(Err(why)) => notes.push(format!("No instructions: {why}.")),
        None => {}
    }
    notes
}

/// A warning if rounds of the same work differ by much.
fn noise(measured: &Measured) -> Option<String> {
    let spread = |case: &Case| {
        let span = Span::of(case.unsampled_ns.iter().copied())?;
        Some((span.high - span.low) / span.mid)
    };
    let middle = Span::of(measured.cases.iter().filter_map(spread))?.mid;
    (middle > 0.1).then(|| {
        format!(
            "The machine is noisy: equal rounds differ by {:.0} % (the median of the cases). The \
             intervals include that; nothing is concluded from differences within them.",
            middle * 100.0
        )
    })
}
