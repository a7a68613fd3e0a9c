//! The merged filter of several sockets is compared with the RFC's rule, and with the filter that a
//! router derives from the reports.

use super::*;

/// Splitmix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Random filters of three sockets: the merged filter admits a source exactly if one of them does,
/// and has the mode that RFC 3376 section 3.2 gives it. A router that receives one report of each
/// change has the same filter.
/// RFC 3376 3.2-a, 3.2-b, RFC 3810 4.2-a.
#[test]
fn the_merged_filter_is_that_of_the_rfc_and_routers_hear_of_it() {
    let (mut draw, mut host) = (Draw(1), host(IpVersion::V4));
    let universe: Vec<IpAddr> = (0..6).map(|n| IpAddr::from([192, 0, 2, n])).collect();
    let (group, mut router) = (ip("239.1.2.3"), Filter::NOTHING);
    let mut sockets = vec![Filter::NOTHING; 3];
    for round in 0..5_000_u64 {
        let chosen = draw.below(3) as usize;
        let some: Vec<IpAddr> = universe.iter().copied().filter(|_| draw.below(3) == 0).collect();
        sockets[chosen] = match draw.below(4) {
            0 => Filter::NOTHING,
            1 => Filter::exclude(some),
            _ => Filter::include(some),
        };
        let merged = Filter::merged(sockets.iter());
        let excludes = sockets.iter().any(|f| f.mode == Mode::Exclude);
        assert_eq!(merged.mode == Mode::Exclude, excludes);
        for &source in &universe {
            assert_eq!(
                merged.takes(source),
                sockets.iter().any(|f| f.takes(source)),
                "{sockets:?}"
            );
        }
        assert!(
            merged.sources.iter().all(|s| universe.contains(s)),
            "the merged filter names a source that no socket names"
        );
        host.set(group, merged.clone(), at(round * 100));
        // In some rounds several changes are in one report.
        if draw.below(2) == 0 {
            for (_, message) in run(&mut host, at(round * 100 + 99)) {
                said(&message).into_iter().for_each(|record| hear(&mut router, record));
            }
            assert_eq!(router, merged, "round {round}");
        }
        assert_eq!(host.filter(group), (!merged.is_nothing()).then_some(&merged));
    }
}

/// Update a router's filter as in RFC 3376 section 6.4, as if its timers expired at once.
fn hear(router: &mut Filter, (kind, _, sources): (String, IpAddr, Vec<IpAddr>)) {
    match (kind.as_str(), router.mode) {
        ("ToInclude" | "IsInclude", _) => *router = Filter::include(sources),
        ("ToExclude" | "IsExclude", _) => *router = Filter::exclude(sources),
        ("Allow", Mode::Include) | ("Block", Mode::Exclude) => router.sources.extend(sources),
        ("Allow" | "Block", _) => router.sources.retain(|s| !sources.contains(s)),
        other => panic!("{other:?}"),
    }
}
