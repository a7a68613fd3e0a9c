//! A router that advertises itself, in virtual time. What it sends is read by `wire`, which hosts
//! use, and has tests of its own.

use core::net::Ipv6Addr;

use base::{DropReason, Duration, Instant, KeyedHash, Limit, MacAddr};
use wire::nd::{NdOption, Preference, RouterAdvertisement, router_solicitation};

use super::*;

const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const NETWORK: Ipv6Addr = Ipv6Addr::new(0xfd00, 1, 2, 3, 0, 0, 0, 0);
const DNS: Ipv6Addr = Ipv6Addr::new(0xfd00, 1, 2, 3, 0, 0, 0, 3);
const HARDWARE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const START: Instant = Instant::from_nanos(1_000_000_000_000);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn config() -> Config {
    Config {
        mtu: Some(65_520),
        dns_servers: vec![DNS],
        search: vec!["mill.example".to_owned()],
        other: true,
        ..Config::new(SOURCE, HARDWARE, Prefix::new(NETWORK, 64))
    }
}

fn router(config: Config) -> Router {
    Router::new(config, KeyedHash::new(1, 2), START).expect("a good configuration")
}

fn host(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, number)
}

/// A solicitation of a host.
fn ask(router: &mut Router, source: Ipv6Addr, now: Instant) {
    let mut message = [0; 16];
    router_solicitation(&mut message, HARDWARE, source, ALL_ROUTERS).expect("16 bytes");
    let message = if source.is_unspecified() { &message[..8] } else { &message[..] };
    router.receive(now, source, HOP_LIMIT, message).expect("a good one");
}

/// All that is sent until a time, polled at the deadlines only.
fn until(router: &mut Router, end: Instant) -> Vec<(Instant, Advertisement)> {
    let mut sent = Vec::new();
    let mut now = START;
    while router.deadline() <= end {
        now = now.max(router.deadline());
        let one = router.poll(now).expect("its deadline has come");
        sent.push((now, one));
        assert!(sent.len() < 10_000, "without end");
    }
    sent
}

fn lifetime(of: &Advertisement) -> u16 {
    RouterAdvertisement::parse(&of.message).expect("a good one").lifetime_s
}

fn to_all(sent: &[(Instant, Advertisement)]) -> Vec<Instant> {
    let all = sent.iter().filter(|(_, one)| one.destination == ALL_NODES);
    all.map(|(at, _)| *at).collect()
}

// RFC 4861 6.2.3-a, RFC 8106 5.1-a.
#[test]
fn an_advertisement_says_what_is_configured() {
    let mut router = router(Config { preference: Preference::High, ..config() });
    let sent = router.poll(START).expect("the first is due at once");
    assert_eq!((sent.source, sent.destination), (SOURCE, ALL_NODES));
    // The checksum is right.
    wire::icmpv6::Header::parse(&sent.message, SOURCE, ALL_NODES).expect("a checksum");
    let read = RouterAdvertisement::parse(&sent.message).expect("a good one");
    assert_eq!((read.hop_limit, read.managed, read.other), (64, false, true));
    assert_eq!((read.lifetime_s, read.preference), (65_535, Preference::High));
    assert_eq!(read.link_addr(), Some(HARDWARE));
    let options: Vec<_> = read.options.iter().collect();
    let prefix = wire::nd::Prefix {
        prefix: NETWORK,
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_s: u32::MAX,
        preferred_s: u32::MAX,
    };
    assert!(options.contains(&NdOption::Prefix(prefix)));
    assert!(options.contains(&NdOption::Mtu(65_520)));
    let servers = NdOption::Rdnss { lifetime_s: u32::MAX, servers: &DNS.octets() };
    assert!(options.contains(&servers));
    let domains = options.iter().find_map(|option| match option {
        NdOption::Dnssl { domains, .. } => Some(domains.iter().collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(domains.expect("search domains"), ["mill.example"]);
}

// RFC 4861 6.2.4-a.
#[test]
fn after_the_first_three_an_idle_router_is_silent() {
    let mut silent = router(config());
    let sent = until(&mut silent, START + Duration::from_secs(1_000_000));
    let times = to_all(&sent);
    assert_eq!(times.len(), 3);
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) <= Duration::from_secs(16)));
    assert_eq!(silent.deadline(), Instant::NEVER);
    // With an interval they go on, at random within it.
    let (min, max) = (Duration::from_secs(30), Duration::from_secs(60));
    let mut periodic = router(Config { interval: Interval::Between { min, max }, ..config() });
    let times = to_all(&until(&mut periodic, START + Duration::from_secs(6_000)));
    let spans: Vec<_> = times.windows(2).skip(3).map(|pair| pair[1].since(pair[0])).collect();
    assert!(spans.len() > 90 && spans.iter().all(|&span| (min..=max).contains(&span)));
    assert!(spans.iter().any(|&span| span > ms(50_000)));
    assert!(spans.iter().any(|&span| span < ms(40_000)));
}

