//! The seeds of fuzzing: conversations of real stacks, cut into inputs for each target, and a few
//! scripts of any bytes.
//!
//! Called by: `examples/seeds.rs`, which writes files for `cargo xtask fuzz`, and the tests, which
//! run every target on them. Nothing here is committed as a file: it is made anew each time, the
//! same bytes from the same code.

use core::net::{IpAddr, SocketAddr};

use base::{Duration, IpVersion, Owner};
use device::{Burst, Device, mem};
use mbuf::Pool;
use stack::{Stack, TcpHandle, pair};
use tcp::Config;
use wire::{ether, ipv4, ipv6, protocol};

use crate::cut::{BARE, PARTIAL};
use crate::stack::script::{FRAME, WAIT};
use crate::stack::{Bench, LISTEN_PORT, UDP_PORT, end, pair_config};

/// A file to begin with: its target, its name, its bytes.
pub type Seed = (&'static str, String, Vec<u8>);

/// Targets that decode a script, so that any bytes mean something.
const SCRIPTED: &[&str] = &[
    "tcb",
    "predict",
    "dissect",
    "dns",
    "forwarder",
    "served",
    "dhcp4",
    "dhcp6",
    "group",
    "autoconf",
    "forward",
    "stack",
    "listener",
    "control",
    "capture",
    "capture_file",
    "link",
    "wheel",
    "release",
    "filter",
    "rules",
    "pair",
    "policy",
    "telnet",
    "fpm",
];
/// Scripts of any bytes for each of them.
const SCRIPTS: u64 = 12;
/// Frames of one conversation that become files of their own.
const FRAMES_MAX: usize = 40;

/// All of them.
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for version in [0, 1] {
        for strange in [false, true] {
            let talk = Talk::new(version, strange).hold();
            let name = format!("talk-v{}-{}", 4 + 2 * version, u8::from(strange));
            talk.frames.iter().take(FRAMES_MAX).enumerate().for_each(|(n, frame)| {
                let name = format!("{name}-{n}");
                layers(frame, &name, &mut seeds);
                for_a_card(frame, &name, &mut seeds);
            });
            seeds.push(("stack", name, talk.script));
        }
    }
    for target in SCRIPTED {
        for n in 0..SCRIPTS {
            seeds.push((target, format!("any-{n}"), any_bytes(n, 64 << (n % 6))));
        }
    }
    seeds.push(("filter", "port-80".to_owned(), crate::filter::real_program()));
    seeds.push(("rules", "example".to_owned(), crate::rules::real_text()));
    seeds.push(("pair", "states".to_owned(), crate::pair::whole_states()));
    seeds.push(("policy", "example".to_owned(), crate::policy::real_text()));
    seeds.push(("hello", "name".to_owned(), crate::policy::real_hello()));
    seeds.push(("dns", "answers".to_owned(), crate::dns::whole_answers()));
    seeds.push(("forwarder", "answers".to_owned(), crate::forwarder::whole_answers()));
    seeds.push(("served", "lease".to_owned(), crate::served::whole_lease()));
    seeds.push(("dhcp4", "lease".to_owned(), crate::dhcp::whole_lease(false)));
    seeds.push(("dhcp6", "lease".to_owned(), crate::dhcp::whole_lease(true)));
    seeds.push(("autoconf", "router".to_owned(), crate::stack::near::whole_configuration()));
    seeds.push(("forward", "crossing".to_owned(), crate::stack::router::whole_crossing()));
    let (message, record) = crate::rpc::whole_call();
    seeds.push(("rpc_message", "dump".to_owned(), message));
    seeds.push(("rpc_record", "dump".to_owned(), record));
    for (name, bytes) in ["pcap", "pcapng"].into_iter().zip(crate::captures::seeds()) {
        seeds.push(("capture_file", name.to_owned(), bytes));
    }
    seeds.push(("telnet", "agreed".to_owned(), crate::telnet::whole_talk()));
    seeds.push(("fpm", "zebra".to_owned(), crate::fpm::recorded()));
    seeds.push(("control", "hello".to_owned(), crate::control::whole_request()));
    seeds
}

/// The same bytes from the same number.
fn any_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = device::fault::Rng::new(seed + 1);
    (0..len).map(|_| rng.below(256) as u8).collect()
}

/// The content of a frame, layer by layer, for the parsers.
fn layers(frame: &[u8], name: &str, seeds: &mut Vec<Seed>) {
    let mut add = |target, bytes: &[u8]| seeds.push((target, name.to_owned(), bytes.to_vec()));
    add("ethernet", frame);
    // A packet of Ethernet, with -vv, not cut.
    add("dissect", &[&[1, 2, 0, 0], frame].concat());
    add("checksum", frame);
    let Some(packet) = frame.get(ether::HEADER_LEN..) else { return };
    let (protocol, transport) = if let Ok(ip) = ipv4::Header::parse(packet) {
        add("ipv4", packet);
        (ip.protocol, &packet[ip.header_len..usize::from(ip.total_len)])
    } else if let Ok(ip) = ipv6::Header::parse(packet) {
        add("ipv6", packet);
        (ip.next_header, &packet[ipv6::HEADER_LEN..])
    } else {
        return;
    };
    match protocol {
        protocol::TCP => {
            add("tcp_header", transport);
            if let Ok(header) = wire::tcp::Header::parse(transport) {
                add("tcp_options", header.options(transport));
            }
        }
        protocol::UDP => add("udp", transport),
        _ => add("icmp", transport),
    }
}

