//! The difference of two configurations, carried out on a stack with the first one, gives the same
//! stack as a new one with the second; parts that are the same in both are not touched.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU8;

use base::{Duration, MacAddr, Mtu, Owner, Switch};
use device::{Device, Offloads, mem};
use filter::rules::Ports;
use proptest::collection::{btree_map, btree_set};
use proptest::option;
use proptest::prelude::*;
use stack::route::{Access, Action, SourceCheck};
use stack::snapshot::NeighbourRow;
use stack::{NeighbourState, Stack, StackConfig};
use wirespeed_router::applied::{Applied, Opened};
use wirespeed_router::config::{
    Config, DeviceName, For, InVrf, Kind, Link, Members, Neighbour, Port, Prefix, RouteKey,
    RouteTo, Rule,
};
use wirespeed_router::plan;

/// A stack with a router, and the other ends of its devices.
struct World {
    stack: Stack,
    applied: Applied,
    ends: Vec<mem::Mem>,
}

impl World {
    fn new() -> World {
        let stack = Stack::new(StackConfig::new([3, 5]));
        World { stack, applied: Applied::default(), ends: Vec::new() }
    }

    /// Let a configuration take effect; returns the ports whose device was opened.
    fn apply(&mut self, config: &Config) -> Vec<String> {
        let (mut opened, ends) = (Vec::new(), &mut self.ends);
        let all = self.applied.apply(&mut [&mut self.stack], config, |name, port| {
            opened.push(name.to_owned());
            let mtu = port.mtu.unwrap_or(Mtu::ETHERNET);
            let tso_max_bytes = if port.offloads { 65_549 } else { 0 };
            let offloads = Offloads { tso_max_bytes, ..Offloads::default() };
            let config = mem::Config { mtu, offloads, ..mem::Config::default() };
            let (ours, theirs) = mem::pair(&config);
            ends.push(theirs);
            let Link::Device(device) = &port.link else { panic!("a VLAN is opened") };
            let last = device.name.bytes().last().unwrap_or(0);
            Ok(Opened { queues: vec![Box::new(ours)], mac: MacAddr([2, 0, 0, 0, 0, last]) })
        });
        for done in &all {
            assert_eq!(done.result, Ok(()), "{}", done.operation);
        }
        opened
    }

    fn name(&self, id: u16) -> &str {
        let found = self.applied.ports().iter().find(|(_, port)| port.id.0 == id);
        found.map(|(name, _)| name.as_str()).expect("a port of the router")
    }

    fn groups(&self, numbers: &[u32]) -> Vec<&str> {
        let name =
            |&number: &u32| self.applied.users().name(number).expect("a group of the router");
        numbers.iter().map(name).collect()
    }

