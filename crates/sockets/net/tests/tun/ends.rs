//! A stack over a TUN interface with the kernel at the other end, kernel sockets, and test data.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::{Cidr, Limit, LinkKind};
use device::tap::{Config, Setup, Tap};
use rustix::time::{ClockId, clock_gettime};
use stack::{PortConfig, PortId, Stack, StackConfig};

pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) const KERNEL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
pub(crate) const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));

pub(crate) fn cidr(addr: IpAddr) -> Cidr {
    Cidr::new(addr, 24).expect("a short prefix")
}

/// The TUN interface, which is up and has the kernel's address.
pub(crate) fn tun() -> Tap {
    let config = Config { name: Some("ws0".to_owned()), link: LinkKind::Ip, ..Config::default() };
    let mut tap = Tap::open(&config).expect("root opens a TUN");
    let addresses = vec![cidr(KERNEL)];
    tap.configure(&Setup { addresses, up: true, ..Setup::default() }).expect("root sets it up");
    tap
}

/// A stack over that interface.
pub(crate) fn stack() -> (Stack, PortId) {
    let mut config = StackConfig::new([3, 14]);
    config.budget.set(Limit::MbufBytes, 64 << 20);
    let mut stack = Stack::new(config);
    let addresses = vec![cidr(OURS)];
    let port = stack.add_port(Box::new(tun()), PortConfig { addresses, ..PortConfig::default() });
    (stack, port)
}

/// A TCP listener of the kernel.
pub(crate) fn kernel_listener() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind((KERNEL, 0)).expect("the kernel's address");
    let at = listener.local_addr().expect("it listens");
    (listener, at)
}

pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + i / 65_521) as u8).collect()
}

/// Read to the end of the stream, and compare with `expected`.
pub(crate) fn assert_reads(from: &mut impl Read, expected: &[u8]) {
    let mut got = Vec::new();
    from.read_to_end(&mut got).expect("until the end");
    assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
}

/// Run `ip` in this thread's namespace; it must succeed.
pub(crate) fn ip(arguments: &str) {
    assert!(testbed::ip(arguments), "ip {arguments}");
}

/// Processor time of the whole process.
pub(crate) fn processor_time() -> Duration {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
