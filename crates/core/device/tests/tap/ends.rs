//! The two ends of a test: a [`Tap`] that the test uses directly, and the kernel with its
//! addresses.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use base::{Cidr, DropReason, LinkKind};
use mbuf::{Flags, Mbuf, Pool};
use wirespeed_device::tap::{Config, Setup, Tap};
use wirespeed_device::{Burst, Device};

use crate::frames;

/// The timeout of a case. It is generous, because it passes only if the case fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kernel's address; the next function returns ours.
pub(crate) fn kernel(v6: bool) -> IpAddr {
    if v6 { "fd77::1".parse().expect("an address") } else { [10, 77, 0, 1].into() }
}

pub(crate) fn ours(v6: bool) -> IpAddr {
    if v6 { "fd77::2".parse().expect("an address") } else { [10, 77, 0, 2].into() }
}

pub(crate) struct End {
    pub(crate) tap: Tap,
    pub(crate) pool: Pool,
    waiting: Burst,
    kernel_mac: [u8; 6],
    our_mac: [u8; 6],
}

impl End {
    /// An interface named `ws0`, up, with both of the kernel's addresses.
    pub(crate) fn new(link: LinkKind, vnet_hdr: bool) -> End {
        let config = Config { name: Some("ws0".to_owned()), link, vnet_hdr, ..Config::default() };
        let mut tap = Tap::open(&config).expect("root opens a TAP");
        tap.configure(&setup()).expect("root sets it up");
        End::around(tap)
    }

    pub(crate) fn around(tap: Tap) -> End {
        End {
            kernel_mac: tap.kernel_mac().unwrap_or_default().0,
            our_mac: tap.our_mac().unwrap_or_default().0,
            tap,
            pool: Pool::new(16 << 20),
            waiting: Burst::new(),
        }
    }

    fn ethernet(&self) -> bool {
        self.tap.limits().link == LinkKind::Ethernet
    }

    /// The frame of a packet, with a link header on Ethernet.
    pub(crate) fn frame(&mut self, packet: &[u8]) -> Mbuf {
        let bytes = if self.ethernet() {
            let group = packet[0] == 0;
            let dst = if group { [0xff; 6] } else { self.kernel_mac };
            frames::ethernet(dst, self.our_mac, packet)
        } else {
            packet.to_vec()
        };
        self.pool.copy_of(&bytes).expect("room for a frame")
    }

    pub(crate) fn send(&mut self, frame: Mbuf) {
        let mut burst = Burst::new();
        burst.push(frame);
        assert_eq!(self.tap.tx_burst(&mut self.pool, &mut burst), 1);
    }

    pub(crate) fn send_packet(&mut self, packet: &[u8]) {
        let frame = self.frame(packet);
        self.send(frame);
    }

    /// Send a TCP or UDP packet whose checksum is left to the kernel. If `size` is not 0, it is a
    /// super-segment that the kernel has to cut every `size` bytes.
    pub(crate) fn send_partial(&mut self, packet: &[u8], size: u16) {
        let mut frame = self.frame(packet);
        frame.set(Flags::CSUM_PARTIAL);
        frame.set_csum((self.link_len() + if packet[0] >> 4 == 6 { 40 } else { 20 }) as u16);
        frame.set_segment_size(size);
        self.send(frame);
    }

    pub(crate) fn link_len(&self) -> usize {
        self.tap.limits().link.header_len()
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.tap.drops().map_or(0, |drops| drops.of(reason))
    }

    /// The next frame whose packet `wanted` accepts. Until it comes, the kernel's requests for our
    /// link address are answered, and its other packets (router solicitations, MLD reports) are
    /// ignored.
    pub(crate) fn receive(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Mbuf {
        let frame = self.receive_within(PATIENCE, wanted);
        frame.unwrap_or_else(|| panic!("nothing of the kind came; lost: {:?}", self.lost()))
    }

    fn lost(&self) -> Vec<(DropReason, u64)> {
        self.tap.drops().map(|drops| drops.nonzero().collect()).unwrap_or_default()
    }

    fn receive_within(&mut self, time: Duration, wanted: impl Fn(&[u8]) -> bool) -> Option<Mbuf> {
        let start = Instant::now();
        while start.elapsed() < time {
            if self.waiting.is_empty() && self.tap.rx_burst(&mut self.pool, &mut self.waiting) == 0
            {
                std::thread::sleep(Duration::from_micros(100));
                continue;
            }
            let frame = self.waiting.remove(0);
            let packet = frame.as_slice().get(self.link_len()..).unwrap_or_default().to_vec();
            if wanted(&packet) {
                return Some(frame);
            }
            self.answer(&packet);
            self.pool.free(frame);
        }
        None
    }

    /// Answer ARP requests and neighbour solicitations for our addresses.
    fn answer(&mut self, packet: &[u8]) {
        if !self.ethernet() {
            return;
        }
        let arp_request = packet[0] == 0 && packet.get(7) == Some(&1);
        if arp_request && packet.get(24..28) == Some(&frames::octets(ours(false))) {
            let (us, it) = ((self.our_mac, ours(false)), (self.kernel_mac, kernel(false)));
            self.send_packet(&frames::arp(2, us, it));
        }
        let solicitation = packet[0] >> 4 == 6 && packet.get(40) == Some(&135);
        if solicitation && packet.get(48..64) == Some(&frames::octets(ours(true))) {
            // The source is the kernel's address or its link-local address.
            let mut src = [0; 16];
            src.copy_from_slice(&packet[8..24]);
            self.send_packet(&frames::advertisement(ours(true), src.into(), self.our_mac));
        }
    }

    /// Wait until the kernel's addresses are usable, that is, until it answers echo requests to
    /// both.
    pub(crate) fn echo_both_ways(&mut self) {
        for v6 in [false, true] {
            if self.ethernet() && !v6 {
                let us = (self.our_mac, ours(false));
                self.send_packet(&frames::arp(1, us, ([0; 6], kernel(false))));
                let reply = self.receive(|p| p[0] == 0 && p.get(7) == Some(&2));
                assert_eq!(reply.as_slice().get(22..28), Some(&self.kernel_mac[..]));
                self.pool.free(reply);
            }
            let text = b"is there anybody?";
            let (kind, ip) = if v6 { (129, 40) } else { (0, 20) };
            // A new IPv6 address is tentative for a second or two (RFC 4862 section 5.4).
            let answered = (0..50).any(|_| {
                self.send_packet(&frames::echo(ours(v6), kernel(v6), text));
                let is_reply = |p: &[u8]| p.get(ip) == Some(&kind) && p.ends_with(text);
                let reply = self.receive_within(Duration::from_millis(100), is_reply);
                reply.map(|frame| self.pool.free(frame)).is_some()
            });
            assert!(answered, "no echo, IPv6: {v6}; lost: {:?}", self.lost());
        }
    }
}

/// Configures the kernel's end: both addresses, up.
pub(crate) fn setup() -> Setup {
    // Turn off duplicate address detection in this thread's namespace, so that addresses are usable
    // at once.
    for what in ["all", "default", "ws0"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{what}/accept_dad"), "0");
    }
    let addresses = [(kernel(false), 24), (kernel(true), 64)];
    let addresses = addresses.map(|(addr, len)| Cidr::new(addr, len).expect("a short prefix"));
    Setup { addresses: addresses.to_vec(), up: true, ..Setup::default() }
}
