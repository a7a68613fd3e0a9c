use super::*;
use std::net::IpAddr;

#[test]
fn sequence_numbers_compare_across_the_wrap() {
    let a = SeqNumber(u32::MAX - 5);
    let b = a + 10;
    assert!(a.lt(b) && b.gt(a) && a.le(a) && a.ge(a));
    assert_eq!(b.since(a), 10);
    assert_eq!(a.since(b), -10);
    assert_eq!(a.max(b), b);
    assert_eq!(a.min(b), a);
    assert_eq!(b - 10, a);
}

#[test]
fn window_scale_reaches_what_it_must_say() {
    assert_eq!(WindowScale::for_window(65_535).shift(), 0);
    assert_eq!(WindowScale::for_window(65_536).shift(), 1);
    assert_eq!(WindowScale::for_window(1 << 30).shift(), 14);
    assert_eq!(WindowScale::new(200), WindowScale::MAX);
    assert_eq!(WindowScale::new(7).scale(1 << 20), 8192);
    assert_eq!(WindowScale::new(7).unscale(8192), 1 << 20);
    assert_eq!(WindowScale::new(0).scale(1 << 20), 0xffff);
}

#[test]
fn cidr_parses_and_contains() {
    let c: Cidr = "192.0.2.130/25".parse().unwrap();
    assert!(c.contains("192.0.2.255".parse::<IpAddr>().unwrap()));
    assert!(!c.contains("192.0.2.1".parse::<IpAddr>().unwrap()));
    assert!("192.0.2.1/33".parse::<Cidr>().is_err());
    assert!("fe80::1/128".parse::<Cidr>().unwrap().contains("fe80::1".parse::<IpAddr>().unwrap()));
    assert!("0.0.0.0/0".parse::<Cidr>().unwrap().contains("9.9.9.9".parse::<IpAddr>().unwrap()));
}

#[test]
fn time_saturates_instead_of_wrapping() {
    assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
    assert_eq!(Instant::ZERO.since(Instant::NEVER), Duration::ZERO);
    assert_eq!(Duration::MAX + Duration::MAX, Duration::MAX);
}

#[test]
fn names_of_drops_counters_switches_and_limits_are_unique() {
    fn unique(names: Vec<&str>) {
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len());
    }
    unique(DropReason::ALL.iter().map(|r| r.name()).collect());
    unique(Counter::ALL.iter().map(|r| r.name()).collect());
    unique(Switch::ALL.iter().map(|r| r.name()).collect());
    unique(Limit::ALL.iter().map(|r| r.name()).collect());
}

#[test]
fn switches_turn_by_name() {
    let s = Switches::default();
    assert!(s.on(Switch::Predict));
    let s = s.parse_setting("predict=off").unwrap();
    assert!(!s.on(Switch::Predict));
    assert!(s.parse_setting("predict=maybe").unwrap_err().contains("expected"));
    assert!(s.parse_setting("nonsense=on").unwrap_err().contains("predict"));
}

#[test]
fn a_limit_admits_up_to_its_value_and_counts_hits() {
    let mut b = Budget::default();
    b.set(Limit::HalfOpen, 2);
    assert!(b.admits(Limit::HalfOpen, 1));
    assert!(!b.admits(Limit::HalfOpen, 2));
    assert_eq!(b.hits(Limit::HalfOpen), 1);
}

#[test]
fn a_limit_a_second_admits_so_many_in_each_second() {
    let mut b = Budget::default();
    b.set(Limit::ChallengeAcksPerSecond, 2);
    let mut used = PerSecond::default();
    let mut at = |ms: u64| {
        let now = Instant::ZERO + Duration::from_millis(ms);
        used.admits(Limit::ChallengeAcksPerSecond, now, &mut b)
    };
    assert_eq!([0, 1, 999, 999].map(&mut at), [true, true, false, false]);
    assert_eq!([1000, 1000, 1999].map(&mut at), [true, true, false]);
    assert_eq!(b.hits(Limit::ChallengeAcksPerSecond), 3);
}

