//! A table of mappings against a plain model, step by step.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Flow { host: u8, port: u16, is_tcp: bool },
    End(usize),
    Wait(u64),
    Gone,
    Sweep,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6_u8, 2_040..2_060_u16, any::<bool>())
            .prop_map(|(host, port, is_tcp)| Step::Flow { host, port, is_tcp }),
        6 => any::<usize>().prop_map(Step::End),
        1 => (1..100_u64).prop_map(Step::Wait),
        1 => Just(Step::Gone),
        1 => Just(Step::Sweep),
    ]
}

proptest! {
    #[test]
    fn a_table_does_what_a_plain_model_does(
        steps in vec(steps(), 0..200),
        block in prop_oneof![Just(0_u16), Just(64)],
        is_open: bool,
        width in prop_oneof![Just(20_u16), Just(190), Just(1_000)],
        is_port: bool,
    ) {
        let filtering = if is_open { Filtering::Independent } else { Filtering::Port };
        let addresses = if is_port { Addresses::OfPort } else { network("203.0.113.0/31") };
        let ports = (2_048, 2_048 + width.max(block));
        let mut nat = Nat::new(Pool { ports, block, filtering, ..Pool::new(addresses) });
        // Flows, and the outside endpoint of each inside one with how many use it.
        let mut flows: Vec<(u8, IpAddr, u16, Mapped)> = Vec::new();
        let mut model: BTreeMap<(u8, IpAddr, u16), (IpAddr, u16, usize)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Flow { host, port, is_tcp } => {
                    let protocol = if is_tcp { TCP } else { UDP };
                    let src = inside(host);
                    let result = nat.flow(protocol, src, port);
                    let known = model.get_mut(&(protocol, src, port));
                    let Ok(mapped) = result else {
                        prop_assert!(known.is_none());
                        continue;
                    };
                    prop_assert!((ports.0..=ports.1).contains(&mapped.port));
                    match known {
                        Some((addr, outside, count)) => {
                            prop_assert_eq!((*addr, *outside), (mapped.addr, mapped.port));
                            prop_assert!(!mapped.is_new);
                            *count += 1;
                        }
                        None => {
                            // RFC 4787 REQ-3, RFC 5382 REQ-7.
                            let is_double = model.iter().any(|((other, ..), (addr, outside, _))| {
                                (*other, *addr, *outside) == (protocol, mapped.addr, mapped.port)
                            });
                            prop_assert!(!is_double);
                            let of_source = model.iter().find(|((_, addr, _), _)| *addr == src);
                            prop_assert!(of_source.is_none_or(|(_, v)| v.0 == mapped.addr));
                            model.insert((protocol, src, port), (mapped.addr, mapped.port, 1));
                        }
                    }
                    flows.push((protocol, src, port, mapped));
                }
                Step::End(which) if !flows.is_empty() => {
                    let (protocol, src, port, mapped) = flows.swap_remove(which % flows.len());
                    nat.end(mapped);
                    let entry = model.get_mut(&(protocol, src, port)).expect("in the model");
                    entry.2 -= 1;
                    if entry.2 == 0 {
                        model.remove(&(protocol, src, port));
                    }
                }
                Step::Wait(s) => nat.now += Duration::from_secs(s),
                Step::Gone => {
                    nat.table.address_gone(OUTSIDE, nat.now, |_| {});
                    flows.retain(|(.., mapped)| mapped.addr != OUTSIDE);
                    model.retain(|_, (addr, ..)| *addr != OUTSIDE);
                }
                Step::Sweep => {
                    nat.table.sweep(nat.now, 1_000);
                }
                Step::End(_) => {}
            }
            for ((protocol, addr, port), (outside, outside_port, _)) in &model {
                let found = nat.table.find_outside(*protocol, *outside, *outside_port, REMOTE);
                let found = found.map(|found| (found.addr, found.port));
                prop_assert_eq!(found, is_open.then_some((*addr, *port)));
            }
        }
        // Nothing is left when all flows ended and all holds are over.
        flows.into_iter().for_each(|(.., mapped)| nat.end(mapped));
        nat.now += Duration::from_secs(1_000);
        nat.table.sweep(nat.now, 10_000);
        prop_assert!(nat.table.is_empty());
        prop_assert!(nat.table.outsides.get(0).is_none() && nat.table.outsides.get(1).is_none());
        prop_assert!(nat.table.sources.get(0).is_none());
        prop_assert_eq!(nat.table.pools[0].sources, 0);
        let (gained, lost): (Vec<_>, Vec<_>) =
            nat.events().into_iter().partition(|event| event.is_allocation);
        prop_assert_eq!(gained.len(), lost.len());
    }
}