    /// All state that the configuration decides, by the names of ports.
    fn shown(&self) -> Vec<String> {
        let stack = &self.stack;
        let mut lines = vec![format!("forwarding {}", stack.forwarding())];
        for (name, port) in self.applied.ports() {
            let rows = stack.ports_page(0, usize::MAX).rows;
            let row = rows.iter().find(|row| row.id == port.id).expect("it is in the stack");
            let mitigation = stack.mitigation(port.id).map(|(setting, _)| setting);
            let check = stack.source_check(port.id).expect("it is in the stack");
            lines.push(format!("{name} {} {} {mitigation:?} {check}", row.mac, row.mtu_bytes));
            lines.push(format!("{name} {:?}", row.vrf));
            let limits = stack.device(port.id).map(Device::limits);
            lines.push(format!("{name} {:?}", limits.map(|limits| limits.offloads)));
            let addresses = stack.addresses(port.id).iter();
            lines.extend(addresses.map(|address| format!("{name} {}", address.cidr)));
        }
        for route in stack.routes_page(0, usize::MAX).rows {
            let name = self.name(route.port);
            let (to, via, mtu, weight) = (route.dest, route.via, route.mtu, route.weight);
            let (table, origin, silent) = (route.table, route.origin, route.no_forward);
            let users = match route.access.as_deref() {
                None => "for all".to_owned(),
                Some(Access::Include(groups)) => format!("for {:?}", self.groups(groups)),
                Some(Access::Exclude(groups)) => format!("not for {:?}", self.groups(groups)),
            };
            let way = format!("{to} {via:?} {name} {mtu:?} {weight:?} {}", route.metric);
            lines.push(format!("{way} {origin:?} {table} {users} {silent}"));
        }
        // The rules, in their order.
        for (number, rule) in stack.rules().iter().enumerate() {
            let port = rule.in_port.map(|id| self.name(id));
            let group = rule.group.map(|group| self.groups(&[group]));
            let (priority, from, action) = (rule.priority, rule.from, rule.action);
            lines.push(format!("rule {number} {priority} {from:?} {port:?} {group:?} {action:?}"));
        }
        for uid in 0..3 {
            let owner = self.applied.users().owner(&Owner { uid, groups: [].into() });
            lines.push(format!("user {uid} {:?}", self.groups(&owner.groups)));
        }
        for row in stack.neighbours_page(0, usize::MAX).rows {
            let NeighbourRow { port, ip, mac, state, .. } = row;
            if state == NeighbourState::Static {
                lines.push(format!("{ip} {mac:?} {}", self.name(port.0)));
            }
        }
        for (name, port) in self.applied.ports() {
            for ip in NEIGHBOURS {
                lines.push(format!("{name} {ip} {:?}", stack.neighbour_mtu(port.id, ip)));
            }
        }
        lines.extend(GAPS.map(|to| format!("{:?}", stack.burst_gap(to.0))));
        lines.extend(
            Switch::ALL.iter().map(|s| format!("{} {}", s.name(), stack.switches().on(*s))),
        );
        lines.sort_unstable();
        lines
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const NEIGHBOURS: [IpAddr; 2] = [v4(10, 9, 9, 1), v4(10, 9, 9, 2)];
const GAPS: [Prefix; 2] = [(v4(10, 8, 0, 0), 24), (v4(10, 8, 1, 0), 24)];
const GROUPS: [&str; 3] = ["staff", "guests", "lab"];
const NAMES: [&str; 5] = ["a", "b", "c", "v", "w"];

prop_compose! {
    /// A port that `number` makes different from the others.
    fn port(number: usize)(
        link in 0_usize..3,
        mac in option::of(1_u8..3),
        mtu in option::of(0_usize..2),
        addresses in btree_set(1_u8..4, 0..3),
        len in 24_u8..26,
        mitigation in option::of("[0-2]"),
        check in 0_usize..3,
        vrf in option::weighted(0.4, 10_u32..12),
        offloads in any::<bool>(),
    ) -> Port {
        let is_vlan = number >= 3;
        let name = format!("x{}{link}", NAMES[number]);
        let link = match is_vlan {
            true => Link::Vlan { parent: NAMES[link % 2].to_owned(), id: (number + link) as u16 },
            false => Link::Device(DeviceName { kind: Kind::Tap, name }),
        };
        let address = |host| (v4(10, number as u8, 0, host), len);
        Port {
            mac: mac.map(|last| MacAddr([2, 1, 0, 0, number as u8, last])),
            mtu: mtu.map(|n| Mtu::new(if is_vlan { 1300 } else { 1400 } + n).expect("in range")),
            addresses: addresses.into_iter().map(address).collect(),
            mitigation: mitigation.and_then(|text| text.parse().ok()),
            source_check: SourceCheck::ALL[check].1,
            vrf: vrf.map(|table| InVrf { name: format!("vrf-{table}"), table }),
            offloads: is_vlan || offloads,
            ..Port::new(link)
        }
    }
}

fn ports() -> impl Strategy<Value = BTreeMap<String, Port>> {
    let all = [0, 1, 2, 3, 4].map(|number| option::weighted(0.7, port(number)));
    all.prop_map(|all| {
        let named = NAMES.into_iter().zip(all);
        let there = named.filter_map(|(name, port)| Some((name.to_owned(), port?)));
        let mut ports: BTreeMap<String, Port> = there.collect();
        let names: Vec<String> = ports.keys().cloned().collect();
        ports.retain(|_, port| match &port.link {
            Link::Vlan { parent, .. } => names.contains(parent),
            Link::Device(_) => true,
        });
        ports
    })
}

/// A group of a configuration, if it is there.
fn group(config: &Config, number: usize) -> Option<String> {
    let name = GROUPS.get(number)?;
    config.groups.contains_key(*name).then(|| (*name).to_owned())
}

prop_compose! {
    fn configs()(
        ports in ports(),
        forwarding: bool,
        broadcasts: bool,
        routes in btree_map(
            (0_u8..3, 0_usize..5, option::of(1_u8..3), 0_u32..2), (0_u32..2, 0_usize..4), 0..6),
        groups in btree_set(0_usize..3, 0..3),
        members in 0_u32..3,
        rules in btree_set((1_u32..4, 0_usize..6, 0_usize..4, 0_u32..3), 0..4),
        neighbours in btree_set(
            (0_usize..2, 0_usize..5, option::of(1_u8..3), option::of(0_usize..2)), 0..6),
        gaps in btree_set((0_usize..2, 1_u64..3), 0..2),
        rack: bool,
    ) -> Config {
        let mut config = Config { ports, ..Config::default() };
        config.router.forwarding = forwarding;
        config.router.directed_broadcasts = broadcasts;
        let is_there = |port: usize| config.ports.contains_key(NAMES[port]);
        for name in groups.into_iter().map(|n| GROUPS[n].to_owned()) {
            config.groups.insert(name, Members { uids: [members].into(), ..Members::default() });
        }
        let there = routes.into_iter().filter(|(route, _)| is_there(route.1));
        for ((to, port, via, table), (metric, list)) in there {
            let via = via.map(|host| v4(10, 7, 0, host));
            let (port, table) = (NAMES[port].to_owned(), 254 - table);
            let key = RouteKey { to: (v4(10, 6, to, 0), 24), port: Some(port), via, table };
            let users = match group(&config, list) {
                Some(name) if list % 2 == 0 => Some(For::Include([name].into())),
                name => name.map(|name| For::Exclude([name].into())),
            };
            let to = RouteTo { users, metric, no_forward: list == 3, ..RouteTo::default() };
            config.routes.insert(key, to);
        }
        for (priority, port, of, action) in rules {
            let in_port = NAMES.get(port).filter(|name| config.ports.contains_key(**name));
            let rule = Rule {
                from: Some((v4(10, 0, 0, 0), 8)),
                to: None,
                in_port: in_port.map(|name| (*name).to_owned()),
                mark: None,
                group: group(&config, of),
                not: false,
                action: if action == 0 { Action::Prohibit } else { Action::Table(action) },
            };
            config.rules.insert(priority, rule);
        }
        // As when a file is read: a single route has no weight.
        let all: Vec<_> = config.routes.keys().map(|key| (key.to, key.table)).collect();
        for (key, to) in &mut config.routes {
            let is_shared = all.iter().filter(|other| **other == (key.to, key.table)).count() > 1;
            to.weight = is_shared.then_some(NonZeroU8::MIN);
        }
        for (ip, port, mac, mtu) in neighbours.into_iter().filter(|row| is_there(row.1)) {
            let mac = mac.map(|last| MacAddr([2, 2, 0, 0, 0, last]));
            let mtu = mtu.and_then(|n| Mtu::new(1000 + n));
            let key = (NAMES[port].to_owned(), NEIGHBOURS[ip]);
            config.neighbours.insert(key, Neighbour { mac, mtu });
        }
        let gap = |(n, ms)| (GAPS[n], Duration::from_millis(ms));
        config.gaps = gaps.into_iter().map(gap).collect();
        if !rack {
            config.switches.insert(Switch::Rack.name(), false);
        }
        config
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_difference_makes_the_second_of_the_first(a in configs(), b in configs()) {
        let (mut changed, mut new) = (World::new(), World::new());
        changed.apply(&a);
        prop_assert_eq!(changed.applied.running(), &a);
        let ids: BTreeMap<String, _> =
            changed.applied.ports().iter().map(|(name, port)| (name.clone(), port.id)).collect();
        let needed = plan::opens(&a, &b);
        let needed: Vec<String> = needed.into_iter().map(|(name, _)| name.to_owned()).collect();
        let opened = changed.apply(&b);
        prop_assert_eq!(&opened, &needed);
        new.apply(&b);
        prop_assert_eq!(changed.applied.running(), &b);
        prop_assert_eq!(changed.shown(), new.shown());
        // The same again changes nothing.
        prop_assert!(changed.apply(&b).is_empty());
        // A port that is the same in both is not touched.
        for (name, port) in &b.ports {
            let is_trunk = |config: &Config| config.trunks().contains(&**name);
            if a.ports.get(name) == Some(port) && is_trunk(&a) == is_trunk(&b)
                && matches!(port.link, Link::Device(_))
            {
                prop_assert_eq!(changed.applied.ports()[name].id, ids[name]);
                prop_assert!(!opened.contains(name), "{name} was opened anew");
            }
        }
    }
}

/// A plan in which a port cannot be opened does the rest, and tries again next time.
#[test]
fn what_fails_is_tried_again() {
    let text = "[[port]]\nname = \"a\"\ndevice = \"tap:a\"\naddresses = \"192.0.2.1/24\"\n\
                [[port]]\nname = \"b\"\ndevice = \"tap:b\"\n";
    let config = Config::parse("r.toml", text).expect("valid");
    let mut world = World::new();
    let all = world.applied.apply(&mut [&mut world.stack], &config, |name, _| {
        let (ours, theirs) = mem::pair(&mem::Config::default());
        world.ends.push(theirs);
        match name {
            "a" => Err("no such device".to_owned()),
            _ => Ok(Opened { queues: vec![Box::new(ours)], mac: MacAddr([2, 0, 0, 0, 0, 1]) }),
        }
    });
    let failed: Vec<String> = all
        .iter()
        .filter_map(|done| Some(format!("{}: {}", done.operation, done.result.as_ref().err()?)))
        .collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed[0].contains("no such device") && failed[1].contains("192.0.2.1"), "{failed:?}");
    assert!(world.applied.ports().contains_key("b") && world.stack.forwarding());
    assert_eq!(world.apply(&config), ["a"]);
    assert_eq!(world.applied.running(), &config);
    assert!(world.stack.has_address(v4(192, 0, 2, 1)));
}

/// Rules name ports; the stack has numbers of them, which change with the ports.
#[test]
fn rules_follow_their_ports_and_replace_those_of_others() {
    let text = |device: &str, more: &str| {
        let port = |name: &str, device: &str| {
            format!("[[port]]\nname = \"{name}\"\ndevice = \"tap:{device}\"\n")
        };
        format!("{}{}{more}", port("a", "a"), port("b", device))
    };
    let rules = "[filter]\nrules = 'pass in b out a'\n";
    let config = |text: &str| Config::parse("r.toml", text).expect("valid");
    let mut world = World::new();
    let in_ports = |world: &World| {
        let published = world.stack.filter().expect("there are rules").published();
        let numbers = published.rules.filter[0].matches.in_ports.clone();
        (numbers, published.generation)
    };
    let of_b = |world: &World| Ports::Of(vec![world.applied.ports()["b"].id.0]);
    world.apply(&config(&text("b", rules)));
    let (first, began) = in_ports(&world);
    assert_eq!(first, of_b(&world));
    // The same again is no operation; another device of port b is another port.
    assert!(world.apply(&config(&text("b", rules))).is_empty());
    assert_eq!(in_ports(&world).1, began);
    let other = config(&text("c", rules));
    world.applied.prepare(&other, began);
    world.apply(&other);
    let (second, then) = in_ports(&world);
    assert_eq!(second, of_b(&world));
    assert!(then > began, "a state is judged again");
    // What is compiled before the stacks are locked is what they get.
    let next = config(&text("c", "[filter]\nrules = 'pass in b'\n"));
    world.applied.prepare(&next, then);
    world.apply(&next);
    assert_eq!(in_ports(&world), (of_b(&world), then + 1));
    // Somebody else has taken the rules away.
    world.stack.set_filter(None);
    world.apply(&next);
    assert_eq!(in_ports(&world).0, of_b(&world));
    world.apply(&config(&text("c", "")));
    assert!(world.stack.filter().is_none());
}

/// Rules never wait for a port: those about one that is not there match nothing.
#[test]
fn rules_run_while_a_port_is_missing() {
    let text = "[[port]]\nname = \"a\"\ndevice = \"tap:a\"\n\
                [[port]]\nname = \"b\"\ndevice = \"tap:b\"\n\
                [filter]\nrules = 'pass in a'\n";
    let config = Config::parse("r.toml", text).expect("valid");
    let mut world = World::new();
    world.applied.apply(&mut [&mut world.stack], &config, |name, _| {
        let (ours, theirs) = mem::pair(&mem::Config::default());
        world.ends.push(theirs);
        match name {
            "a" => Err("no such device".to_owned()),
            _ => Ok(Opened { queues: vec![Box::new(ours)], mac: MacAddr([2, 0, 0, 0, 0, 1]) }),
        }
    });
    let of_rule = |world: &World| {
        world.stack.filter().expect("they run").published().rules.filter[0].matches.in_ports.clone()
    };
    let Ports::Of(numbers) = of_rule(&world) else { panic!("it names a port") };
    assert!(world.applied.ports().values().all(|port| !numbers.contains(&port.id.0)));
    world.apply(&config);
    assert_eq!(of_rule(&world), Ports::Of(vec![world.applied.ports()["a"].id.0]));
}
