//! Explicit congestion notification over the simulated path: a queue that marks packets loses none,
//! and carries as much as one that drops packets.

use link::Aqm;
use tcp::cc::Algorithm;

use super::*;
use crate::goodput::Outcome;

fn codel(algorithm: Algorithm, flows: usize, ecn: bool, tso: bool) -> Outcome {
    let mut path = Goodput::new(20_000_000, Duration::from_millis(20));
    path.queue_bytes = path.bdp_bytes(8.0);
    path.length = Duration::from_secs(20);
    let [target, interval] = [5, 100].map(Duration::from_millis);
    path.aqm = Aqm::CoDel { target, interval, ecn };
    (path.algorithm, path.flows, path.ecn) = (algorithm, flows, ecn);
    path.tso_max_bytes = if tso { 65_535 } else { 0 };
    measure(&path).expect("streams are whole")
}

#[test]
fn codel_that_marks_loses_nothing_and_carries_as_much() {
    for (algorithm, flows, tso, less) in [
        (Algorithm::Cubic, 1, false, 0.01),
        (Algorithm::Cubic, 1, true, 0.01),
        (Algorithm::Cubic, 4, false, 0.01),
        // NewReno's window takes some forty round trips to grow back. With marks the growth begins
        // half a round trip later: the peer echoes the mark until CWR arrives, and until then the
        // window does not grow (RFC 3168 section 6.1.2).
        (Algorithm::NewReno, 1, false, 0.04),
    ] {
        let drops = codel(algorithm, flows, false, tso);
        let marks = codel(algorithm, flows, true, tso);
        let case = format!("{algorithm:?}, {flows} flows, tso {tso}: {marks:?}, and {drops:?}");
        assert!(drops.bottleneck.codel > 0 && drops.retransmits > 0, "{case}");
        assert!(marks.bottleneck.marked > 0 && marks.ecn_reductions > 0, "{case}");
        assert_eq!((marks.bottleneck.codel, marks.bottleneck.queue_full), (0, 0), "{case}");
        assert_eq!((marks.retransmits, marks.timeouts, marks.fast_recoveries), (0, 0, 0), "{case}");
        assert!(marks.share > drops.share - less, "{case}");
        // The queue management is the same, so the queue stays as short.
        assert!(marks.bottleneck.queue_bytes_max <= 2 * drops.bottleneck.queue_bytes_max, "{case}");
    }
}

/// Packets of a flow without ECN are dropped, and so are those of BBR, which would not slow down.
#[test]
fn codel_that_marks_drops_what_is_not_capable() {
    let bbr = codel(Algorithm::Bbr, 1, true, false);
    assert_eq!((bbr.bottleneck.marked, bbr.ecn_reductions), (0, 0));
    let mut path = Goodput::new(20_000_000, Duration::from_millis(20));
    path.length = Duration::from_secs(5);
    let [target, interval] = [5, 100].map(Duration::from_millis);
    path.aqm = Aqm::CoDel { target, interval, ecn: true };
    path.queue_bytes = path.bdp_bytes(8.0);
    let plain = measure(&path).expect("streams are whole");
    assert!(plain.bottleneck.codel > 0 && plain.bottleneck.marked == 0, "{plain:?}");
}
