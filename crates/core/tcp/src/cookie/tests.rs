use base::Duration;
use wire::tcp::Flags;

use super::*;

const FLOW: u64 = 0x1234_5678_9abc_def0;

fn secret() -> KeyedHash {
    KeyedHash::new(1, 2)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// The ACK of a SYN-ACK that had this sequence number and these timestamps.
fn answer(iss: SeqNumber, timestamps: Option<Timestamps>) -> Segment {
    let timestamps = timestamps.map(|ts| Timestamps { value: ts.echo + 7, echo: ts.value });
    Segment {
        seq: SeqNumber(1001),
        ack: iss + 1,
        len: 0,
        window: 1000,
        urgent: 0,
        flags: Flags::ACK,
        ce: false,
        timestamps,
    }
}

fn offered() -> Options {
    Options {
        mss: Some(1460),
        window_scale: Some(WindowScale::new(7)),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 5, echo: 0 }),
        ..Options::default()
    }
}

#[test]
fn what_a_syn_said_comes_back() {
    for (mss, kept) in [(1460, 1460), (1459, 1440), (536, 536), (65_000, 8940), (20, 48)] {
        for value in [0, 1, 63, 64, 1000, u32::MAX] {
            let config = Config::default();
            let ts = timestamps(value, &offered(), &config).expect("both have them");
            let behind = value.wrapping_sub(ts.value);
            assert!(behind < 128, "the clock goes back by {behind} ms");
            let iss = sequence_number(&secret(), FLOW, SeqNumber(1000), Mss(mss), at(100));
            let options = check(&secret(), FLOW, &answer(iss, Some(ts)), at(101));
            let options = options.expect("it is ours");
            assert_eq!(options.mss, Some(kept));
            assert_eq!(options.window_scale, Some(WindowScale::new(7)));
            assert!(options.sack_permitted);
        }
    }
}

#[test]
fn without_timestamps_the_size_alone_is_kept() {
    let plain = Options { timestamps: None, ..offered() };
    assert_eq!(timestamps(99, &plain, &Config::default()), None);
    let iss = sequence_number(&secret(), FLOW, SeqNumber(1000), Mss(1460), at(0));
    let options = check(&secret(), FLOW, &answer(iss, None), at(1)).expect("it is ours");
    assert_eq!(
        (options.mss, options.window_scale, options.sack_permitted),
        (Some(1460), None, false)
    );
}

#[test]
fn a_cookie_is_bound_to_its_flow_its_peer_and_its_time() {
    let iss = sequence_number(&secret(), FLOW, SeqNumber(1000), Mss(1460), at(100));
    let ack = answer(iss, None);
    let holds = |secret: &KeyedHash, flow, seg: &Segment, seconds| {
        check(secret, flow, seg, at(seconds)).is_some()
    };
    assert!(holds(&secret(), FLOW, &ack, 100) && holds(&secret(), FLOW, &ack, 164));
    assert!(
        !holds(&secret(), FLOW, &ack, 100 + LIFE_SECONDS),
        "a cookie that is too old was accepted"
    );
    assert!(!holds(&secret(), FLOW, &ack, 20), "a cookie from the future was accepted");
    assert!(!holds(&secret(), FLOW + 1, &ack, 100), "another flow's cookie was accepted");
    assert!(
        !holds(&KeyedHash::new(1, 3), FLOW, &ack, 100),
        "a cookie of another secret was accepted"
    );
    assert!(
        !holds(&secret(), FLOW, &Segment { seq: SeqNumber(1002), ..ack }, 100),
        "the cookie of another SYN was accepted"
    );
    for bit in 0..32 {
        let guess = Segment { ack: SeqNumber((iss.0 ^ 1 << bit).wrapping_add(1)), ..ack };
        assert!(!holds(&secret(), FLOW, &guess, 100), "bit {bit}");
    }
}