// RFC 4861 6.2.6-a, 6.2.6-c.
#[test]
fn a_host_that_asks_is_answered_within_half_a_second() {
    let mut router = router(config());
    let mut now = START + Duration::from_secs(100);
    until(&mut router, now);
    let mut delays = Vec::new();
    for _ in 0..50 {
        now += ms(700);
        ask(&mut router, host(1), now);
        let at = router.deadline();
        delays.push(at.since(now));
        assert_eq!(router.poll(at).expect("due").destination, host(1));
        assert_eq!(router.poll(at), None);
    }
    assert!(delays.iter().all(|&delay| delay < ms(500)));
    assert!(delays.iter().any(|&delay| delay > ms(300)));
    assert!(delays.iter().any(|&delay| delay < ms(200)));
}

// RFC 4861 6.2.6-b, 6.2.6-d.
#[test]
fn advertisements_to_all_keep_their_distance_however_many_ask() {
    let mut router = router(config());
    let mut sent = Vec::new();
    let mut now = START;
    for step in 0..10_000_u64 {
        now = START + ms(step);
        for number in 0..40 {
            ask(&mut router, host(number), now);
        }
        ask(&mut router, Ipv6Addr::UNSPECIFIED, now);
        while let Some(one) = router.poll(now) {
            sent.push((now, one));
        }
    }
    let times = to_all(&sent);
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= Duration::from_secs(3)));
    assert!((3..=4).contains(&times.len()), "{}", times.len());
    // Eight hosts at a time are answered by themselves, each after a delay.
    let seconds = now.since(START).as_secs_f64();
    let alone = sent.len() - times.len();
    assert!((alone as f64) < 8.0 * seconds * 1_000.0 / 20.0, "{alone} in {seconds} s");
    assert!(router.schedule.hosts() <= 8);
    assert!(router.budget_mut().hits(Limit::RouterSolicitors) > 0);
}

#[test]
fn a_change_is_learnt_at_once() {
    let mut router = router(config());
    let now = START + ms(200);
    ask(&mut router, host(1), START);
    until(&mut router, now);
    // An advertisement to all was sent 200 ms ago: the host that has asked gets one of its own.
    router.set_lifetime(Duration::ZERO, now).expect("allowed");
    let sent: Vec<_> = std::iter::from_fn(|| router.poll(now)).collect();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].destination, lifetime(&sent[0])), (host(1), 0));
    // RFC 4861 6.2.4-b: and all learn it once that is permitted.
    let (at, all) = until(&mut router, now + Duration::from_secs(3)).remove(0);
    assert_eq!((all.destination, lifetime(&all)), (ALL_NODES, 0));
    assert!(at.since(START) >= Duration::from_secs(3));
    // The same settings again are no change.
    until(&mut router, START + Duration::from_secs(1_000));
    router.set_config(router.config().clone(), START).expect("the same");
    assert_eq!(router.deadline(), Instant::NEVER);
}

