//! Datagrams in fragments, in both directions, with the kernel at the other end of a TAP: UDP of 64
//! KB, the kernel's ping that our stack answers, our ping that the kernel answers. RFC 791 section
//! 3.2, RFC 8200 section 4.5.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use base::{Cidr, Counter, Limit, Owner};
use device::tap::{Config, Setup, Tap};
use stack::{PortConfig, Stack, StackConfig};
use testbed::{Case, Need};
use wirespeed_net::{Net, blocking};

use crate::ends::{SOON, ip, pattern};

pub(crate) const CASES: &[Case] = &[
    ("datagrams_of_64_kb_go_both_ways_in_fragments_v4", &[], || datagrams(&V4)),
    ("datagrams_of_64_kb_go_both_ways_in_fragments_v6", &[], || datagrams(&V6)),
    ("the_kernels_ping_is_answered_at_any_size_v4", &[Need::PING], || pinged(&V4)),
    ("the_kernels_ping_is_answered_at_any_size_v6", &[Need::PING], || pinged(&V6)),
    ("the_kernel_answers_echoes_of_any_size_v4", &[], || pings(&V4)),
    ("the_kernel_answers_echoes_of_any_size_v6", &[], || pings(&V6)),
];

pub(crate) struct Plan {
    pub(crate) kernel: &'static str,
    pub(crate) ours: &'static str,
    prefix_len: u8,
    /// The largest payload of a UDP datagram, and of an echo, in bytes.
    largest: usize,
}

pub(crate) const V4: Plan =
    Plan { kernel: "10.79.0.1", ours: "10.79.0.2", prefix_len: 24, largest: 65_507 };
pub(crate) const V6: Plan =
    Plan { kernel: "fd79::1", ours: "fd79::2", prefix_len: 64, largest: 65_527 };

impl Plan {
    pub(crate) fn kernel(&self) -> IpAddr {
        self.kernel.parse().expect("an address")
    }

    pub(crate) fn ours(&self) -> IpAddr {
        self.ours.parse().expect("an address")
    }

    /// A stack on a TAP with MTU 1500, run by a driver thread. Neighbours are found by ARP or ND.
    pub(crate) fn net(&self) -> (Net, wirespeed_net::DriverThread) {
        let config = Config { name: Some("ws0".to_owned()), ..Config::default() };
        let mut tap = Tap::open(&config).expect("root opens a TAP");
        tap.configure(&Setup { up: true, ..Setup::default() }).expect("root sets it up");
        let nodad = if self.kernel.contains(':') { " nodad" } else { "" };
        ip(&format!("addr add {}/{} dev ws0{nodad}", self.kernel, self.prefix_len));
        let mut config = StackConfig::new([3, 14]);
        config.budget.set(Limit::MbufBytes, 64 << 20);
        let mut stack = Stack::new(config);
        let addresses = vec![Cidr::new(self.ours(), self.prefix_len).expect("a prefix")];
        stack.add_port(Box::new(tap), PortConfig { addresses, ..PortConfig::default() });
        Net::spawn_thread(stack).expect("the thread starts")
    }
}

/// Neither side echoes by itself: each side's datagrams are compared where they arrive. The first
/// datagram is sent while neither side knows the other's link address.
fn datagrams(plan: &Plan) {
    let (net, driver) = plan.net();
    let ours = blocking::UdpSocket::bind(&net, SocketAddr::new(plan.ours(), 9)).expect("free");
    ours.set_read_timeout(Some(SOON)).expect("not zero");
    let kernel = std::net::UdpSocket::bind((plan.kernel(), 0)).expect("the kernel's address");
    kernel.set_read_timeout(Some(SOON)).expect("not zero");
    let at = kernel.local_addr().expect("bound");
    let mut into = vec![0; 70_000];
    for len in [8_192, 1_472, 1_473, 3_000, plan.largest - 1, plan.largest] {
        let data = pattern(len);
        for _ in 0..3 {
            assert_eq!(ours.send_to(&data, at).expect("sent"), len);
            let (n, from) = kernel.recv_from(&mut into).expect("it arrives at the kernel");
            assert!(into[..n] == data, "{n} bytes of {len} from us");
            assert_eq!(kernel.send_to(&data, from).expect("sent"), len);
            let (n, _) = ours.recv_from(&mut into).expect("it arrives here");
            assert!(into[..n] == data, "{n} bytes of {len} from the kernel");
        }
    }
    let counted = |counter| net.with_stack(|s| s.counters().of(counter)).expect("the driver runs");
    let counters = [
        Counter::DatagramsFragmented,
        Counter::FragmentsOut,
        Counter::DatagramsReassembled,
        Counter::FragmentsIn,
        Counter::FragmentsJoined,
    ];
    let [fragmented, out, reassembled, received, joined] = counters.map(counted);
    println!("{fragmented} datagrams out in {out} fragments, {reassembled} in from {received}");
    assert!(fragmented >= 12 && reassembled >= 12 && received == joined);
    let too_long = ours.send_to(&vec![0; plan.largest + 1], at).expect_err("no packet holds it");
    assert_eq!(too_long.raw_os_error(), Some(90), "EMSGSIZE");
    driver.stop().expect("no panic");
}

fn pinged(plan: &Plan) {
    let (net, driver) = plan.net();
    for size in ["56", "3000", "65000", "65507"] {
        let mut ping = Command::new("ping");
        ping.args(["-n", "-c", "3", "-i", "0.2", "-W", "5", "-s", size, plan.ours]);
        let output = ping.output().expect("ping runs");
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{}", text.trim());
        assert!(text.contains("3 received, 0% packet loss"), "{size}: {text}");
        // ping compares the data that comes back with the data that it has sent.
        assert!(!text.contains("wrong data byte"), "{text}");
    }
    let dropped: Vec<_> = net
        .with_stack(|s| s.drops().nonzero().filter(|(r, _)| r.name().contains("frag")).collect())
        .expect("the driver runs");
    assert_eq!(dropped, []);
    driver.stop().expect("no panic");
}

fn pings(plan: &Plan) {
    let (net, driver) = plan.net();
    let to = plan.kernel();
    let socket =
        net.with_stack(|s| s.ping_open(Owner::program())).expect("the driver runs").expect("one");
    for (seq, size) in [56, 3_000, 65_000, plan.largest].into_iter().enumerate() {
        let data = pattern(size);
        let sent = net.with_stack(|s| s.ping_send(socket, to, seq as u16, &data, s.now()));
        sent.expect("the driver runs").expect("sent");
        let begun = Instant::now();
        let echo = loop {
            if let Some(echo) = net.with_stack(|s| s.ping_receive(socket)).expect("the driver runs")
            {
                break echo;
            }
            assert!(begun.elapsed() < SOON, "{size} bytes");
            thread::sleep(Duration::from_millis(2));
        };
        let payload = echo.outcome.expect("a reply");
        assert!(payload.as_slice() == data, "{size} bytes");
        net.with_stack(|s| s.give_back(payload)).expect("the driver runs");
    }
    driver.stop().expect("no panic");
}
