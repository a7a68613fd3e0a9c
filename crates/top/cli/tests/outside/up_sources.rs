//! Source checks of a router beside those of the kernel (`rp_filter`): the same addresses, routes
//! and packets, and the verdict of each about every source. RFC 3704.

use std::net::UdpSocket;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Namespace, ip, until};

use crate::up::{TIMEOUT, World};

pub(crate) const CASES: &[Case] =
    &[("up_checks_sources_as_the_kernel_does", &[], sources_beside_the_kernel)];

/// Where packets go, by the port lan.
const TO: &str = "198.51.100.2";
/// Their sources: on the port that they come by, behind the other port, beyond that, and elsewhere,
/// with a default route and without one.
const SOURCES: [&str; 4] = ["192.0.2.77", "198.51.100.77", "10.9.0.7", "203.0.113.7"];
const DEFAULT: &str = "[[route]]\nto = \"0.0.0.0/0\"\nvia = \"192.0.2.1\"\n";

/// A check by its name, and as `rp_filter` has it.
const CHECKS: [(&str, u8); 3] = [("strict", 1), ("loose", 2), ("off", 0)];

fn config(check: &str, more: &str) -> String {
    format!(
        "[[port]]\nname = \"wan\"\ndevice = \"tap:ws0\"\naddresses = \"192.0.2.2/24\"\n\
         source_check = \"{check}\"\n\
         [[port]]\nname = \"lan\"\ndevice = \"tap:ws1\"\naddresses = \"198.51.100.1/24\"\n\
         [[route]]\nto = \"10.9.0.0/16\"\nvia = \"{TO}\"\n{more}"
    )
}

/// The kernel as the same router, in a namespace of its own.
fn twin() -> Namespace {
    let twin = Namespace::new().expect("root may");
    for (name, address) in [("wan", "192.0.2.2/24"), ("lan", "198.51.100.1/24")] {
        let other = format!("{name}-end");
        assert!(twin.ip(&format!("link add {name} type veth peer name {other}")));
        assert!(twin.ip(&format!("addr add {address} dev {name}")));
        assert!([name, &other].iter().all(|end| twin.ip(&format!("link set {end} up"))));
    }
    assert!(twin.ip(&format!("route add 10.9.0.0/16 via {TO}")));
    set(&twin, "ip_forward=1");
    set(&twin, "conf.all.rp_filter=0");
    twin
}

fn set(twin: &Namespace, what: &str) {
    let done = twin.command("sysctl").args(["-qw", &format!("net.ipv4.{what}")]).status();
    assert!(done.is_ok_and(|status| status.success()), "{what}");
}

/// A number in the router's document, by the names that lead to it.
fn number(world: &World, section: &str, name: &str) -> u64 {
    fn find(value: &Value, name: &str) -> u64 {
        match value {
            Value::Object(all) => {
                let own = all.get(name).and_then(Value::as_u64);
                own.unwrap_or_else(|| all.values().map(|value| find(value, name)).sum())
            }
            Value::Array(all) => all.iter().map(|value| find(value, name)).sum(),
            _ => 0,
        }
    }
    find(&serde_json::from_str(&world.show_json(section)).expect("JSON"), name)
}

fn sources_beside_the_kernel() {
    let world = World::new(&config("strict", ""));
    let twin = twin();
    for source in SOURCES {
        assert!(ip(&format!("addr add {source}/32 dev lo")));
        // The host sends no answers, which would be forwarded too.
        assert!(world.behind.ip(&format!("route add blackhole {source}/32")));
    }
    for more in ["", DEFAULT] {
        if !more.is_empty() {
            assert!(twin.ip("route add default via 192.0.2.1"));
        }
        for (check, rp_filter) in CHECKS {
            world.write(&config(check, more));
            set(&twin, &format!("conf.wan.rp_filter={rp_filter}"));
            world.signal(Signal::HUP);
            let is_in_force = || world.show_json("ports").contains(&format!("\"{check}\""));
            assert!(until(TIMEOUT, is_in_force), "{}", world.log());
            let has_default = || world.show("routes").contains("0.0.0.0/0") != more.is_empty();
            assert!(until(TIMEOUT, has_default), "{}", world.log());
            for source in SOURCES {
                let words = format!("-n {} route get {TO} from {source} iif wan", twin.name());
                let said = Command::new("ip").args(words.split(' ')).output().expect("it starts");
                let counted = || {
                    let dropped = number(&world, "drops", "ip_source_check");
                    (dropped, number(&world, "counters", "forwarded"))
                };
                let before = counted();
                let sender = UdpSocket::bind((source, 0)).expect("it is on lo");
                sender.send_to(b"x", (TO, 9)).expect("there is a route");
                let grew = || {
                    let now = counted();
                    (now.0 > before.0, now.1 > before.1)
                };
                assert!(until(TIMEOUT, || grew() != (false, false)), "{check} {source}");
                let passes = grew() == (false, true);
                assert_eq!(passes, said.status.success(), "{check} {source} {more:?}");
            }
        }
    }
    assert_eq!(world.end(Signal::TERM), 0);
}
