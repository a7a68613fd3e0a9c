//! What the engine and the log hear of flows.

use base::{Duration, Instant};
use gateway::Failure;

use super::*;
use crate::fence::tests::{fence, pin};

fn ends(port: u16, remote: &str) -> Ends {
    let guest = SocketAddr::from(([10, 0, 2, 100], port));
    Ends { guest, remote: remote.parse().expect(remote) }
}

fn report(ends: Ends, end: End) -> Report {
    report_of(Protocol::Tcp, ends, end)
}

fn report_of(protocol: Protocol, ends: Ends, end: End) -> Report {
    Report { protocol, ends, end, since: Instant::ZERO, bytes_up: 10, bytes_down: 20 }
}

fn lines(fence: &mut Fence) -> Vec<String> {
    core::iter::from_fn(|| fence.next_line()).collect()
}

/// A TLS hello with this name, or without one.
fn tls(name: Option<&str>) -> Vec<u8> {
    let with_length = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let extension = |name: &str| {
        let list = [&[0][..], &with_length(name.as_bytes())].concat();
        [&[0, 0][..], &with_length(&with_length(&list))].concat()
    };
    let extensions = name.map_or_else(Vec::new, extension);
    let fixed = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let body = [&fixed[..], &with_length(&extensions)].concat();
    let message = [&[1, 0][..], &with_length(&body)].concat();
    [&[22, 3, 1][..], &with_length(&message)].concat()
}

#[test]
fn no_line_is_made_that_nobody_reads() {
    let mut fence = fence("[[rule]]\nallow = \"any\"\nports = \"80\"\n");
    for is_logged in [true, false] {
        fence.set_logged(is_logged);
        let (good, bad) = (ends(1, "192.0.3.1:80"), ends(2, "192.0.3.1:81"));
        assert_eq!((fence.tcp(&good), fence.tcp(&bad)), (Verdict::Allow, Verdict::Reset));
        fence.ended(&report(good, End::Finished));
        assert_eq!(lines(&mut fence).len(), if is_logged { 2 } else { 0 });
    }
}