// RFC 4861 6.2.5-a.
#[test]
fn a_router_that_ends_says_so_three_times_at_most() {
    let mut router = router(config());
    let now = START + Duration::from_secs(500);
    until(&mut router, now);
    router.stop(now);
    let first = router.poll(now).expect("at once");
    assert_eq!((first.destination, lifetime(&first)), (ALL_NODES, 0));
    ask(&mut router, host(1), now);
    let sent = until(&mut router, Instant::NEVER - Duration::from_nanos(1));
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|(_, one)| lifetime(one) == 0));
    assert_eq!((router.deadline(), router.poll(now), router.sent()), (Instant::NEVER, None, 6));
    let read = RouterAdvertisement::parse(&sent[1].1.message).expect("a good one");
    let ends = |option| matches!(option, NdOption::Rdnss { lifetime_s: 0, .. });
    assert!(read.options.iter().any(ends));
}

// RFC 4861 6.1.1-a.
#[test]
fn solicitations_from_elsewhere_or_malformed_are_dropped() {
    let mut router = router(config());
    until(&mut router, START + Duration::from_secs(500));
    let mut good = [0; 16];
    router_solicitation(&mut good, HARDWARE, host(1), ALL_ROUTERS).expect("16 bytes");
    let mut wrong = |source, hop_limit, message: &[u8]| {
        let outcome = router.receive(START, source, hop_limit, message);
        assert_eq!(outcome, Err(DropReason::RsInvalid));
    };
    wrong(host(1), 254, &good);
    wrong(host(1), 255, &good[..7]);
    wrong(host(1), 255, &good[..15]);
    wrong(ALL_NODES, 255, &good);
    wrong(Ipv6Addr::UNSPECIFIED, 255, &good);
    wrong(host(1), 255, &{
        let mut message = good;
        message[1] = 1;
        message
    });
    wrong(host(1), 255, &{
        let mut message = good;
        message[9] = 0;
        message
    });
    assert_eq!((router.drops().of(DropReason::RsInvalid), router.deadline()), (7, Instant::NEVER));
}

#[test]
fn settings_that_cannot_work_are_refused_with_a_sentence() {
    let wrong = |config: Config| {
        let error = Router::new(config, KeyedHash::new(1, 2), START).expect_err("it cannot work");
        assert!(error.to_string().len() > 20, "{error}");
        error
    };
    assert_eq!(wrong(Config { source: NETWORK, ..config() }), ConfigError::Source);
    assert_eq!(wrong(Config { mtu: Some(1_279), ..config() }), ConfigError::Mtu);
    let router_lifetime = Duration::from_secs(65_536);
    assert_eq!(wrong(Config { router_lifetime, ..config() }), ConfigError::Lifetime);
    let dns_servers = vec![DNS; 9];
    assert_eq!(wrong(Config { dns_servers, ..config() }), ConfigError::List);
    let interval = Interval::Between { min: ms(4_000), max: ms(4_000) };
    assert_eq!(wrong(Config { interval, ..config() }), ConfigError::Interval);
    // RFC 4861 6.2.3-b.
    for prefix in [Prefix::new(SOURCE, 64), Prefix::new(NETWORK, 129), Prefix::new(ALL_NODES, 64)] {
        let error = wrong(Config { prefixes: vec![prefix], ..config() });
        assert_eq!(error, ConfigError::Prefix(prefix.network));
    }
    let valid = Some(ms(1_000));
    let short = Prefix { valid, ..Prefix::new(NETWORK, 64) };
    assert_eq!(wrong(Config { prefixes: vec![short], ..config() }), ConfigError::Prefix(NETWORK));
    let name = "a b".to_owned();
    assert_eq!(wrong(Config { search: vec![name.clone()], ..config() }), ConfigError::Name(name));
}
