//! Explicit congestion notification with the kernel as the peer. Not every kernel has a queue
//! discipline that marks packets. So a wrapper around the device marks every twelfth ECN-capable
//! frame in each direction. The kernel's own counters show its reaction to the marks.

use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use device::tap::Tap;
use device::{Burst, Device, Limits};
use mbuf::{Mbuf, Pool};
use stack::{PortConfig, Stack, StackConfig};
use tcp::Ecn;
use testbed::Case;
use wirespeed_net::{Net, TcpSocket, blocking};

use crate::ends::{OURS, SOON, assert_reads, cidr, kernel_listener, pattern, tun};

pub(crate) const CASES: &[Case] = &[
    ("ecn_is_asked_for_and_marks_slow_both_ways_down", &[], we_ask),
    ("ecn_of_a_kernel_that_asks_is_accepted", &[], the_kernel_asks),
    ("ecn_that_the_kernel_refuses_is_not_used", &[], the_kernel_refuses),
];

const BYTES: usize = 8_000_000;
/// One ECN-capable frame out of this many is marked.
const EVERY: u64 = 12;

/// A TUN device that marks frames with CE.
struct Marking {
    device: Tap,
    seen: [u64; 2],
    marked: Arc<[AtomicU64; 2]>,
}

impl Marking {
    /// Mark an IPv4 frame if its turn has come, and fix its header checksum.
    fn pass(&mut self, sending: usize, frame: &mut Mbuf) {
        let bytes = frame.as_slice();
        if bytes.len() < 20 || bytes[0] != 0x45 || !matches!(bytes[1] & 3, 1 | 2) {
            return;
        }
        self.seen[sending] += 1;
        if !self.seen[sending].is_multiple_of(EVERY) {
            return;
        }
        let header = frame.headers_mut(20).expect("headers are a frame's own");
        header[1] |= 3;
        header[10..12].fill(0);
        let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let field = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&field.to_be_bytes());
        self.marked[sending].fetch_add(1, Ordering::Relaxed);
    }
}

impl Device for Marking {
    fn limits(&self) -> Limits {
        self.device.limits()
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let from = into.len();
        let count = self.device.rx_burst(pool, into);
        into[from..].iter_mut().for_each(|frame| self.pass(0, frame));
        count
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        from.iter_mut().for_each(|frame| self.pass(1, frame));
        self.device.tx_burst(pool, from)
    }

    fn rx_ready(&self) -> bool {
        self.device.rx_ready()
    }

    fn tx_ready(&self) -> bool {
        self.device.tx_ready()
    }

    fn link_up(&self) -> bool {
        self.device.link_up()
    }

    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.device.as_fd()
    }

    fn arm(&mut self, waker: &core::task::Waker) -> bool {
        self.device.arm(waker)
    }
}

/// A stack over a [`Marking`] device, in a namespace whose kernel has this `tcp_ecn`. Also returns
/// the numbers of marked frames, received and sent.
fn stack(tcp_ecn: u8) -> (Stack, Arc<[AtomicU64; 2]>) {
    let set = std::fs::write("/proc/sys/net/ipv4/tcp_ecn", tcp_ecn.to_string());
    set.expect("root sets it in a namespace of its own");
    let marked = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let device = Marking { device: tun(), seen: [0; 2], marked: marked.clone() };
    let mut stack = Stack::new(StackConfig::new([3, 16]));
    let addresses = vec![cidr(OURS)];
    stack.add_port(Box::new(device), PortConfig { addresses, ..PortConfig::default() });
    (stack, marked)
}

/// A counter of the kernel in this namespace, for instance `IpExt: InCEPkts`.
fn kernel_count(group: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").expect("procfs");
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let place = names.split(' ').position(|n| n == name).expect("the kernel counts it");
    values.split(' ').nth(place).and_then(|v| v.parse().ok()).expect("a number")
}

/// Send bytes to the kernel and receive them back. Returns our connection's statistics at the end.
fn there_and_back(net: &Net, ecn: Ecn) -> tcp::Info {
    let (listener, at) = kernel_listener();
    let data = pattern(BYTES);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut peer, _) = listener.accept().expect("our stack connects");
            assert_reads(&mut peer, &data);
            peer.write_all(&data).expect("our stack reads");
        });
        let mut socket = TcpSocket::new(net);
        socket.config_mut().ecn = ecn;
        let mut stream =
            blocking::TcpStream::connect_with(&socket, at, Some(SOON)).expect("it listens");
        stream.set_read_timeout(Some(SOON)).expect("not zero");
        stream.write_all(&data).expect("the kernel reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        assert_reads(&mut stream, &data);
        stream.tcp_info().expect("the driver is there")
    })
}

fn we_ask() {
    let (stack, marked) = stack(1);
    let (net, _driver) = Net::spawn_thread(stack).expect("the thread starts");
    let info = there_and_back(&net, Ecn::On);
    let [came, sent] = [0, 1].map(|n| marked[n].load(Ordering::Relaxed));
    assert!(info.ecn && came > 0 && sent > 0, "{came} and {sent} marks, {info:?}");
    // The kernel received our marks, echoed them, and saw CWR. Without CWR every ACK would have the
    // echo flag.
    assert!(kernel_count("IpExt:", "InCEPkts") >= sent);
    assert!(info.ecn_reductions > 0, "{info:?}");
    assert!(u64::from(info.ecn_reductions) <= sent, "{sent} marks, {info:?}");
    // Our stack counted each mark of the kernel's frames once.
    assert_eq!(u64::from(info.ce_marks), came, "{info:?}");
    assert_eq!(info.retransmits, 0, "nothing was lost: {info:?}");
}

fn the_kernel_asks() {
    let (stack, marked) = stack(1);
    let (net, _driver) = Net::spawn_thread(stack).expect("the thread starts");
    let at = std::net::SocketAddr::new(OURS, 7);
    let listener = blocking::TcpListener::bind(&net, at).expect("nobody listens there");
    let data = pattern(BYTES);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = std::net::TcpStream::connect(at).expect("our stack listens");
            peer.write_all(&data).expect("our stack reads");
            peer.shutdown(Shutdown::Write).expect("it is open");
        });
        let (mut stream, _) = listener.accept().expect("the kernel connects");
        assert_reads(&mut stream, &data);
        let info = stream.tcp_info().expect("the driver is there");
        assert!(info.ecn, "{info:?}");
        let came = marked[0].load(Ordering::Relaxed);
        assert!(came > 0 && u64::from(info.ce_marks) == came, "{came} marks, {info:?}");
    });
}

fn the_kernel_refuses() {
    let (stack, marked) = stack(0);
    let (net, _driver) = Net::spawn_thread(stack).expect("the thread starts");
    let info = there_and_back(&net, Ecn::On);
    assert!(!info.ecn && info.ce_marks == 0 && info.ecn_reductions == 0, "{info:?}");
    assert_eq!(marked[1].load(Ordering::Relaxed), 0, "nothing of ours was ECN-capable");
}