#[test]
fn each_refusal_and_each_end_is_a_line() {
    let mut fence = fence(
        "[[rule]]\nallow = \"a.test\"\n[[rule]]\ndeny = \"private\"\n\
         [[rule]]\nallow = \"any\"\nports = \"udp\"\n",
    );
    fence.set_now(Instant::ZERO + Duration::from_millis(1_500), Duration::from_secs(1_795_897_383));
    pin(&mut fence, "192.0.3.1", &["a.test"]);
    let (good, bad) = (ends(1, "192.0.3.1:443"), ends(2, "10.0.0.1:80"));
    assert_eq!(fence.tcp(&good), Verdict::Allow);
    assert_eq!(fence.tcp(&bad), Verdict::Reset);
    let datagrams = ends(3, "[2001:db8::1]:9");
    assert_eq!(fence.udp(&datagrams), Verdict::Allow);
    fence.ended(&report_of(Protocol::Udp, datagrams, End::ShutDown));
    fence.ended(&report(good, End::Finished));
    fence.ended(&report(bad, End::Refused));
    assert_eq!(fence.tcp(&good), Verdict::Allow);
    fence.ended(&report(good, End::NotConnected(Failure::Refused)));
    fence.ended(&report(ends(80, "203.0.113.7:5000"), End::Finished));
    let written = |protocol: &str, from: u16, to: &str, others: &str| {
        let time = "2026-11-28T20:23:03.000Z";
        format!(r#"{{"time":"{time}","protocol":"{protocol}","source":"10.0.2.100:{from}","#)
            + &format!(r#""destination":"{to}",{others}}}"#)
    };
    let bytes = r#""bytes_out":10,"bytes_in":20,"duration":1.5"#;
    let named = r#""names":["a.test"],"verdict":"allow","rule":"policy.toml:1""#;
    let refused = r#""verdict":"deny","rule":"policy.toml:3","error":"refused""#;
    let refused_there = format!(r#"{named},{bytes},"error":"connection refused""#);
    let published = format!(r#""verdict":"allow","rule":"published",{bytes}"#);
    let datagrams = r#""verdict":"allow","rule":"policy.toml:5""#;
    let expected = [
        written("tcp", 2, "10.0.0.1:80", refused),
        written("udp", 3, "[2001:db8::1]:9", &format!("{datagrams},{bytes}")),
        written("tcp", 1, "192.0.3.1:443", &format!("{named},{bytes}")),
        written("tcp", 1, "192.0.3.1:443", &refused_there),
        written("tcp", 80, "203.0.113.7:5000", &published),
    ];
    assert_eq!(lines(&mut fence), expected);
}

#[test]
fn refused_datagrams_are_a_line_for_each_destination_and_minute() {
    let mut fence = fence("default = \"deny\"\n[[rule]]\nallow = \"any\"\nports = \"echo\"\n");
    let mut count = 0;
    for (seconds, port, remote, more) in [
        (1, 1, "192.0.3.1:9", true),
        (1, 1, "192.0.3.1:9", false),
        (1, 2, "192.0.3.1:9", false),
        (1, 1, "192.0.3.1:10", true),
        (60, 1, "192.0.3.1:9", false),
        (61, 1, "192.0.3.1:9", true),
    ] {
        fence.set_now(Instant::ZERO + Duration::from_secs(seconds), Duration::ZERO);
        assert_eq!(fence.udp(&ends(port, remote)), Verdict::Reset);
        assert_eq!(lines(&mut fence).len(), usize::from(more), "{seconds} {port} {remote}");
        count += 1;
    }
    assert_eq!(fence.counts().refused, count);
    // Nor are echoes for which the host has no socket.
    let echo = ends(7, "192.0.3.1:0");
    let why = Failure::Unreachable(stack::Unreachable::Prohibited);
    for more in [1, 0] {
        assert_eq!(fence.echo(&echo), Verdict::Allow);
        fence.ended(&report_of(Protocol::Echo, echo, End::NotConnected(why)));
        assert_eq!(lines(&mut fence).len(), more);
    }
    assert_eq!(fence.log.others(|_, _| false), []);
}

#[test]
fn questions_go_to_somebody_and_the_answer_to_all_who_wait() {
    let mut fence = fence("default = \"ask\"\nrefuse = \"drop\"\n");
    let (one, two) = (ends(1, "192.0.3.1:443"), ends(2, "192.0.3.1:443"));
    assert_eq!((fence.tcp(&one), fence.tcp(&two)), (Verdict::Ask, Verdict::Ask));
    let datagram = ends(3, "192.0.3.1:443");
    assert_eq!(fence.udp(&datagram), Verdict::Ask, "another protocol is another question");
    let ids: Vec<u64> = fence.questions().open().iter().map(|question| question.id).collect();
    assert_eq!(ids.len(), 2);
    let verdicts = fence.answer_question(ids[0], true, false);
    assert_eq!(verdicts, Some(vec![(one, Verdict::Allow), (two, Verdict::Allow)]));
    assert_eq!(fence.answer_question(ids[1], false, true), Some(Vec::new()));
    assert_eq!(fence.udp(&datagram), Verdict::Drop);
    assert_eq!(fence.tcp(&ends(4, "192.0.3.1:443")), Verdict::Allow);
    assert_eq!(fence.answer_question(99, true, true), None);
    // Nobody answers this one.
    let lost = ends(5, "192.0.3.2:443");
    assert_eq!(fence.tcp(&lost), Verdict::Ask);
    let id = fence.questions().open()[0].id;
    fence.set_now(fence.now + crate::questions::LIFE, Duration::ZERO);
    assert_eq!(fence.answer_question(id, true, true), None);
    fence.ended(&report(one, End::Finished));
    fence.ended(&report(lost, End::Refused));
    let lines = lines(&mut fence);
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0].contains(r#""udp","source":"10.0.2.100:3""#)
            && lines[0].contains("the answer was no")
    );
    assert!(lines[1].contains(r#""verdict":"allow","rule":"default""#), "{}", lines[1]);
    assert!(lines[2].contains("nobody answered the question"), "{}", lines[2]);
}

const SHARED: &str = "[[rule]]\nallow = \"match.test\"\nsni = \"match\"\n[[rule]]\nallow = \
                      \"plain.test\"\n[[rule]]\nallow = \"ignore.test\"\nsni = \"ignore\"\n";

#[test]
fn the_first_bytes_decide_about_a_flow() {
    let mut fence = fence(SHARED);
    pin(&mut fence, "192.0.3.1", &["match.test", "other.test", "plain.test"]);
    pin(&mut fence, "192.0.3.2", &["plain.test"]);
    pin(&mut fence, "192.0.3.3", &["ignore.test"]);
    let half = tls(Some("match.test"));
    let half = &half[..half.len() / 2];
    for (remote, bytes, is_all, expected) in [
        ("192.0.3.1:443", &tls(Some("match.test"))[..], false, Glance::Pass),
        ("192.0.3.1:443", &tls(Some("plain.test")), false, Glance::Pass),
        ("192.0.3.1:443", &tls(Some("other.test")), false, Glance::Refuse),
        ("192.0.3.1:443", &tls(Some("evil.test")), false, Glance::Refuse),
        ("192.0.3.1:443", &tls(None), false, Glance::Refuse),
        ("192.0.3.1:443", half, false, Glance::More),
        ("192.0.3.1:443", half, true, Glance::Refuse),
        ("192.0.3.1:443", b"", true, Glance::Refuse),
        ("192.0.3.1:443", b"GET / HTTP/1.1\r\nHost: match.test\r\n\r\n", false, Glance::Refuse),
        ("192.0.3.2:443", b"GET / HTTP/1.1\r\n", false, Glance::Pass),
        ("192.0.3.2:443", b"", true, Glance::Pass),
        ("192.0.3.2:443", &tls(Some("match.test")), false, Glance::Refuse),
        ("192.0.3.2:443", &tls(Some("plain.test")), false, Glance::Pass),
        ("192.0.3.2:443", half, true, Glance::Refuse),
        ("192.0.3.2:443", b"\x16\x03\x01\0\0", false, Glance::Refuse),
        ("192.0.3.3:443", &tls(Some("evil.test")), false, Glance::Pass),
    ] {
        let ends = ends(1, remote);
        assert_eq!(fence.tcp(&ends), Verdict::Allow);
        assert_eq!(fence.wants_hello(&ends), remote != "192.0.3.3:443");
        assert_eq!(fence.hello(&ends, bytes, is_all), expected, "{remote} {bytes:?} {is_all}");
        fence.ended(&report(ends, End::Refused));
    }
    let lines = lines(&mut fence);
    assert!(
        lines[2].contains(r#""sni":"other.test","verdict":"deny","rule":"default""#),
        "{}",
        lines[2]
    );
    assert!(lines[2].contains("no rule allows the name in the TLS hello here"));
    assert!(lines[8].contains(r#""rule":"policy.toml:1""#) && lines[8].contains("no TLS"));
    assert!(!fence.wants_hello(&ends(9, "192.0.3.1:443")), "nobody has allowed this one");
}

#[test]
fn a_flow_that_somebody_allowed_may_still_not_lie() {
    let mut fence = fence("[[rule]]\nask = \"a.test\"\n");
    pin(&mut fence, "192.0.3.1", &["a.test", "b.test"]);
    let flow = ends(1, "192.0.3.1:443");
    assert_eq!(fence.tcp(&flow), Verdict::Ask);
    let id = fence.questions().open()[0].id;
    assert_eq!(fence.answer_question(id, true, false), Some(vec![(flow, Verdict::Allow)]));
    assert!(fence.wants_hello(&flow));
    assert_eq!(fence.hello(&flow, &tls(Some("a.test")), false), Glance::Pass);
    assert_eq!(fence.hello(&flow, &tls(Some("b.test")), false), Glance::Refuse);
}

#[test]
fn a_limit_on_bytes_refuses_new_flows() {
    let mut fence = fence("default = \"allow\"\n[limits]\nbytes_out = \"1K\"\nbytes_in = 5000\n");
    let flow = ends(1, "192.0.3.1:443");
    for (used, expected, part) in [
        ((1_023, 4_999), Verdict::Allow, ""),
        ((1_024, 0), Verdict::Reset, r#""rule":"bytes_out""#),
        ((0, 5_000), Verdict::Reset, r#""rule":"bytes_in""#),
    ] {
        fence.set_used(used.0, used.1);
        assert_eq!(fence.tcp(&flow), expected);
        assert!(lines(&mut fence).concat().contains(part));
    }
}

#[test]
fn flows_whose_end_was_not_reported_are_forgotten() {
    let mut fence = fence("[[rule]]\nallow = \"a.test\"\n");
    pin(&mut fence, "192.0.3.1", &["a.test"]);
    let all: Vec<Ends> = (1..=3).map(|port| ends(port, "192.0.3.1:443")).collect();
    for ends in &all {
        assert_eq!(fence.tcp(ends), Verdict::Allow);
        // The same ends again, as after a limit of the engine.
        assert_eq!(fence.tcp(ends), Verdict::Allow);
    }
    fence.forget_others(|_, ends| *ends == all[0]);
    fence.set_now(fence.now + Duration::from_secs(7_200), Duration::ZERO);
    assert_eq!(fence.tcp(&all[1]), Verdict::Allow, "the first flow still holds the pin");
    fence.forget_others(|_, _| false);
    assert_eq!(fence.tcp(&all[1]), Verdict::Reset);
}

#[test]
fn the_name_in_a_hello_of_quic_has_to_be_allowed() {
    use crate::quic::tests::{ID, frame, seal};
    let initial = |id: &[u8], name: Option<&str>| seal(id, 0, &frame(0, &tls(name)[5..]));
    let by = |sni: &str| {
        let sni = if sni.is_empty() { String::new() } else { format!("sni = \"{sni}\"\n") };
        let mut fence = fence(&format!("[[rule]]\nallow = \"a.test\"\n{sni}"));
        pin(&mut fence, "192.0.3.1", &["a.test", "b.test"]);
        fence
    };
    let flow = ends(1, "192.0.3.1:443");
    for sni in ["match", ""] {
        let mut fence = by(sni);
        assert_eq!(fence.udp(&flow), Verdict::Allow);
        assert!(fence.wants_datagrams(&flow));
        let plain = if sni == "match" { Glance::Refuse } else { Glance::Pass };
        assert_eq!(fence.datagrams(&flow, b"anything", 0), plain, "{sni}");
        assert_eq!(
            fence.datagrams(&flow, &initial(b"12345678", Some("b.test")), 0),
            Glance::Refuse
        );
        assert_eq!(fence.datagrams(&flow, &initial(&ID, None), 0), Glance::Refuse);
        // A hello in two datagrams of one call, and by itself.
        let bytes = tls(Some("a.test"));
        let (first, last) = bytes[5..].split_at(30);
        let first = seal(&ID, 0, &frame(0, first));
        assert_eq!(fence.datagrams(&flow, &first, 0), Glance::More);
        let last = seal(&ID, 1, &frame(30, last));
        let longest = first.len().max(last.len());
        let mut both = first.clone();
        both.resize(longest, 0);
        both.extend(&last);
        assert_eq!(fence.datagrams(&flow, &both, longest), Glance::Pass);
        assert_eq!(fence.datagrams(&flow, b"\x40 what follows", 0), Glance::Pass);
        // Another connection by the same ports.
        assert_eq!(
            fence.datagrams(&flow, &initial(b"12345678", Some("b.test")), 0),
            Glance::Refuse
        );
        fence.ended(&report_of(Protocol::Udp, flow, End::Refused));
        let lines = lines(&mut fence);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(r#""sni":"b.test","verdict":"deny""#), "{}", lines[0]);
        assert_eq!(fence.udp(&flow), Verdict::Allow);
        fence.ended(&report_of(Protocol::Udp, flow, End::Refused));
        assert_eq!(fence.next_line(), None, "a line a minute");
    }
    let mut ignoring = by("ignore");
    assert_eq!(ignoring.udp(&flow), Verdict::Allow);
    assert!(!ignoring.wants_datagrams(&flow));
    // Other datagrams have no name.
    let mut matching = by("match");
    let other = ends(2, "192.0.3.1:123");
    assert_eq!(matching.udp(&other), Verdict::Allow);
    assert_eq!(matching.datagrams(&other, b"time?", 0), Glance::Pass);
    assert_eq!(matching.datagrams(&other, &initial(&ID, Some("b.test")), 0), Glance::Refuse);
}

#[test]
fn a_flow_that_cannot_be_remembered_does_not_pass_without_its_hello() {
    let rules = "[[rule]]\nallow = \"a.test\"\nports = \"443\"\n[[rule]]\nallow = \"any\"\n";
    let mut fence = fence(rules);
    pin(&mut fence, "192.0.3.1", &["a.test"]);
    let many = |number: u32| {
        let remote = core::net::Ipv4Addr::from_bits(0x0808_0000 + number);
        Ends { remote: SocketAddr::new(remote.into(), 80), ..ends(1, "192.0.3.1:80") }
    };
    for number in 0..65_536 {
        assert_eq!(fence.tcp(&many(number)), Verdict::Allow);
    }
    assert_eq!(fence.tcp(&ends(2, "192.0.3.1:80")), Verdict::Allow, "nobody asks for its hello");
    assert_eq!(fence.tcp(&ends(2, "192.0.3.1:443")), Verdict::Reset);
    fence.ended(&report(many(7), End::Finished));
    assert_eq!(fence.tcp(&ends(2, "192.0.3.1:443")), Verdict::Allow);
}
