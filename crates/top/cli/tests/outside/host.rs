//! A stack on a TAP whose other end is the namespace's kernel; the test case polls it.

use std::net::IpAddr;
use std::time::{Duration, Instant as Monotone};

use testbed::ip;
use wirespeed::device::tap::{Config, Setup, Tap};
use wirespeed::{Instant, PortConfig, Stack, StackConfig};

/// The kernel's addresses and ours.
pub(crate) const KERNEL: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
pub(crate) const OURS: [&str; 2] = ["192.0.2.2", "2001:db8::2"];
/// The TAP's name; it is alone in its namespace.
pub(crate) const TAP: &str = "ws0";

pub(crate) fn addr(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A persistent TAP with the kernel's addresses, for a program that opens it later.
pub(crate) fn set_up_tap() {
    assert!(ip(&format!("tuntap add dev {TAP} mode tap vnet_hdr")));
    addresses();
    assert!(ip(&format!("link set dev {TAP} up")));
}

fn addresses() {
    assert!(ip(&format!("addr add {}/24 dev {TAP}", KERNEL[0])));
    assert!(ip(&format!("-6 addr add {}/64 dev {TAP} nodad", KERNEL[1])));
}

/// Our end.
pub(crate) struct Host {
    pub(crate) stack: Stack,
    started: Monotone,
}

impl Host {
    pub(crate) fn new() -> Host {
        let config = Config { name: Some(TAP.to_owned()), ..Config::default() };
        let mut tap = Tap::open(&config).expect("root may");
        tap.configure(&Setup { up: true, ..Setup::default() }).expect("root may");
        addresses();
        let mac = tap.our_mac().expect("a TAP has one");
        let nets = [format!("{}/24", OURS[0]), format!("{}/64", OURS[1])];
        let addresses = nets.iter().map(|net| net.parse().expect("a network")).collect();
        let mut stack = Stack::new(StackConfig::new([7, 11]));
        stack.add_port(Box::new(tap), PortConfig { mac, addresses, ..PortConfig::default() });
        Host { stack, started: Monotone::now() }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.started.elapsed().as_nanos() as u64 + 1)
    }

    /// Poll until `done`; panics after 20 s.
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&mut Host) -> bool) {
        let limit = Monotone::now() + Duration::from_secs(20);
        while !done(self) {
            let now = self.now();
            if self.stack.poll(now) == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
            if Monotone::now() > limit {
                let drops: Vec<_> = self.stack.drops().nonzero().collect();
                panic!("{what} did not happen; drops: {drops:?}");
            }
        }
    }
}