#[test]
fn keyed_hash_equals_the_siphasher_crate() {
    use siphasher::sip::SipHasher13;
    use std::hash::Hasher;
    for i in 0..200u64 {
        let words = [i, i.wrapping_mul(0x9e37_79b9_7f4a_7c15), !i];
        let mut oracle = SipHasher13::new_with_keys(i, 77);
        for w in words {
            oracle.write(&w.to_le_bytes());
        }
        assert_eq!(KeyedHash::new(i, 77).hash(words), oracle.finish());
    }
}

#[test]
fn what_is_reserved_of_a_limit_stays_under_it_and_comes_back() {
    let mut b = Budget::default();
    let limit = Limit::ReceiveBufferBytes;
    b.set(limit, 100);
    assert!(b.reserve(limit, 60, usize::MAX) && !b.reserve(limit, 41, usize::MAX));
    assert!(!b.reserve(limit, 1, 60), "more than the caller's own maximum was reserved");
    assert!(!b.reserve(limit, usize::MAX, usize::MAX));
    assert_eq!((b.reserved(limit), b.hits(limit)), (60, 3));
    b.give_back(limit, 60);
    assert!(b.reserve(limit, 100, usize::MAX));
    assert_eq!((b.reserved(limit), b.hits(limit)), (100, 3));
}

#[test]
fn a_network_is_its_address_without_the_bits_of_a_host() {
    for (address, network) in [
        ("192.0.2.77/24", "192.0.2.0/24"),
        ("10.255.255.255/9", "10.128.0.0/9"),
        ("192.0.2.77/32", "192.0.2.77/32"),
        ("192.0.2.77/0", "0.0.0.0/0"),
        ("2001:db8::5:1/64", "2001:db8::/64"),
        ("2001:db8::5/128", "2001:db8::5/128"),
        ("2001:db8::5/0", "::/0"),
    ] {
        let cidr: crate::Cidr = address.parse().expect("the text is a network");
        assert_eq!(cidr.network().to_string(), network);
    }
}

#[test]
fn drops_and_counters_print_what_is_not_zero() {
    let (mut drops, mut counters) = (Drops::default(), Counters::default());
    assert_eq!((format!("{drops}"), format!("{drops:?}")), ("none".to_owned(), "{}".to_owned()));
    drops.count_many(DropReason::UdpNoSocket, 3);
    drops.count(DropReason::TcpRst);
    assert_eq!(format!("{drops}"), "udp_no_socket 3, tcp_rst 1");
    assert_eq!(format!("{drops:?}"), r#"{"udp_no_socket": 3, "tcp_rst": 1}"#);
    assert_eq!(format!("{counters}"), "none");
    counters.add(Counter::UdpIn, 2);
    assert_eq!(
        (format!("{counters}"), format!("{counters:?}")),
        ("udp_in 2".to_owned(), r#"{"udp_in": 2}"#.to_owned())
    );
}

#[test]
fn every_drop_and_counter_says_what_to_do() {
    for reason in DropReason::ALL {
        assert!(!reason.advice().is_empty(), "advice.rs has no sentence for {reason:?}");
    }
    for counter in Counter::ALL {
        assert!(!counter.advice().is_empty(), "advice.rs has no sentence for {counter:?}");
    }
}

#[test]
fn counters_md_is_what_the_tables_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/counters.md");
    let text = advice::document();
    let there = std::fs::read_to_string(path).unwrap_or_default();
    // What is behind this is another crate's.
    let (stack, rest) =
        there.split_at(there.find("\n## Counters of a gateway\n").unwrap_or(there.len()));
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{text}{rest}")).expect("the document can be written");
        return;
    }
    let again = "WRITE_DOCS=1 cargo test -p wirespeed-base counters_md";
    assert!(stack == text, "docs/counters.md is not as the tables in crates/core/base: {again}");
}
