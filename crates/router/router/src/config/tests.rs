//! The configurations of files, and the messages about errors in them.

use stack::route::{Action, MAIN_TABLE};

use base::MacAddr;
use base::Mtu;
use core::net::IpAddr;
use stack::route::SourceCheck;
use std::path::Path;

use super::*;
use crate::machine::Machine;

/// The messages about a file named `r.toml`.
fn wrong(text: &str) -> Vec<String> {
    match Config::parse("r.toml", text) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

fn right(text: &str) -> Config {
    Config::parse("r.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// There is one message about `text`, which begins with `place` and contains `parts`.
fn says(text: &str, place: &str, parts: &[&str]) {
    let all = wrong(text);
    let [only] = all.as_slice() else { panic!("{text}: {all:#?}") };
    assert!(only.starts_with(&format!("r.toml:{place}: ")), "{only}");
    parts.iter().for_each(|part| assert!(only.contains(part), "{only} lacks {part}"));
}

const LAN: &str = "[[port]]\nname = \"lan\"\ndevice = \"tap:ws0\"\naddresses = \"192.0.2.1/24\"\n";

fn with_lan(more: &str) -> String {
    format!("{LAN}{more}")
}

#[test]
fn an_empty_file_is_a_router_without_ports() {
    assert_eq!(right(""), Config::default());
}

#[test]
fn the_example_is_valid() {
    let text = include_str!("../../../../../examples/router.toml");
    let config = Config::parse_with("r.toml", text, &mut Machine::beside(Path::new("r.toml")));
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(config.ports.len() >= 3 && config.trunks() == ["lan"].into());
    assert!(!config.routes.is_empty() && config.process.metrics.is_some());
}

#[test]
fn a_port_has_what_it_is_given() {
    let config = right(&with_lan(
        "mtu = 1400\nmac = \"02:00:00:00:00:07\"\nmitigation = 3\n[[route]]\nto = \"0.0.0.0/0\"\n\
         via = \"192.0.2.254\"\n[limits]\nmbuf_bytes = 1000000\n[switches]\nrack = false\n",
    ));
    let port = &config.ports["lan"];
    assert_eq!(port.mtu, Mtu::new(1400));
    assert_eq!(port.mac, Some(MacAddr([2, 0, 0, 0, 0, 7])));
    assert_eq!(port.addresses.len(), 1);
    assert_eq!(port.mitigation, "3".parse().ok());
    let route = config.routes.first_key_value().expect("a route");
    assert_eq!(route.0.port.as_deref(), Some("lan"), "the port of the gateway's network");
    assert_eq!(config.process.budget().of(Limit::MbufBytes), 1_000_000);
    assert!(!config.is_on(Switch::Rack) && config.is_on(Switch::Pacing));
}

#[test]
fn syntax_errors_have_their_place() {
    says("forwarding = \n", "1:14", &["https://toml.io"]);
    says("forwarding = 1\n", "1:14", &["write true or false"]);
}

#[test]
fn sources_are_checked_strictly_unless_a_port_says_otherwise() {
    let of = |line: &str| right(&with_lan(line)).ports["lan"].source_check;
    assert_eq!(of(""), SourceCheck::Strict);
    assert_eq!(of("source_check = \"strict\"\n"), SourceCheck::Strict);
    assert_eq!(of("source_check = \"loose\"\n"), SourceCheck::Loose);
    assert_eq!(of("source_check = \"off\"\n"), SourceCheck::Off);
    says(&with_lan("source_check = \"lose\"\n"), "5:16", &["did you mean 'loose'?"]);
    says(&with_lan("source_check = true\n"), "5:16", &["source_check"]);
}

/// Two ports of VRF blue, and one that is in none.
fn with_vrf(vrf: &str, more: &str) -> String {
    let port = |name: &str, device: &str, address: &str| {
        let of = format!("[[port]]\nname = \"{name}\"\ndevice = \"tap:{device}\"\n");
        of + &format!("addresses = \"{address}\"\n")
    };
    let ports = port("a", "x0", "10.0.0.1/24") + &port("b", "x1", "10.0.0.1/24");
    format!("{ports}{}[[vrf]]\n{vrf}{more}", port("c", "x2", "10.2.0.1/24"))
}

const BLUE: &str = "name = \"blue\"\ntable = 10\nports = [\"a\", \"c\"]\n";

#[test]
fn ports_of_a_vrf_have_networks_and_routes_of_their_own() {
    let route = "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.0.9\"\nport = \"a\"\n";
    let config = right(&with_vrf(BLUE, route));
    let vrf = |name: &str| config.ports[name].vrf.clone().map(|vrf| (vrf.name, vrf.table));
    assert_eq!(vrf("a"), Some(("blue".to_owned(), 10)));
    assert_eq!((vrf("c"), vrf("b")), (vrf("a"), None));
    let tables = |text: &str| -> Vec<(String, u32)> {
        let of = |key: &RouteKey| (key.port.clone().unwrap_or_default(), key.table);
        right(text).routes.keys().map(of).collect()
    };
    // A route belongs to the VRF of its port, unless it says otherwise.
    assert_eq!(tables(&with_vrf(BLUE, route)), [("a".to_owned(), 10)]);
    let leak = route.to_owned() + "table = \"main\"\n";
    assert_eq!(tables(&with_vrf(BLUE, &leak)), [("a".to_owned(), MAIN_TABLE)]);
    let named = route.replace("port = \"a\"\n", "vrf = \"blue\"\n");
    assert_eq!(tables(&with_vrf(BLUE, &named)), [("a".to_owned(), 10)]);
    let main = route.replace("port = \"a\"\n", "table = \"main\"\n");
    assert_eq!(tables(&with_vrf(BLUE, &main)), [("b".to_owned(), MAIN_TABLE)]);
    assert_eq!(config.port_to("10.0.0.5".parse().expect("an address")), Some("b"));
    assert_eq!(config.port_to("10.2.0.5".parse().expect("an address")), None);
}

#[test]
fn mistakes_in_a_vrf_have_their_place() {
    let says = |vrf: &str, more: &str, line: usize, parts: &[&str]| {
        let all = wrong(&with_vrf(vrf, more));
        let place = format!("r.toml:{line}:");
        let is_it =
            |one: &String| one.starts_with(&place) && parts.iter().all(|part| one.contains(part));
        // A VRF that is wrong may leave two ports with one address.
        assert!(all.iter().any(is_it), "{vrf}{more}: {all:#?}");
    };
    let edit = |from: &str, to: &str| BLUE.replace(from, to);
    says(&edit("table = 10", "table = 254"), "", 15, &["table 254 has another meaning"]);
    says(&edit("table = 10", "table = 70000"), "", 15, &["65535"]);
    says(&edit("\"blue\"", "\"main\""), "", 14, &["'main' cannot be the name"]);
    says(&edit("\"c\"", "\"d\""), "", 16, &["there is no port 'd'"]);
    says(&edit("\"a\", \"c\"", ""), "", 16, &["without ports"]);
    says(&edit("\"c\"", "\"a\""), "", 16, &["the port 'a' in a VRF"]);
    let both = "[[vrf]]\nname = \"red\"\ntable = 10\nports = [\"b\"]\n";
    says(BLUE, both, 19, &["table 10 of a VRF"]);
    says(&edit("\"a\", ", ""), "", 8, &["10.0.0.1"]);
    let route = "[[route]]\nto = \"10.9.0.0/16\"\nport = \"a\"\nvrf = \"bleu\"\n";
    says(BLUE, route, 20, &["did you mean 'blue'?"]);
    let two = route.replace("bleu", "blue") + "table = 7\n";
    says(BLUE, &two, 20, &["a route is in one table"]);
    let filter = "[filter]\nrules = 'pass in a'\n";
    says(BLUE, filter, 16, &["'a' and 'b' have networks that overlap", "[filter]"]);
}

#[test]
fn offloads_are_on_unless_a_port_says_otherwise() {
    let of = |line: &str| right(&with_lan(line)).ports["lan"].offloads;
    assert!(of("") && of("offloads = true\n") && !of("offloads = false\n"));
    says(&with_lan("offloads = 1\n"), "5:12", &["write true or false"]);
    let vlan = "[[port]]\nname = \"v\"\nparent = \"lan\"\nvlan = 5\noffloads = false\n";
    says(&with_lan(vlan), "9:12", &["those of its parent"]);
}

/// 240.0.0.0/4 is unicast; no host has an address in 0.0.0.0/8 or 127.0.0.0/8.
#[test]
fn what_never_leaves_a_host_is_refused_and_240_is_not() {
    let port = |address: &str| {
        format!("[[port]]\nname = \"a\"\ndevice = \"tap:x\"\naddresses = \"{address}\"\n")
    };
    for address in ["0.1.2.3/24", "127.0.0.1/8", "255.255.255.255/32", "::1/128"] {
        says(&port(address), "4:13", &["no host can have it"]);
    }
    assert_eq!(right(&port("240.0.0.2/24")).ports["a"].addresses.len(), 1);
    let route = |to: &str, via: &str| {
        with_lan(&format!("[[route]]\nto = \"{to}\"\nvia = \"{via}\"\nport = \"lan\"\n"))
    };
    for to in ["127.0.0.0/8", "127.1.0.0/16", "0.0.0.0/8"] {
        says(&route(to, "192.0.2.254"), "6:6", &["never leave a host"]);
    }
    for to in ["240.0.0.0/4", "0.0.0.0/0", "0.0.0.0/1"] {
        assert_eq!(right(&route(to, "192.0.2.254")).routes.len(), 1, "{to}");
    }
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    says("fowarding = true\n", "1:1", &["did you mean 'forwarding'?"]);
    says(&with_lan("adresses = []\n"), "5:1", &["key of [[port]]", "'addresses'"]);
    says("[limits]\nmbuf_byte = 1\n", "2:1", &["did you mean 'mbuf_bytes'?"]);
    says("[switches]\nrakc = true\n", "2:1", &["did you mean 'rack'?"]);
    says("xyzzy = 1\n", "1:1", &["there are forwarding, "]);
    says("[[port]]\nname = \"a\"\ndevice = \"tep:x\"\n", "3:10", &["did you mean 'tap'?"]);
}

#[test]
fn every_section_refuses_what_nobody_asks_for() {
    let sections = ["[limits]", "[switches]", "[privileges]", "[metrics]", "[control]"];
    let lists = ["[[port]]", "[[route]]", "[[rule]]", "[[neighbour]]", "[[gap]]"];
    for section in sections.into_iter().chain(lists) {
        let all = wrong(&format!("{section}\nxyzzy = 1\n"));
        let said = format!("r.toml:2:1: there is no key of {section} 'xyzzy': ");
        assert!(all.iter().any(|text| text.starts_with(&said)), "{all:#?}");
        // A missing key hides no other error, and no known key counts as unknown.
        let known: Vec<_> = all.iter().filter(|text| text.contains("no key of")).collect();
        assert_eq!(known.len(), 1, "{all:#?}");
    }
    let all = wrong("[[port]]\nmtu = 1\nmac = \"x\"\nlearn_routes = 3\n[[gap]]\nto = 3\n");
    let places: Vec<&str> = all.iter().filter_map(|text| text.split(": ").next()).collect();
    let seven = ["1:1", "1:1", "2:7", "3:7", "4:16", "5:1", "6:6"].map(|at| format!("r.toml:{at}"));
    assert_eq!(places, seven, "{all:#?}");
}

#[test]
fn shards_are_counted_and_what_they_cannot_have_is_refused() {
    assert_eq!((right("").process.shards, right("shards = 2\n").process.shards), (1, 2));
    for wrong in ["shards = 0\n", "shards = 65\n", "shards = \"2\"\n", "shards = -1\n"] {
        says(wrong, "1:10", &["a whole number from 1 to 64"]);
    }
    let gap = "[[gap]]\nto = \"192.0.2.0/24\"\nmicroseconds = 60\n";
    assert_eq!(right(&format!("shards = 1\n{gap}")).gaps.len(), 1);
    says(&format!("shards = 2\n{gap}"), "3:6", &["a gap of its own", "shards = 1"]);
}

#[test]
fn the_worker_may_have_a_user_of_the_machine() {
    let privileges = |text: &str| format!("[privileges]\n{text}\n");
    let mut machine = Machine::beside(Path::new("r.toml"));
    let config = Config::parse_with("r.toml", &privileges("user = \"root\""), &mut machine);
    let config = config.expect("root is known");
    assert_eq!((config.process.user, Config::default().process.user), (Some(0), None));
    assert_eq!(Process::default().needs_restart(&config.process), ["[privileges]"]);
    says(&privileges("user = \"nosuch\""), "2:8", &["no user 'nosuch'", "make it"]);
    let both = "separate = false\nuser = \"root\"";
    assert!(wrong(&privileges(both)).iter().any(|text| text.contains("separate = false")));
}

/// An interface that was deleted and made again is another one, and so is the port.
#[test]
fn a_port_that_lost_its_device_is_made_anew() {
    use crate::applied::Step;
    use crate::plan::{Operation, difference};
    let config = right(&with_lan("[[route]]\nto = \"0.0.0.0/0\"\nvia = \"192.0.2.254\"\n"));
    let mut running = config.clone();
    assert!(difference(&running, &config).is_empty());
    running.lose_device("lan");
    let all = difference(&running, &config);
    let position = |is: fn(&Operation) -> bool| all.iter().position(is);
    let removed = position(|operation| matches!(operation, Operation::Port(_, Step::Remove)));
    let added = position(|operation| matches!(operation, Operation::Port(_, Step::Add(..))));
    let routed = position(|operation| matches!(operation, Operation::Route(..)));
    assert!(removed.is_some() && removed < added && added < routed, "{all:?}");
}

#[test]
fn values_of_the_wrong_kind_or_size() {
    says("[[port]]\nname = 3\ndevice = \"tap:x\"\n", "2:8", &["in quotes"]);
    says(&with_lan("mtu = 67\n"), "5:7", &["from 68 to 65535"]);
    says(&with_lan("mtu = 1_500.0\n"), "5:7", &["whole number"]);
    says(&with_lan("mitigation = 6\n"), "5:14", &["0 to 5"]);
    says(&with_lan("mac = \"02:00:00\"\n"), "5:7", &["02:00:00:00:00:01"]);
    says(&with_lan("mac = \"ff:ff:ff:ff:ff:ff\"\n"), "5:7", &["group address"]);
    says("port = 3\n", "1:8", &["a section [[port]] for each"]);
    says("metrics = 3\n", "1:11", &["write a section [metrics]"]);
    says("[[port]]\nname = \"a\"\ndevice = \"ws0\"\n", "3:10", &["KIND:NAME"]);
    says("[[port]]\nname = \"a\"\ndevice = \"tap:0123456789abcdef\"\n", "3:10", &["15 bytes"]);
    says("[[port]]\nname = \"a b\"\ndevice = \"tap:x\"\n", "2:8", &["1 to 32 letters"]);
}

#[test]
fn addresses_are_of_hosts() {
    for bad in ["192.0.2.0/24", "192.0.2.255/24", "224.0.0.1/4", "127.0.0.1/8", "::/0"] {
        let text = format!("[[port]]\nname = \"a\"\ndevice = \"tap:x\"\naddresses = [\"{bad}\"]\n");
        says(&text, "4:14", &["no host can have it"]);
    }
    says(
        "[[port]]\nname = \"a\"\ndevice = \"tap:x\"\naddresses = [\"192.0.2.1\"]\n",
        "4:14",
        &["192.0.2.1/24"],
    );
    // RFC 3021: both addresses of a /31 can be hosts.
    right("[[port]]\nname = \"a\"\ndevice = \"tap:x\"\naddresses = \"192.0.2.0/31\"\n");
}

#[test]
fn nothing_is_there_twice() {
    let other = "[[port]]\nname = \"wan\"\ndevice = \"tap:ws1\"\n";
    says(&with_lan(&other.replace("wan", "lan")), "6:8", &["'lan' is in line 2 already"]);
    says(&with_lan(&other.replace("ws1", "ws0")), "7:10", &["in line 3 already"]);
    let again = format!("{other}addresses = \"192.0.2.1/24\"\n");
    says(&with_lan(&again), "8:13", &["the address 192.0.2.1 is in line 4 already"]);
    let same_net = format!("{other}addresses = \"192.0.2.2/24\"\n");
    says(&with_lan(&same_net), "8:13", &["network of port 'lan' (line 4)"]);
    let vlan = "[[port]]\nname = \"NAME\"\nparent = \"lan\"\nvlan = 5\n";
    let two = vlan.replace("NAME", "a") + &vlan.replace("NAME", "b");
    says(&with_lan(&two), "12:8", &["VLAN 5 of 'lan' is in line 8 already"]);
    let route = "[[route]]\nto = \"198.51.100.0/24\"\nvia = \"192.0.2.9\"\n";
    says(&with_lan(&route.repeat(2)), "9:6", &["in line 6 already"]);
}

#[test]
fn routes_lead_somewhere() {
    let route = |lines: &str| with_lan(&format!("[[route]]\n{lines}"));
    let to = "to = \"198.51.100.0/24\"\n";
    says(&route(to), "6:6", &["leads nowhere"]);
    says(&route(&format!("{to}port = \"lam\"\n")), "7:8", &["did you mean 'lan'?"]);
    says(&route(&format!("{to}via = \"203.0.113.1\"\n")), "7:7", &["on no network of ours"]);
    let by = "via = \"203.0.113.1\"\nport = \"lan\"\n";
    says(&route(&format!("{to}{by}")), "7:7", &["on no network of port 'lan'"]);
    says(&route(&format!("{to}via = \"192.0.2.1\"\n")), "7:7", &["an address of ours"]);
    says(&route("to = \"198.51.100.1/24\"\nvia = \"192.0.2.9\"\n"), "6:6", &["198.51.100.0/24"]);
    says(&route("to = \"::/0\"\nvia = \"192.0.2.9\"\n"), "7:7", &["cannot have an IPv4 gateway"]);
    says(&route("to = \"192.0.2.0/24\"\nport = \"lan\"\n"), "6:6", &["remove the route"]);
    right(&route("to = \"::/0\"\nvia = \"fe80::1\"\nport = \"lan\"\n"));
    // IPv4 by an IPv6 gateway: RFC 8950. The port of a link-local one has to be named.
    let by_v6 = "to = \"10.77.0.0/16\"\nvia = \"fe80::5\"\n";
    says(&route(by_v6), "7:7", &["on no network of ours"]);
    says(&route(&format!("{by_v6}port = \"lan\"\n")), "7:7", &["give port 'lan' one"]);
    let with_v6 = with_lan("").replace("\"192.0.2.1/24\"", "[\"192.0.2.1/24\", \"fe80::1/64\"]");
    right(&format!("{with_v6}[[route]]\n{by_v6}port = \"lan\"\n"));
}

/// Several routes to a network share its packets; alone, a route has no weight.
#[test]
fn routes_to_one_network_share_its_packets() {
    let route = |more: &str| format!("[[route]]\nto = \"198.51.100.0/24\"\n{more}\n");
    let first = route("via = \"192.0.2.8\"");
    let second = route("via = \"192.0.2.9\"\nweight = 3");
    let weights = |text: &str| -> Vec<Option<u8>> {
        let config = right(&with_lan(text));
        config.routes.values().map(|to| to.weight.map(|weight| weight.get())).collect()
    };
    assert_eq!(weights(&second), [None]);
    assert_eq!(weights(&format!("{first}{second}")), [Some(1), Some(3)]);
    says(&with_lan(&second.replace("= 3", "= 0")), "8:10", &["from 1 to 255"]);
    let many: String = (2..67).map(|n| route(&format!("via = \"192.0.2.{n}\""))).collect();
    let all = wrong(&with_lan(&many));
    assert!(all.len() == 1 && all[0].contains("more than 64 routes"), "{all:?}");
    says(&with_lan(&format!("[limits]\nroutes = 0\n{first}")), "1:1", &["raise routes"]);
}

#[test]
fn a_route_may_have_a_metric() {
    let route = |via: u8, more: &str| {
        format!("[[route]]\nto = \"198.51.100.0/24\"\nvia = \"192.0.2.{via}\"\n{more}")
    };
    let text = route(8, "") + &route(9, "metric = 20\n");
    let config = right(&with_lan(&text));
    let metrics: Vec<u32> = config.routes.values().map(|to| to.metric).collect();
    assert_eq!(metrics, [0, 20]);
    says(&with_lan(&route(8, "metric = -1\n")), "8:10", &["from 0 to 4294967295"]);
}

#[test]
fn a_route_may_drop_its_packets() {
    let route = |more: &str| format!("[[route]]\nto = \"10.0.0.0/8\"\n{more}");
    let config = right(&with_lan(&route("type = \"prohibit\"\nmetric = 9\n")));
    let (key, to) = config.routes.first_key_value().expect("a route");
    assert_eq!((&key.port, to.discard.map(|how| how.name())), (&None, Some("prohibit")));
    says(&with_lan(&route("type = \"throw\"\n")), "7:8", &["blackhole"]);
    let by = "type = \"blackhole\"\nport = \"lan\"\n";
    says(&with_lan(&route(by)), "8:8", &["no next hop"]);
    // Beside a route that leads somewhere, neither has a weight.
    let both = route("type = \"blackhole\"\nmetric = 9\n") + &route("via = \"192.0.2.9\"\n");
    assert!(right(&with_lan(&both)).routes.values().all(|to| to.weight.is_none()));
}

#[test]
fn vlans_are_of_ports_with_devices() {
    let vlan = |parent: &str| {
        with_lan(&format!("[[port]]\nname = \"v\"\nparent = \"{parent}\"\nvlan = 5\n"))
    };
    right(&vlan("lan"));
    says(&vlan("lann"), "7:10", &["did you mean 'lan'?"]);
    says(&vlan("v"), "7:10", &["is a VLAN itself"]);
    says(&vlan("lan").replace("vlan = 5", "vlan = 4095"), "8:8", &["from 1 to 4094"]);
    says(&vlan("lan").replace("vlan = 5\n", ""), "7:10", &["has no number"]);
    says(&vlan("lan").replace("tap:", "tun:"), "7:10", &["no Ethernet frames"]);
    says(&vlan("lan").replace("vlan", "device = \"tap:x\"\nvlan"), "8:10", &["remove one"]);
}

#[test]
fn groups_have_users_and_groups_of_the_machine() {
    let config = right("[groups]\nstaff = [1000, \"%100\", 1001]\nnobody-yet = []\n");
    let staff = &config.groups["staff"];
    assert_eq!(staff.uids, [1000, 1001].into());
    assert_eq!(staff.gids, [100].into());
    assert_eq!(config.groups["nobody-yet"], Members::default());
    // Root is on every machine.
    let mut machine = Machine::beside(Path::new("r.toml"));
    let text = "[groups]\nadmins = [\"root\", \"%root\"]\n";
    let config = Config::parse_with("r.toml", text, &mut machine).expect("root is known");
    let root = Members { uids: [0].into(), gids: [0].into() };
    assert_eq!(config.groups["admins"], root);
    // The process that cannot ask the system gets the answers of the other one.
    let mut wire = Vec::new();
    machine.write(text, &mut wire).expect("room");
    let (mut machine, text) = Machine::read(&*wire, 100).expect("as it was written");
    let again = Config::parse_with("r.toml", &text, &mut machine).expect("root is known");
    assert_eq!(again, config);
}

#[test]
fn groups_that_are_not_written_well() {
    says("groups = 3\n", "1:10", &["write a section [groups]"]);
    says("[groups]\nstaff = \"alice\"\n", "2:9", &["write a list, as staff = ["]);
    says("[groups]\nstaff = [1.5]\n", "2:10", &["\"alice\" or 1001"]);
    says("[groups]\nstaff = [-1]\n", "2:10", &["whole number"]);
    says("[groups]\nstaff = [\"no such user\"]\n", "2:10", &["no user 'no such user'"]);
    says("[groups]\nstaff = [\"%no such\"]\n", "2:10", &["no group 'no such'", "\"%100\""]);
    says("[groups]\n\"a b\" = []\n", "2:1", &["1 to 32 letters"]);
    says("[groups]\n7 = []\n", "2:1", &["is no number"]);
}

const GROUPS: &str = "[groups]\nstaff = [1000]\nguests = [1001]\n";

#[test]
fn routes_are_for_groups_in_tables() {
    let route = "[[route]]\nto = \"198.51.100.0/24\"\nvia = \"192.0.2.9\"\n";
    let with = |more: &str| with_lan(&format!("{route}{more}{GROUPS}"));
    let of = |text: &str| {
        let config = right(text);
        let (key, to) = config.routes.into_iter().next().expect("a route");
        (key.table, to.users, to.no_forward)
    };
    let names = |name: &str| [name.to_owned()].into();
    assert_eq!(of(&with("")), (MAIN_TABLE, None, false));
    assert_eq!(
        of(&with("table = 10\ninclude = [\"staff\"]\nno_forward = true\n")),
        (10, Some(For::Include(names("staff"))), true)
    );
    let exclude = of(&with("table = \"main\"\nexclude = \"guests\"\n"));
    assert_eq!(exclude, (MAIN_TABLE, Some(For::Exclude(names("guests"))), false));
    says(&with("include = [\"stuff\"]\n"), "8:12", &["no group 'stuff'", "'staff'"]);
    says(&with("include = []\nexclude = []\n"), "9:11", &["remove one of the lists"]);
    says(&with("table = 0\n"), "8:9", &["from 1 to"]);
    says(&with_lan(&format!("{route}include = \"staff\"\n")), "8:11", &["under [groups]"]);
    // Routes to one network in two tables share no packets.
    let other = right(&with_lan(&format!("{route}{route}table = 10\n")));
    assert!(other.routes.len() == 2 && other.routes.values().all(|to| to.weight.is_none()));
    // In another table the route to a port's network may go another way.
    right(&with_lan("[[route]]\nto = \"192.0.2.0/24\"\nvia = \"192.0.2.9\"\ntable = 10\n"));
}

#[test]
fn rules_choose_tables_by_more_than_the_destination() {
    let config = right(&with_lan(&format!(
        "{GROUPS}[[rule]]\npriority = 100\nfrom = \"192.0.2.0/25\"\nto = \"198.51.100.0/24\"\n\
         in_port = \"lan\"\nmark = \"0x10/0xff\"\ntable = 10\n\
         [[rule]]\npriority = 50\ngroup = \"guests\"\nnot = true\nmark = 7\n\
         action = \"prohibit\"\n",
    )));
    let rule = &config.rules[&100];
    assert_eq!(rule.in_port.as_deref(), Some("lan"));
    assert_eq!((rule.mark, rule.action), (Some((0x10, 0xff)), Action::Table(10)));
    assert_eq!(rule.from, Some((IpAddr::from([192, 0, 2, 0]), 25)));
    let other = &config.rules[&50];
    assert_eq!((other.group.as_deref(), other.not), (Some("guests"), true));
    assert_eq!((other.mark, other.action), (Some((7, u32::MAX)), Action::Prohibit));
    let rule = |lines: &str| with_lan(&format!("[[rule]]\n{lines}"));
    says(&rule("table = 10\n"), "5:1", &["[[rule]] has no priority"]);
    says(&rule("priority = 1\n"), "5:1", &["the rule does nothing"]);
    says(&rule("priority = 1\ntable = 1\naction = \"prohibit\"\n"), "8:10", &["remove one"]);
    says(&rule("priority = 1\naction = \"prohibt\"\n"), "7:10", &["did you mean 'prohibit'?"]);
    says(&rule("priority = 32766\ntable = 10\n"), "6:12", &["the main table's"]);
    let one = "[[rule]]\npriority = 1\ntable = 10\n";
    says(&one.repeat(2), "5:12", &["priority 1 is in line 2 already"]);
    says(&rule("priority = 1\ntable = 1\nin_port = \"lam\"\n"), "8:11", &["mean 'lan'?"]);
    says(&rule("priority = 1\ntable = 1\nmark = \"x\"\n"), "8:8", &["0x10/0xff"]);
    says(&rule("priority = 1\ntable = 1\nfrom = \"192.0.2.1/24\"\n"), "8:8", &["no network"]);
    let mixed = "priority = 1\ntable = 1\nfrom = \"192.0.2.0/24\"\nto = \"::/0\"\n";
    says(&rule(mixed), "9:6", &["different versions"]);
    let forwarded = format!("{GROUPS}{one}group = \"staff\"\nin_port = \"lan\"\n");
    says(&with_lan(&forwarded), "8:1", &["is of no user"]);
    says(&format!("[limits]\nrules = 0\n{one}"), "1:1", &["raise rules"]);
}

#[test]
fn other_users_have_a_socket_by_their_groups() {
    let control = |lines: &str| format!("{GROUPS}[control]\n{lines}");
    let socket = "socket = \"/run/w.sock\"\n";
    let config = right(&control(&format!("{socket}groups = [\"staff\"]\n")));
    let wanted = Control { socket: "/run/w.sock".to_owned(), groups: ["staff".to_owned()].into() };
    assert_eq!(config.process.control, Some(wanted));
    says(&control(socket), "4:1", &["[control] has no groups"]);
    says(&control("socket = \"w.sock\"\ngroups = []\n"), "5:10", &["a path from / on"]);
    says(&control(&format!("{socket}groups = \"staf\"\n")), "6:10", &["did you mean 'staff'?"]);
}

#[test]
fn several_errors_are_said_at_once() {
    let text = "fowarding = 1\n[[port]]\nname = \"a\"\n[metrics]\n";
    let all = wrong(text);
    let places: Vec<&str> = all.iter().map(|m| m.split(": ").next().unwrap_or("")).collect();
    assert_eq!(places, ["r.toml:1:1", "r.toml:2:1", "r.toml:4:1"], "{all:#?}");
}

#[test]
fn columns_are_of_characters() {
    let text = "port = [{ name = \"a\", device = \"tap:ä\", mtu = 1 }]";
    says(text, "1:47", &["from 68 to 65535"]);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = Config::parse("r.toml", &text);
    }

    #[test]
    fn no_cut_or_changed_example_panics(
        cut in 0_usize..4000, at in 0_usize..4000, with in "\\PC{0,3}",
    ) {
        let whole = include_str!("../../../../../examples/router.toml");
        let mut text: String = whole.chars().take(cut).collect();
        let at = text.char_indices().nth(at).map_or(0, |(at, _)| at);
        text.insert_str(at, &with);
        let _ = Config::parse("r.toml", &text);
    }
}

/// A router with two ports, and rules.
fn with_rules(rules: &str) -> String {
    let wan = "[[port]]\nname = \"wan\"\ndevice = \"tap:ws1\"\n";
    with_lan(&format!("{wan}{rules}"))
}

#[test]
fn without_sections_there_is_no_filter_and_nat_alone_passes() {
    use ::filter::rules::Action;
    assert_eq!(right(LAN).filter, None);
    assert_eq!(right(&with_lan("[sets]\nbad = \"192.0.2.9\"\n")).filter, None);
    let nat = right(&with_rules("[nat]\nrules = 'source out wan to port'\n")).filter;
    let nat = nat.expect("rules of NAT");
    assert_eq!((nat.rules().default, nat.rules().nat.len()), (Action::Pass, 1));
    let filter = right(&with_rules("[filter]\n[sets]\na = [\"192.0.2.9\", \"::/0\"]\n")).filter;
    let filter = filter.expect("a default");
    assert_eq!((filter.rules().default, filter.sets(), filter.networks()), (Action::Block, 1, 2));
}

#[test]
fn mistakes_in_rules_have_their_place_in_the_file() {
    let says = |rules: &str, place, parts: &[&str]| says(&with_rules(rules), place, parts);
    let lines = "[filter]\nrules = '''\npass in lan\npass in lna # ä\n'''\n";
    says(lines, "11:9", &["`lna`", "did you mean `lan`?"]);
    let behind = "[filter]\nrules = '''pass in lna\npass'''\n";
    says(behind, "9:20", &["`lna`"]);
    says("[filter]\nrules = \"pass in lna\"\n", "9:18", &["`lna`"]);
    says("[filter]\nrules = \"\"\"\npass in lna\"\"\"\n", "10:9", &["`lna`"]);
    // With an escape the place in the file is that of the whole text.
    says("[filter]\nrules = \"pass\\npass in lna\"\n", "9:9", &["line 2", "column 9", "`lna`"]);
    says("[filter]\ndefault = \"dorp\"\n", "9:11", &["`dorp`", "pass"]);
    says("[filter]\nrule = \"\"\n", "9:1", &["did you mean 'rules'?"]);
    let limits = "[filter]\nrules = '''pass tcp\npass'''\n[limits]\nfilter_rules =";
    says(&format!("{limits} 1\n"), "10:1", &["filter_rules allows 1"]);
    says(&format!("{limits} 4097\n"), "12:16", &["4096"]);
    let set = "[sets]\na = [\"::1\", \"::2\"]\n[limits]\nfilter_set_networks = 1\n";
    says(set, "9:13", &["filter_set_networks"]);
    says("[nat]\nrules = 'sorce out wan to port'\n", "9:10", &["source"]);
    says("[nat]\n", "8:1", &["[nat] has no rules"]);
    says("[sets]\na = [\"192.0.2.0/24\", \"192.0.2\"]\n", "9:22", &["no network"]);
    says("[sets]\na = [1]\n", "9:6", &["in quotes"]);
    says("[sets]\nprivate = []\n", "9:1", &["already"]);
    says("[sets]\na = \"file:no.txt\"\n", "9:5", &["no.txt", "not read here"]);
}

#[test]
fn rules_need_forwarding_and_nat_ports_for_each_shard() {
    let two =
        |rules: &str| format!("shards = 2\n{}", with_rules(&format!("[nat]\nrules = '{rules}'\n")));
    assert_eq!(right(&two("source out wan to port block 4096")).process.shards, 2);
    says(&two("source out wan to port ports 41000-41999"), "10:10", &["range of 8192"]);
    let many = two("source out wan to port block 4096").replace("shards = 2", "shards = 8");
    says(&many, "10:10", &["block 1024"]);
    let host = format!("forwarding = false\n{}", with_rules("[filter]\n"));
    says(&host, "9:1", &["remove forwarding = false"]);
}

#[test]
fn files_of_sets_are_beside_the_configuration() {
    let folder = std::env::temp_dir().join(format!("sets-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = with_rules("[filter]\nrules = 'block from @a'\n[sets]\na = \"file:a.txt\"\n");
    let parsed = || {
        let mut machine = Machine::beside(&folder.join("r.toml"));
        let config = Config::parse_with("r.toml", &text, &mut machine);
        config.map_err(|problems| problems.to_string())
    };
    let gone = parsed().expect_err("no such file");
    assert!(gone.starts_with("r.toml:11:5: ") && gone.contains("a.txt"), "{gone}");
    std::fs::write(folder.join("a.txt"), "192.0.2.0/24\n\n# nothing\n::1 # one\n").expect("room");
    let one = parsed().expect("a valid file");
    assert_eq!(one.filter.as_ref().map(Filter::networks), Some(2));
    std::fs::write(folder.join("a.txt"), "192.0.2.0/24\n192.0/24\n").expect("room");
    let wrong = parsed().expect_err("no network");
    assert!(wrong.starts_with("r.toml:11:5: a.txt:2:1: "), "{wrong}");
    std::fs::write(folder.join("a.txt"), "192.0.2.0/25\n").expect("room");
    assert_ne!(parsed().expect("a valid file"), one, "its text counts");
    std::fs::remove_dir_all(folder).expect("it is ours");
}

/// RFC 7011 8.4-b, 10.1-b.
#[test]
fn records_of_flows_go_to_a_collector() {
    let with = |ipfix: &str| with_rules(&format!("[filter]\n[ipfix]\n{ipfix}"));
    let ipfix = right(&with("collector = \"192.0.2.9:4739\"\n")).ipfix.expect("a collector");
    let seconds = Duration::from_secs;
    assert_eq!((ipfix.active, ipfix.template, ipfix.domain), (seconds(120), seconds(60), 1));
    assert!(!ipfix.destinations, "RFC 6888 REQ-12");
    let other = "collector = \"[2001:db8::9]:4739\"\nactive = \"5m\"\ntemplate = \"9 s\"\n\
                 domain = 7\nnames = true\ndestinations = true\n";
    let ipfix = right(&with(other)).ipfix.expect("a collector");
    assert!(ipfix.names && ipfix.destinations);
    assert_eq!((ipfix.active, ipfix.template, ipfix.domain), (seconds(300), seconds(9), 7));
    assert_eq!(right(&with_rules("[filter]\n")).ipfix, None);

    let says = |ipfix: &str, place, parts: &[&str]| says(&with(ipfix), place, parts);
    let collector = "collector = \"192.0.2.9:4739\"\n";
    says("", "9:1", &["[ipfix] has no collector", "192.0.2.9:4739"]);
    says("collector = \"192.0.2.9\"\n", "10:13", &["192.0.2.9:4739"]);
    says("collector = \"224.0.0.1:4739\"\n", "10:13", &["a host with a port"]);
    says(&format!("{collector}active = \"120\"\n"), "11:10", &["active", "as \"120s\""]);
    says(&format!("{collector}active = \"0s\"\n"), "11:10", &["\"1s\" to \"24h\""]);
    says(&format!("{collector}template = \"25h\"\n"), "11:12", &["template", "as \"60s\""]);
    says(&format!("{collector}template = \"99999999999999999999h\"\n"), "11:12", &["template"]);
    says(&format!("{collector}domain = 0\n"), "11:10", &["domain"]);
    let highest = format!("{collector}domain = 4294967295\n");
    assert!(right(&with(&highest)).ipfix.is_some());
    // RFC 7011 3.1-d, 3.1-f: each shard has a number, and none has 0.
    let two = |domain: &str| format!("shards = 2\n{}", with(&format!("{collector}{domain}")));
    self::says(&two("domain = 4294967295\n"), "12:10", &["2 shards", "4294967294 at most"]);
    assert!(right(&two("domain = 4294967294\n")).ipfix.is_some());
    says(&format!("{collector}activ = \"1s\"\n"), "11:1", &["did you mean 'active'?"]);
}

#[test]
fn records_of_flows_need_rules() {
    let ipfix = with_rules("[ipfix]\ncollector = \"192.0.2.9:4739\"\n");
    says(&ipfix, "8:1", &["add one, or remove [ipfix]"]);
    let nat = "[nat]\nrules = 'source out wan to port'\n[ipfix]\ncollector = \"192.0.2.9:4739\"\n";
    assert!(right(&with_rules(nat)).ipfix.is_some());
}

#[test]
#[cfg(target_os = "linux")]
fn a_device_without_end_is_a_text_that_is_too_long() {
    let text = text_of(std::path::Path::new("/dev/zero")).expect("zeros are UTF-8");
    assert_eq!(text.len(), BYTES_MAX + 1);
}

#[test]
fn zebra_connects_on_loopback_or_from_networks_that_are_named() {
    let frr = right("[frr]\nfpm = \"127.0.0.1:2620\"\n").frr.expect("there is [frr]");
    assert_eq!(frr.fpm, "127.0.0.1:2620".parse().ok());
    assert!(frr.allow.is_empty());
    let far = "[frr]\nfpm = \"192.0.2.1:2620\"\nallow = [\"192.0.2.7/32\", \"2001:db8::/64\"]\n";
    assert_eq!(right(far).frr.map(|frr| frr.allow.len()), Some(2));
    assert_eq!(right("").frr, None);
    let bird = right("[frr]\nnetlink = true\nnamespace = \"control\"\n").frr.expect("[frr]");
    assert_eq!((bird.fpm, bird.netlink, bird.namespace.as_deref()), (None, true, Some("control")));
    says("[frr]\nnetlink = true\nnamespace = \"a/b\"\n", "3:13", &["without slashes"]);
    says("[frr]\n", "1:1", &["fpm = \"127.0.0.1:2620\""]);
    says("[frr]\nfpm = \"zebra\"\n", "2:7", &["127.0.0.1:2620"]);
    says("[frr]\nfpm = \"192.0.2.1:2620\"\n", "2:7", &["add allow"]);
    says("[frr]\nfpm = \"[::1]:2620\"\nallow = \"192.0.2.7/32\"\n", "3:9", &["remove allow"]);
    let host = "[frr]\nfpm = \"192.0.2.1:2620\"\nallow = \"192.0.2.7/24\"\n";
    says(host, "3:9", &["write 192.0.2.0/24"]);
}

#[test]
fn mirrors_are_of_ports_that_can_have_one() {
    let tun = "[[port]]\nname = \"tun\"\ndevice = \"tun:ws9\"\naddresses = \"203.0.113.1/24\"\n";
    let config = right(&with_lan(&format!("{tun}[control]\nmirrors = \"all\"\n")));
    let mirrors = config.mirrors.expect("the section asks for them");
    assert_eq!(mirrors.space, Space::Named("control".to_owned()));
    assert_eq!(mirrors.ports, ["lan".to_owned()].into());
    assert_eq!((mirrors.punt_ports.len(), mirrors.punt_rate), (0, 1_000));
    assert_eq!(config.process.control, None, "no socket is needed");

    let control = |lines: &str| with_lan(&format!("[control]\n{lines}"));
    let config = right(&control(
        "mirrors = [\"lan\"]\nnamespace = \"host\"\npunt_ports = [22, 830]\npunt_rate = 50\n",
    ));
    let mirrors = config.mirrors.expect("the section asks for them");
    assert_eq!((&mirrors.space, mirrors.punt_rate), (&Space::Host, 50));
    assert_eq!(mirrors.punt_ports, [22, 830].into());

    says(&control("mirrors = \"lam\"\n"), "6:11", &["did you mean 'lan'?"]);
    says(&control("mirrors = \"all\"\nnamespace = \"../x\"\n"), "7:13", &["\"control\""]);
    says(&control("mirrors = \"all\"\npunt_ports = [0]\n"), "7:15", &["from 1 to 65535"]);
    says(&with_lan(&format!("{tun}[control]\nmirrors = \"tun\"\n")), "10:11", &["leave 'tun' out"]);
    let only =
        "[groups]\nstaff = [\"root\"]\n[control]\nsocket = \"/run/w.sock\"\ngroups = \"staff\"\n";
    let mut machine = Machine::beside(Path::new("r.toml"));
    let text = with_lan(&format!("{only}namespace = \"x\"\n"));
    let problems = Config::parse_with("r.toml", &text, &mut machine).expect_err("no mirrors");
    assert!(
        problems.to_string().contains("add mirrors = \"all\", or remove namespace"),
        "{problems}"
    );
}

#[test]
fn a_mirror_has_a_name_that_an_interface_can_have() {
    let port = |name: &str| {
        format!("[[port]]\nname = \"{name}\"\ndevice = \"tap:ws1\"\naddresses = \"192.0.2.1/24\"\n")
    };
    let with =
        |name: &str, more: &str| format!("{}[control]\nmirrors = \"all\"\n{more}", port(name));
    says(&with("a-name-too-long-for-it", ""), "6:11", &["15 bytes at most", "another name"]);
    for name in ["lo", "all", "default", ".."] {
        says(&with(name, ""), "6:11", &["no interface can have the name"]);
    }
    says(&with("ws1", "namespace = \"host\"\n"), "6:11", &["a device of the host's namespace"]);
    right(&with("ws1", ""));
}
