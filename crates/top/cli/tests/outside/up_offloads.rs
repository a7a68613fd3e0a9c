//! `wirespeed up` between devices with offloads: the kernels on both sides hand over super-segments
//! and unfinished checksums, and every byte of a transfer is the one that was sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Namespace, Need, ip, until};

use crate::up::{TIMEOUT, World, pings};
use crate::up_ports::{hosts_ping, port, veth};

pub(crate) const CASES: &[Case] = &[
    ("up_forwards_super_segments_between_taps", &[Need::PING], taps),
    ("up_forwards_super_segments_between_veths", &[Need::PING], veths),
];

/// Bytes of a transfer: some hundred super-segments.
const BYTES: usize = 8 << 20;

const WAN: &str = r#"
[[port]]
name = "wan"
device = "tap:ws0"
addresses = ["192.0.2.2/24", "2001:db8:1::2/64"]
"#;
/// Its link carries less than its host believes, whose senders hear of it by ICMP.
const LAN: &str = r#"
[[port]]
name = "lan"
device = "tap:ws1"
mtu = 1400
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]
"#;

/// Bytes that differ from one place to the next, and from one segment to the next.
fn sent() -> Vec<u8> {
    (0..BYTES as u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 23) as u8).collect()
}

/// `to`, inside `server`, gets what a client here or inside `from` sends.
fn transfer(server: &Namespace, from: Option<&Namespace>, to: &str) {
    let to: SocketAddr = format!("{to}:7007").parse().expect("an address");
    let listener = server.inside(|| TcpListener::bind(to).expect("the port is free"));
    let listener = listener.expect("no panic");
    let connect = || TcpStream::connect(to).expect("a connection");
    let client = match from {
        Some(host) => host.inside(connect).expect("no panic"),
        None => connect(),
    };
    let (accepted, _) = listener.accept().expect("a connection");
    for (mut from, mut to) in [
        (client.try_clone().expect("a copy"), accepted.try_clone().expect("a copy")),
        (accepted, client),
    ] {
        for end in [&from, &to] {
            end.set_read_timeout(Some(TIMEOUT)).expect("more than zero");
            end.set_write_timeout(Some(TIMEOUT)).expect("more than zero");
        }
        let sent = sent();
        let received = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut received = vec![0; BYTES];
                to.read_exact(&mut received).expect("all of it");
                received
            });
            from.write_all(&sent).expect("it takes all");
            reader.join().expect("no panic")
        });
        assert!(received == sent, "other bytes came than were sent");
    }
}

fn counter(world: &World, section: &str, name: &str) -> u64 {
    let document: Value = serde_json::from_str(&world.show_json(section)).expect("JSON");
    // Drops that never happened are not shown.
    let of_stack = &document["stacks"][0][section];
    assert!(of_stack.is_object(), "{document}");
    of_stack[name].as_u64().unwrap_or(0)
}

/// How many super-segments went whole and how many were cut; none was dropped.
fn supers(world: &World) -> [u64; 2] {
    assert_eq!(counter(world, "drops", "ip_super_segment"), 0, "{}", world.show("drops"));
    assert_eq!(counter(world, "drops", "device_refused"), 0, "{}", world.show("drops"));
    ["super_segments_forwarded", "super_segments_cut"].map(|name| counter(world, "counters", name))
}

fn taps() {
    let world = World::new(&format!("{WAN}{LAN}"));
    assert!(ip("addr add 2001:db8:1::1/64 dev ws0 nodad"));
    assert!(ip("route add 2001:db8:2::/64 via 2001:db8:1::2"));
    assert!(world.behind.ip("addr add 2001:db8:2::2/64 dev ws1 nodad"));
    assert!(world.behind.ip("route add default via 2001:db8:2::1"));
    assert!(world.behind.ip("link set ws1 mtu 1500"));
    let both = ["198.51.100.2", "[2001:db8:2::2]"];
    let transfers = || {
        for host in both {
            let plain = host.trim_matches(['[', ']']);
            assert!(until(TIMEOUT, || pings(plain)), "{host}: {}", world.log());
            transfer(&world.behind, None, host);
        }
        supers(&world)
    };
    let [whole, cut] = transfers();
    assert!(whole > 100 && cut == 0, "{whole} whole, {cut} cut");
    assert!(
        counter(&world, "drops", "ip_too_big") > 0,
        "the sender's first segments are too large"
    );
    // The port to the host behind takes them no longer, and its host makes none. It knows the MTU.
    assert!(world.behind.ip("link set ws1 mtu 1400"));
    let without = format!("{WAN}{LAN}offloads = false\n");
    world.reload(&without, "opened anew, tap:ws1 mtu 1400 without offloads");
    let [whole, cut] = transfers();
    assert!(cut > 100, "{whole} whole, {cut} cut");
    let merged = counter(&world, "counters", "segments_merged");
    assert!(merged > 100, "{merged} segments of the host behind were merged");
    assert_eq!(world.end(Signal::TERM), 0);
}

fn veths() {
    let hosts = [Namespace::new().expect("root may"), Namespace::new().expect("root may")];
    veth(1, &hosts[0]);
    veth(2, &hosts[1]);
    let config =
        port("one", "packet:r1", "\"10.1.0.1/24\"") + &port("two", "packet:r2", "\"10.2.0.1/24\"");
    let world = World::started(&config);
    assert!(until(TIMEOUT, || hosts_ping(&hosts[0], "10.2.0.2")), "{}", world.log());
    transfer(&hosts[1], Some(&hosts[0]), "10.2.0.2");
    let [whole, _] = supers(&world);
    assert!(whole > 100, "{whole} whole");
    assert_eq!(world.end(Signal::TERM), 0);
}
