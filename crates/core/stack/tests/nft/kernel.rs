//! The kernel's side: a namespace that forwards between two TUNs, with nftables in between.
//!
//! Called by: `main.rs`, inside the namespace of its case. A packet is written to one TUN and what
//! comes is read from both. Behind each packet goes a marker each way, which always passes: when
//! both markers are there, everything that the packet caused has come.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base::LinkKind;
use device::tap::{Config, Setup, Tap};
use device::{Burst, Device};
use mbuf::Pool;

use crate::network::{ADDRESSES, NAMES, ROUTES};
use crate::packets::{self, Content, Ends};

/// How long a marker may take; it passes only on failure.
const PATIENCE: Duration = Duration::from_secs(10);
/// The hosts of markers, one on each side.
const MARKERS: [[u8; 4]; 2] = [[10, 127, 255, 1], [10, 255, 255, 1]];

pub(crate) struct Kernel {
    taps: [Tap; 2],
    pool: Pool,
    markers: [Vec<u8>; 2],
}

impl Kernel {
    pub(crate) fn new() -> Kernel {
        let taps = [0, 1].map(|n| {
            let config = Config {
                name: Some(NAMES[n].to_owned()),
                link: LinkKind::Ip,
                vnet_hdr: false,
                io_uring: false,
                ..Config::default()
            };
            let mut tap = Tap::open(&config).expect("root opens a TUN");
            sysctl(&format!("ipv6/conf/{}/accept_dad", NAMES[n]), "0");
            sysctl(&format!("ipv6/conf/{}/router_solicitations", NAMES[n]), "0");
            let addresses = ADDRESSES[n].iter().map(|a| a.parse().expect("an address")).collect();
            tap.configure(&Setup { addresses, up: true, ..Setup::default() }).expect("root may");
            tap
        });
        for (name, routes) in NAMES.iter().zip(ROUTES) {
            for route in routes {
                assert!(testbed::ip(&format!("route add {route} dev {name}")), "{route}");
            }
        }
        for (name, value) in SYSCTLS {
            sysctl(name, value);
        }
        let markers = [(0, 1), (1, 0)].map(|(from, to)| {
            let end = |n: usize| SocketAddr::new(IpAddr::from(MARKERS[n]), 9);
            packets::build(&Content::Udp(4), Ends { src: end(from), dst: end(to) }, 1).remove(0)
        });
        let mut kernel = Kernel { taps, pool: Pool::new(16 << 20), markers };
        kernel.load("");
        for (name, value) in CONNTRACK {
            sysctl(&format!("netfilter/{name}"), value);
        }
        kernel
    }

    /// Load the chains `text`, and the chain that keeps markers out of connection tracking.
    pub(crate) fn load(&mut self, text: &str) {
        let [a, b] = MARKERS.map(IpAddr::from);
        let all = format!(
            "flush ruleset\n\
             table inet markers {{\n chain raw {{\n  type filter hook prerouting priority raw\n  \
             ip saddr {{ {a}, {b} }} notrack\n  ct state invalid counter\n }}\n}}\n{text}"
        );
        let nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn();
        let mut nft = nft.expect("nft runs");
        nft.stdin.take().expect("piped").write_all(all.as_bytes()).expect("it reads");
        assert!(nft.wait().expect("it ends").success(), "nft refuses:\n{all}");
    }

    /// Send packets into a port; returns what leaves by each.
    pub(crate) fn send(&mut self, port: usize, packets: &[Vec<u8>]) -> [Vec<Vec<u8>>; 2] {
        for packet in packets {
            self.write(port, packet);
        }
        for port in [0, 1] {
            let marker = self.markers[port].clone();
            self.write(port, &marker);
        }
        [self.read(0), self.read(1)]
    }

    fn write(&mut self, port: usize, packet: &[u8]) {
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(packet).expect("room"));
        assert_eq!(self.taps[port].tx_burst(&mut self.pool, &mut burst), 1);
        assert!(self.taps[port].link_up(), "the TUN takes packets");
    }

    /// Packets that left by a port, until the marker of the other one.
    fn read(&mut self, port: usize) -> Vec<Vec<u8>> {
        let marker = &self.markers[1 - port][12..];
        let (mut packets, began) = (Vec::new(), Instant::now());
        loop {
            let mut burst = Burst::new();
            let mut is_there = false;
            if self.taps[port].rx_burst(&mut self.pool, &mut burst) == 0 {
                assert!(began.elapsed() < PATIENCE, "no marker by port {port}");
                std::thread::yield_now();
            }
            for m in burst.drain(..) {
                let bytes = m.as_slice();
                if bytes.get(12..) == Some(marker) {
                    is_there = true;
                } else {
                    packets.push(bytes.to_vec());
                }
                self.pool.free(m);
            }
            if is_there {
                return packets;
            }
        }
    }
}

/// The kernel forwards, checks no source, answers without a rate limit, and reports no fragments
/// that are missing while the test runs.
const SYSCTLS: [(&str, &str); 12] = [
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/lan/rp_filter", "0"),
    ("ipv4/conf/wan/rp_filter", "0"),
    ("ipv4/ipfrag_time", "600"),
    ("ipv6/ip6frag_time", "600"),
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv4/icmp_msgs_per_sec", "1000000"),
    ("ipv4/icmp_msgs_burst", "1000000"),
    ("ipv6/icmp/ratelimit", "0"),
];

/// Connections begin with a SYN, windows are checked.
const CONNTRACK: [(&str, &str); 5] = [
    ("nf_conntrack_tcp_loose", "0"),
    ("nf_conntrack_tcp_be_liberal", "0"),
    ("nf_conntrack_log_invalid", "0"),
    ("nf_conntrack_frag6_timeout", "600"),
    ("nf_conntrack_checksum", "1"),
];

/// Set one of this thread's namespace.
fn sysctl(name: &str, value: &str) {
    let path = format!("/proc/sys/net/{name}");
    if let Err(why) = fs::write(&path, value) {
        panic!("{path}: {why}");
    }
}