/// A frame as a network card gets it: to be finished, to be cut, tagged, without its link header.
fn for_a_card(frame: &[u8], name: &str, seeds: &mut Vec<Seed>) {
    let Some((addresses, rest)) = frame.split_at_checked(12) else { return };
    let tagged = [addresses, &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5], rest].concat();
    let packet = frame.get(ether::HEADER_LEN..).unwrap_or_default();
    for (what, noted, size, bytes) in [
        ("partial", PARTIAL, 0_u8, frame),
        ("super", PARTIAL, 100, frame),
        ("tagged", PARTIAL, 100, &tagged[..]),
        ("bare", PARTIAL | BARE, 100, packet),
    ] {
        let seed = [&[noted, 0, size][..], bytes].concat();
        seeds.push(("cut", format!("{name}-{what}"), seed));
    }
}

/// A conversation of a real stack with the bench, recorded as a script that repeats it.
struct Talk {
    bench: Bench,
    peer: Stack,
    /// The far end of the peer's own wire.
    wire: mem::Mem,
    pool: Pool,
    ours: IpAddr,
    frames: Vec<Vec<u8>>,
    script: Vec<u8>,
}

impl Talk {
    /// `version` 0 is IPv4, 1 is IPv6; `strange`: neither end knows the other.
    fn new(version: usize, strange: bool) -> Talk {
        let config = pair_config();
        let (near, wire) = mem::pair(&config.wire);
        let (peer, _) = end(&config, near, 2, strange);
        let mut bench = Bench::new(strange);
        bench.record = Some(Vec::new());
        Talk {
            bench,
            peer,
            wire,
            pool: Pool::new(8 << 20),
            ours: pair::addresses(1)[version].addr,
            frames: Vec::new(),
            script: vec![u8::from(strange)],
        }
    }

    /// A connection with data in both directions, a datagram to a socket and one to a closed port,
    /// an echo.
    fn hold(mut self) -> Talk {
        let to = SocketAddr::new(self.ours, LISTEN_PORT);
        let now = self.bench.now;
        let config = Config::default();
        let connected = self.peer.tcp_connect(to, None, &config, Owner::program(), now);
        let Ok(handle) = connected else { return self };
        self.rounds(6);
        self.exchange(handle);
        self.datagrams();
        self.peer.tcp_close(handle);
        self.rounds(4);
        self.use_connection(6, 0);
        self.rounds(8);
        self
    }

    fn exchange(&mut self, handle: TcpHandle) {
        for len in [1, 500, 4_000] {
            let _ = self.peer.tcp_write(handle, &vec![0x77; len]);
            self.rounds(3);
            self.use_connection(2, 5_000);
            self.use_connection(0, len);
            self.rounds(3);
            let _ = self.peer.tcp_read(handle, &mut vec![0; 8_000]);
            self.rounds(2);
        }
    }

    fn datagrams(&mut self) {
        let (ours, now) = (self.ours, self.bench.now);
        let stack = &mut self.peer;
        let local = SocketAddr::new(base::addr::unspecified(IpVersion::V4), 2_000);
        if let Ok(udp) = stack.udp_bind(local, Owner::program()) {
            for port in [UDP_PORT, 9] {
                let _ = stack.udp_send(udp, SocketAddr::new(ours, port), b"question", now);
            }
        }
        if let Ok(ping) = stack.ping_open(Owner::program()) {
            let _ = stack.ping_send(ping, ours, 1, b"echo", now);
        }
        self.rounds(4);
    }

    /// The bench's user does something, and the script says so.
    fn use_connection(&mut self, how: u8, len: usize) {
        let len = len as u16;
        self.bench.use_connection(0, how, len.into());
        self.script.extend_from_slice(&[212, 0, how]);
        self.script.extend_from_slice(&len.to_le_bytes());
        self.bench.poll();
    }

    /// Frames go to and fro, then a little time passes.
    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round();
            const TICKS: u16 = 48;
            self.bench.now += Duration::from_nanos(u64::from(TICKS) << 20);
            self.script.push(WAIT);
            self.script.extend_from_slice(&TICKS.to_le_bytes());
            self.bench.poll();
        }
    }

    fn round(&mut self) {
        for frame in self.bench.record.replace(Vec::new()).unwrap_or_default() {
            self.frames.push(frame.clone());
            let Some(m) = self.pool.copy_of(&frame) else { continue };
            let mut burst = Burst::new();
            burst.push(m);
            self.wire.tx_burst(&mut self.pool, &mut burst);
        }
        self.peer.poll(self.bench.now);
        self.peer.flush();
        let mut burst = Burst::new();
        self.wire.rx_burst(&mut self.pool, &mut burst);
        for m in burst {
            let frame = m.as_slice().to_vec();
            self.pool.free(m);
            self.script.push(FRAME);
            self.script.extend_from_slice(&(frame.len() as u16).to_be_bytes());
            self.script.extend_from_slice(&frame);
            self.bench.inject(0, &frame);
            self.bench.poll();
            self.frames.push(frame);
        }
    }
}
