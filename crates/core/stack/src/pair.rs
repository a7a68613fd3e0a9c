//! Two stacks joined by a wire in memory: the smallest complete system, for `ttcp`, benchmarks and
//! tests. Each end can be moved to a thread of its own. If the link between them takes time, a
//! [`VirtualClock`] advances both from event to event.
//!
//! Called by: tools and tests.
//!
//! ```
//! # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
//! use wirespeed::pair::{PairConfig, pair};
//! use wirespeed::{Instant, Owner};
//!
//! let (mut here, mut there) = pair(&PairConfig::new([1, 2]));
//! let at = std::net::SocketAddr::new(there.addr, 7);
//! let receiver = there.stack.udp_bind(at, Owner::program())?;
//! let sender = here.stack.udp_bind("0.0.0.0:0".parse()?, Owner::program())?;
//!
//! let now = Instant::from_nanos(1);
//! here.stack.udp_send(sender, at, b"hello", now)?;
//! here.stack.poll(now); // the frame leaves
//! there.stack.poll(now); // and arrives
//! let datagram = there.stack.udp_receive(receiver).expect("it has arrived");
//! assert_eq!(datagram.payload.as_slice(), b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::task::Waker;

use base::{Cidr, Instant, IpVersion, LinkKind, MacAddr};
use device::mem;

pub use crate::clock::VirtualClock;
use crate::config::{PortConfig, StackConfig};
use crate::handles::PortId;
use crate::port::Armed;
use crate::stack::Stack;

/// The settings of the two ends.
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// The wire.
    pub wire: mem::Config,
    /// Settings of both stacks. The second stack gets another seed.
    pub stack: StackConfig,
    /// The IP version of [`End::addr`]. Both ends have addresses of both versions.
    pub version: IpVersion,
}

impl PairConfig {
    /// Defaults with this seed: Ethernet, MTU 1500, and IPv4 for [`End::addr`].
    pub fn new(seed: [u64; 2]) -> PairConfig {
        PairConfig {
            wire: mem::Config::default(),
            stack: StackConfig { solicited_node_reports: false, ..StackConfig::new(seed) },
            version: IpVersion::V4,
        }
    }
}

/// A stack with one port, and its address.
pub struct End {
    /// The stack.
    pub stack: Stack,
    /// The stack's port.
    pub port: PortId,
    /// The port's address.
    pub addr: IpAddr,
}

/// IPv4 and IPv6 address of an end, from the documentation networks (RFC 5737, RFC 3849).
pub fn addresses(end: u8) -> [Cidr; 2] {
    let v4 = Ipv4Addr::new(192, 0, 2, end);
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(end));
    [Cidr { addr: IpAddr::V4(v4), prefix_len: 24 }, Cidr { addr: IpAddr::V6(v6), prefix_len: 64 }]
}

/// The link address of an end.
pub fn mac(end: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, end])
}

/// Two ends, 1 and 2, that know each other's addresses.
pub fn pair(config: &PairConfig) -> (End, End) {
    let (left, right) = mem::pair(&config.wire);
    (end(config, left, 1), end(config, right, 2))
}

/// One end of a wire: `number` 1 or 2.
pub fn end(config: &PairConfig, device: impl device::Device + 'static, number: u8) -> End {
    let peer = 3 - number;
    let mut settings = config.stack.clone();
    settings.seed[0] ^= u64::from(number);
    let mut stack = Stack::new(settings);
    let link = device.limits().link;
    let port = stack.add_port(
        Box::new(device),
        PortConfig {
            mac: mac(number),
            addresses: addresses(number).to_vec(),
            ..PortConfig::default()
        },
    );
    if link == LinkKind::Ethernet {
        for cidr in addresses(peer) {
            stack.add_neighbour(port, cidr.addr, mac(peer));
        }
    }
    let [v4, v6] = addresses(number);
    let addr = if config.version == IpVersion::V4 { v4.addr } else { v6.addr };
    End { stack, port, addr }
}

impl VirtualClock {
    /// Let both ends send what they have, drop their events, and advance the time to the next
    /// deadline of either end. `false` if nothing will happen any more; the time then stays.
    pub fn advance(&self, ends: [&mut End; 2]) -> bool {
        let mut next = Instant::NEVER;
        for end in ends {
            end.stack.flush();
            while end.stack.next_event().is_some() {}
            next = next.min(end.stack.next_deadline());
            match end.stack.arm(Waker::noop()) {
                Armed::Ready => next = Instant::ZERO,
                Armed::Until(at) => next = next.min(at),
                Armed::All | Armed::Descriptors | Armed::NotAll => {}
            }
        }
        if next == Instant::NEVER {
            return false;
        }
        self.advance_to(next);
        true
    }
}
