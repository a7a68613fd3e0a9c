//! Cuts of a link: how long the router goes on to send by it. Called by the table of bench `frr`.
//! Our router and a kernel with the same routes run side by side, each in a network of its own,
//! and are cut in turn; the value is ours.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::cable::{Ground, Kind, Network, Routing, Switch};
use super::world;
use crate::harness::{Bench, Figure};
use crate::measure::median;

/// The pause between two changes of carriers: the kernel reports one each second (`linkwatch`).
const PAUSE: Duration = Duration::from_millis(1_200);

/// A kernel that says later than this that a carrier is lost has had news of another link, of any
/// namespace, within a second. Such a cut is tried again, a few times.
const LATE_MS: f64 = 20.0;
const TRIES: usize = 4;

/// A way to cut the first cable, and to fix it again.
struct Cut {
    routing: Routing,
    cut: &'static str,
    fix: &'static str,
    figure: fn(&Switch) -> f64,
    note: &'static str,
}

/// The frames are dropped in the middle. The routers' ports are up, and so are those of the bridge.
const SILENTLY: Cut = Cut {
    routing: Routing::Ospf,
    cut: "link set m1b nomaster",
    fix: "link set m1b master br1",
    figure: |switch| switch.last_old_ms,
    note: "FRR's daemons with the files of examples/frr/ospf, a datagram \
           each ms, a rest of 5.5 s before each cut",
};

/// The first router's port loses its carrier.
const BY_CARRIER: Cut = Cut {
    routing: Routing::Connected,
    cut: "link set m1a down",
    fix: "link set m1a up",
    figure: |switch| switch.first_new_ms,
    note: "to a host on the link of the port; to the first datagram by the shorter prefix that \
           leads elsewhere, a datagram each ms",
};

/// Cuts and fixes the first cable of a network. `None` if its kernel was late to say that a carrier
/// is lost.
fn cut_once(network: &Network<'_>, cut: &Cut) -> Result<Option<Switch>> {
    network.settle()?;
    let switch = network.cut(cut.cut)?;
    sleep(PAUSE);
    network.ground.middle.ip(cut.fix)?;
    // Carriers change at most once a second.
    sleep(PAUSE);
    let announced_ms = network.announced_ms(&switch);
    eprintln!("    {}: {switch:.1?}, announced after {announced_ms:.1?} ms", network.name());
    let is_late = cut.routing == Routing::Connected && announced_ms.is_none_or(|ms| ms > LATE_MS);
    Ok((!is_late).then_some(switch))
}

fn cut_often(b: &Bench, cut: &Cut) -> Result<Figure> {
    let world = world(b)?;
    let rounds = if b.is_quick { 3 } else { 7 };
    let grounds = [Ground::new()?, Ground::new()?];
    let network = |kind, ground| Network::new(world, (kind, cut.routing), ground);
    let networks = [network(Kind::Ours, &grounds[0])?, network(Kind::Kernel, &grounds[1])?];
    let (mut switches, mut late) = ([Vec::new(), Vec::new()], 0);
    while switches.iter().any(|all| all.len() < rounds) {
        for (network, switches) in networks.iter().zip(&mut switches) {
            if switches.len() == rounds {
                continue;
            }
            match cut_once(network, cut)? {
                Some(switch) => switches.push(switch),
                None => late += 1,
            }
            ensure!(late <= TRIES * rounds, "other links of this machine change all the time");
        }
    }
    let [ours, theirs] = switches;
    let of =
        |all: &[Switch], figure: fn(&Switch) -> f64| all.iter().map(figure).collect::<Vec<_>>();
    let samples = of(&ours, cut.figure);
    let mut note =
        format!("ours {}, kernel {}", spread(&samples), spread(&of(&theirs, cut.figure)));
    match cut.routing {
        Routing::Ospf => {
            let news = |all| spread(&of(all, |switch| switch.first_new_ms));
            let (ours, theirs) = (news(&ours), news(&theirs));
            note += &format!("; first datagram by the other cable: ours {ours}, kernel {theirs}");
        }
        Routing::Connected => {
            note += &format!(
                "; without {late} cuts that the kernel said {LATE_MS:.0} ms later or more, because \
                 another link of this machine had changed"
            );
        }
    }
    let note = format!("{note}; {}", cut.note);
    Ok(Figure { value: median(&samples), samples, note })
}

/// "158.1 ms (147.9 to 166.0)"
fn spread(all: &[f64]) -> String {
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    format!("{:.1} ms ({least:.1} to {most:.1})", median(all))
}

pub(super) fn silent(b: &Bench) -> Result<Figure> {
    cut_often(b, &SILENTLY)
}

pub(super) fn carrier(b: &Bench) -> Result<Figure> {
    cut_often(b, &BY_CARRIER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_and_the_ends() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), "2.0 ms (1.0 to 3.0)");
    }
}
