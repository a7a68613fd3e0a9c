//! Tests of the causes in single looks, and of the verdicts of many.

use crate::{Held, Limit, Look, Verdict, Words, apart};

/// A look at which nothing holds data back: windows have room, and there is data.
fn open() -> Look {
    Look {
        state: "ESTABLISHED".to_owned(),
        control: "cubic".to_owned(),
        mss: 1000,
        mss_most: 1000,
        rcv_mss: 1000,
        cwnd: 50_000,
        snd_wnd: 60_000,
        rcv_wnd: 40_000,
        in_flight: 20_000,
        pipe: 20_000,
        unsent: 30_000,
        write_blocked: true,
        send_buffer: 100_000,
        receive_buffer: 40_000,
        rtt_us: 20_000,
        min_rtt_us: 20_000,
        ..Look::default()
    }
}

/// The verdict of twenty looks in a second, each of which is [`open`] with a change.
fn verdict(change: impl Fn(&mut Look, u64)) -> Verdict {
    let looks: Vec<Look> = (0..20)
        .map(|n| {
            let mut look = Look { at_us: n * 50_000, acked: n * 10_000, segments_in: n, ..open() };
            change(&mut look, n);
            look
        })
        .collect();
    Verdict::of(&looks).expect("a verdict of the looks")
}

fn limit(change: impl Fn(&mut Look, u64)) -> Option<Limit> {
    verdict(change).limit
}

#[test]
fn each_look_says_what_held_data_back() {
    let sending = |change: &dyn Fn(&mut Look)| {
        let mut look = open();
        change(&mut look);
        look.of_sending()
    };
    assert_eq!(sending(&|_| ()), Held::Device);
    let idle = |unsent| move |l: &mut Look| (l.write_blocked, l.unsent) = (false, unsent);
    assert_eq!(sending(&idle(0)), Held::Application);
    assert_eq!(sending(&idle(999)), Held::Nagle);
    assert_eq!(sending(&|l| (idle(999)(l), l.no_delay = true).0), Held::Application);
    // A program that waits for room has more to send, however little is queued.
    assert_eq!(sending(&|l| l.unsent = 0), Held::SendBuffer);
    // A program whose writes are as long as the buffer fills it without being cut short.
    let fills = |l: &mut Look| (l.write_blocked, l.unsent, l.send_buffer) = (false, 0, 20_000);
    assert_eq!(sending(&fills), Held::SendBuffer);
    assert_eq!(sending(&|l| l.snd_wnd = 20_500), Held::ReceiveWindow);
    assert_eq!(sending(&|l| l.snd_wnd = 0), Held::ReceiveWindow);
    assert_eq!(sending(&|l| l.cwnd = 20_999), Held::CongestionWindow);
    assert_eq!(sending(&|l| (l.cwnd, l.snd_wnd) = (20_000, 20_500)), Held::CongestionWindow);
    assert_eq!(sending(&|l| (l.cwnd, l.snd_wnd) = (20_500, 20_000)), Held::ReceiveWindow);
    assert_eq!(sending(&|l| l.waits_for_pacing = true), Held::Pacing);
    // Lost bytes do not count against cwnd.
    assert_eq!(sending(&|l| (l.cwnd, l.pipe) = (20_999, 10_000)), Held::Device);
    let look = Look { unread: 1000, ..open() };
    assert_eq!(look.of_receiving(), Held::Peer);
    assert_eq!(Look { rcv_wnd: 1999, unread: 1, ..open() }.of_receiving(), Held::OurReader);
    assert_eq!(Look { unread: 30_000, ..open() }.of_receiving(), Held::OurReader);
}

#[test]
fn half_of_the_looks_make_a_verdict() {
    let app = |look: &mut Look| (look.unsent, look.write_blocked) = (0, false);
    assert_eq!(limit(|look, _| app(look)), Some(Limit::Application));
    let thirds = verdict(|look, n| match n % 3 {
        0 => app(look),
        1 => look.unsent = 0,
        _ => look.snd_wnd = 20_500,
    });
    assert_eq!((thirds.limit, thirds.shares.len()), (None, 3));
    assert!(Words::of(&thirds).answer.contains("take turns"));
    assert!(Verdict::of(&[]).is_none());
    let few = Verdict::of(&[open(), open()]).expect("looks");
    assert!(few.limit.is_none() && Words::of(&few).answer.contains("only 2 looks"));
}

