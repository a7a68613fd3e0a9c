use super::*;

const NOW: Instant = Instant::from_nanos(7_000_000_000);

/// The times of all steps, in ns from the beginning, if every random number is `random`.
fn steps(random: u64) -> Vec<(Step, u64)> {
    let mut check = Check::new(NOW, random);
    let mut found = Vec::new();
    while !check.is_done() {
        let due = check.due();
        assert_eq!(check.step(Instant::from_nanos(due.as_nanos() - 1), random), None);
        let probing = check.is_probing();
        let step = check.step(due, random).expect("due");
        assert_eq!(probing, matches!(step, Step::Probe | Step::Use));
        found.push((step, due.since(NOW).as_nanos()));
    }
    assert_eq!((check.due(), check.step(Instant::NEVER, random)), (Instant::NEVER, None));
    found
}

/// RFC 5227 2.1.1-a, 2.1.1-c, 2.3-a.
#[test]
fn probes_and_announcements_keep_their_times() {
    use Step::*;
    const S: u64 = 1_000_000_000;
    let least = [(Probe, 0), (Probe, S), (Probe, 2 * S), (Use, 4 * S), (Announce, 6 * S)];
    assert_eq!(steps(0), least);
    for random in [1, 999_999_999, 12_345_678_901, u64::MAX] {
        let found = steps(random);
        assert_eq!(found.iter().map(|s| s.0).collect::<Vec<_>>(), least.map(|s| s.0));
        assert!(found[0].1 < S);
        for pair in found.windows(2) {
            let between = pair[1].1 - pair[0].1;
            match pair[1].0 {
                Probe => assert!((S..=2 * S).contains(&between)),
                Use | Announce => assert_eq!(between, 2 * S),
            }
        }
    }
}

/// RFC 5227 2.4-b, 2.4-c.
#[test]
fn an_address_is_defended_once_in_ten_seconds() {
    let mut defence = Defence::default();
    assert!(defence.conflict(NOW));
    assert!(!defence.conflict(NOW + Duration::from_millis(9_999)));
    assert!(defence.conflict(NOW + Duration::from_secs(10)));
}

/// RFC 3927 2.1-a.
#[test]
fn candidates_are_never_in_the_reserved_parts() {
    for random in (0..1_000_000).chain([u64::MAX]) {
        let [a, b, c, _] = link_local_candidate(random).octets();
        assert!((a, b) == (169, 254) && (1..=254).contains(&c));
    }
    assert_eq!(link_local_candidate(0), Ipv4Addr::new(169, 254, 1, 0));
    assert_eq!(link_local_candidate(254 * 256 - 1), Ipv4Addr::new(169, 254, 254, 255));
}
