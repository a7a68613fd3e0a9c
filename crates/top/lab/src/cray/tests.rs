//! Every case runs and carries data; over a channel TCP uses at least half of the rate, and less
//! than all of it.

use super::*;
use crate::Common;
use crate::report::Span;

fn common() -> Common {
    Common {
        quick: true,
        seeds: None,
        first_seed: 1,
        json: false,
        out: None,
        plot: None,
        jobs: None,
    }
}

#[test]
fn every_case_in_memory_carries_bytes() {
    let common = common();
    let run = Run { common: &common, stopped: &|| false };
    for case in cases::all() {
        // memcpy of 256 MB would make the test slow.
        if case.what == What::Memcpy(256 << 20) {
            continue;
        }
        let mbps = measure(&case, 0.01, &run).expect(&case.name).expect("nobody stopped it");
        assert!(mbps > 1.0, "{}, {}: {mbps} Mb/s", case.heading, case.name);
        if let What::Channel { mbps: rate, .. } = case.what {
            let share = mbps / rate as f64;
            assert!((0.5..1.0).contains(&share), "{}, {}: {share}", case.heading, case.name);
        }
    }
}

/// The settings of 1989 really have a window of 64 KB: with another one the rows could not be
/// compared.
#[test]
fn the_window_of_1989_is_64_kb() {
    let tcp = cases::Settings::Of1989.tcp();
    assert!(!tcp.window_scaling && tcp.receive_buffer_bytes == 512 << 10);
    assert_eq!(tcp.receive_buffer_max_bytes, 0);
}

#[test]
fn a_channel_gives_the_same_figure_every_time() {
    let common = common();
    let run = Run { common: &common, stopped: &|| false };
    let figure = || channel::throughput(cases::Settings::Of1989, 850, 32 << 10, &run);
    let (first, second) = (figure().expect("it runs"), figure().expect("it runs"));
    assert_eq!(first, second);
    assert!(Span::of(first).is_some_and(|span| span.mid < 850e6), "{first:?}");
}