#[test]
fn what_the_path_does_tells_its_limits_apart() {
    let full = |look: &mut Look| look.cwnd = look.pipe;
    assert_eq!(limit(|l, _| full(l)), Some(Limit::CongestionWindow));
    assert_eq!(limit(|l, _| (full(l), l.rtt_us = 91_000).0), Some(Limit::Queue));
    assert_eq!(limit(|l, _| (full(l), l.rtt_us = 26_000).0), Some(Limit::LinkRate));
    // A shortest round trip of whole milliseconds may be one millisecond too short.
    let round_trips = |least: u64, now: u64| {
        limit(move |l, _| (full(l), (l.min_rtt_us, l.rtt_us) = (least, now)).1)
    };
    assert_eq!(round_trips(9_001, 9_999), Some(Limit::LinkRate));
    assert_eq!(round_trips(9_000, 9_999), Some(Limit::CongestionWindow));
    assert_eq!(limit(|l, n| (full(l), l.ecn_reductions = n).0), Some(Limit::LinkRate));
    let lossy = |l: &mut Look, n: u64, in_a_row: u64| {
        l.cwnd = l.pipe + if n.is_multiple_of(2) { 900 } else { 0 };
        (l.fast_recoveries, l.retransmits) = (n / 2, n / 2 * in_a_row);
    };
    assert_eq!(limit(|l, n| lossy(l, n, 9)), Some(Limit::Policer));
    // Losses come one at a time, but after the same amount of data each time.
    assert_eq!(limit(|l, n| (lossy(l, n, 1), l.fast_recoveries = n / 3).0), Some(Limit::Policer));
    let varied = |l: &mut Look, n: u64| {
        full(l);
        l.fast_recoveries = [1, 2, 6, 7, 15, 16].iter().filter(|&&at| at <= n).count() as u64;
        l.retransmits = l.fast_recoveries;
    };
    let lost = verdict(varied);
    assert_eq!(lost.limit, Some(Limit::Loss));
    assert!(Words::of(&lost).advice.is_some_and(|advice| advice.contains("--cc bbr")));
    assert_eq!(limit(|l, n| (varied(l, n), l.undone = n / 2).0), Some(Limit::Reordering));
    // A few losses show no regularity.
    assert_eq!(limit(|l, n| varied(l, n / 4)), Some(Limit::Loss));
    assert_eq!(limit(|l, n| (varied(l, n / 4), l.retransmits *= 2).0), Some(Limit::Policer));
    // A queue counts, although single looks say that windows and pacing have room.
    assert_eq!(limit(|l, _| l.rtt_us = 91_000), Some(Limit::Queue));
    assert_eq!(limit(|l, n| (l.rtt_us, l.pushed_back) = (91_000, n)), Some(Limit::Device));
    assert_eq!(limit(|l, _| l.unsent = 0), Some(Limit::SendBuffer));
    assert_eq!(limit(|l, n| (full(l), l.cpu_us = Some(n * 49_000)).0), Some(Limit::Processor));
}

#[test]
fn a_standstill_has_a_reason() {
    let dead = |l: &mut Look, n: u64| {
        (l.acked, l.segments_in) = (7, 3);
        (l.retries, l.timeouts, l.cwnd, l.pipe) = (4, n / 5, 1000, 1000);
    };
    let verdict = verdict(dead);
    assert_eq!(verdict.limit, Some(Limit::DeadPath));
    let words = Words::of(&verdict).answer;
    assert!(words.contains("dead") && words.contains("4 time-outs"), "{words}");
    // Segments become smaller on a dead path too, but no data arrives.
    let narrow = |l: &mut Look, n: u64| l.mss = if n < 9 { 1000 } else { 700 };
    assert_eq!(limit(|l, n| (dead(l, n), narrow(l, n)).1), Some(Limit::DeadPath));
    assert_eq!(limit(|l, n| (narrow(l, n), l.timeouts = n / 5).1), Some(Limit::PathMtu));
    assert_eq!(limit(|l, n| (dead(l, n), l.link_down = true).1), Some(Limit::LinkDown));
    let connects = |l: &mut Look| l.state = "SYN-SENT".to_owned();
    assert_eq!(limit(|l, _| connects(l)), Some(Limit::NotConnected));
    assert_eq!(limit(|l, _| (connects(l), l.link_down = true).1), Some(Limit::LinkDown));
    let still = |l: &mut Look, _| {
        (l.in_flight, l.pipe, l.unsent, l.acked, l.write_blocked) = (0, 0, 0, 7, false);
    };
    assert_eq!(limit(still), Some(Limit::Idle));
    // Data that waits to be read is held back by its reader.
    let unread = |l: &mut Look, n| (still(l, n), (l.unread, l.rcv_wnd) = (39_000, 0)).1;
    assert_eq!(limit(unread), Some(Limit::OurReader));
}

#[test]
fn windows_say_who_closes_them() {
    let window = |of: fn(u64) -> u64| limit(move |l, n| (l.snd_wnd, l.in_flight) = (of(n), of(n)));
    assert_eq!(window(|_| 20_000), Some(Limit::ReceiveWindow));
    assert_eq!(window(|n| n % 4 * 6_000), Some(Limit::PeerReader));
    assert_eq!(window(|_| 1_500), Some(Limit::SillyWindow));
    // The peer's host delays ACKs while its program does not read. That is not a queue.
    let delayed = |of: fn(u64) -> u64| {
        limit(move |l, n| (l.snd_wnd, l.in_flight, l.rtt_us) = (of(n), of(n), 60_000))
    };
    assert_eq!(delayed(|n| 8_000 + n % 4 * 6_000), Some(Limit::PeerReader));
    assert_eq!(delayed(|_| 20_000), Some(Limit::Queue));
    let receives = |l: &mut Look, n: u64, rate: u64| {
        (l.acked, l.received, l.in_flight, l.unsent) = (0, n * rate, 0, 0);
    };
    assert_eq!(limit(|l, n| receives(l, n, 100_000)), Some(Limit::ReceiveBuffer));
    assert_eq!(limit(|l, n| receives(l, n, 1000)), Some(Limit::Peer));
    assert_eq!(limit(|l, n| (receives(l, n, 1000), l.out_of_order = n).0), Some(Limit::Path));
}

#[test]
fn a_look_survives_its_document() {
    let look = Look { cpu_us: Some(7), pacing_bytes_per_s: Some(9), ..open() };
    let text = serde_json::to_string(&look).expect("text");
    assert_eq!(serde_json::from_str::<Look>(&text).expect("a look"), look);
}

#[test]
fn looks_do_not_come_at_fixed_times() {
    let times: Vec<u64> = (0..100).map(|n| apart(n).as_micros()).collect();
    assert!(times.iter().all(|us| (10_000..30_000).contains(us)));
    let mean = times.iter().sum::<u64>() / 100;
    assert!((18_000..22_000).contains(&mean), "{mean}");
}
