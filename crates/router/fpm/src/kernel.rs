//! Routes of a kernel's tables, as rtnetlink(7) reports them: a daemon such as BIRD writes them.
//!
//! Called by: the router, which reads datagrams of a netlink socket and gives them to
//! [`Kernel::receive`]. A dump has an end; messages that were lost show as an error of the socket,
//! and another dump is needed then. The kernel forgets IPv4 routes without a message when a link
//! goes down or an address goes, so news of those asks for a dump, too.

use crate::attributes::{Message, Messages};
use crate::change::{Key, NextHops, Reachable};
use crate::counts::Encapsulation;
use crate::frame::Violation;
use crate::route::{self, Leads, Parsed, Speaker};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
/// The table changed while it was dumped.
const NLM_F_DUMP_INTR: u16 = 0x10;
/// A request for a whole table: NLM_F_REQUEST, NLM_F_ROOT, NLM_F_MATCH.
const DUMP: u16 = 0x301;
/// Another route to the prefix was added, and the earlier one stays (NLM_F_APPEND).
const NLM_F_APPEND: u16 = 0x800;
/// Routes that are nobody's, of redirects, of the kernel, of `ip route` without a protocol, of
/// router advertisements and of DHCP clients: `RTPROT_*`.
const NOT_OF_DAEMONS: [u8; 6] = [0, 1, 2, 3, 9, 16];

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// There is this route.
    Route {
        /// Its table and prefix; another route to it may have another metric.
        key: Key,
        /// Its metric.
        metric: u32,
        /// The kernel's number of the routing protocol.
        protocol: u8,
        /// Its next hops.
        to: Reachable,
    },
    /// The route with this metric is gone, or cannot be used.
    Gone {
        /// Its table and prefix.
        key: Key,
        /// Its metric.
        metric: u32,
    },
    /// The dump is over; unless it is whole, another one is needed.
    Dumped {
        /// Nothing has changed within it.
        is_whole: bool,
    },
    /// Routes may have gone without a message: a dump is needed.
    Unsure,
}

/// Numbers since the program began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Messages that add or change a route.
    pub new_routes: u64,
    /// Messages that delete a route.
    pub deleted_routes: u64,
    /// Routes that no routing daemon wrote.
    pub of_others: u64,
    /// Routes of a type, a source prefix or a version that the forwarding plane does not have.
    pub unsupported: u64,
    /// Routes with an encapsulation, by [`Encapsulation`].
    pub encapsulated: [u64; Encapsulation::ALL.len()],
    /// Dumps that ended.
    pub dumps: u64,
}

/// A reader of a kernel's messages.
#[derive(Debug, Default)]
pub struct Kernel {
    counts: KernelCounts,
    /// The number of the dump that goes on.
    sequence: u32,
    is_interrupted: bool,
}

/// The bytes of a request for all routes of both versions; its answers have this number.
pub fn dump_request(sequence: u32) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..4].copy_from_slice(&28_u32.to_ne_bytes());
    bytes[4..6].copy_from_slice(&RTM_GETROUTE.to_ne_bytes());
    bytes[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes
}

impl Kernel {
    /// A dump begins: the bytes to send.
    pub fn begin(&mut self) -> [u8; 28] {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.is_interrupted = false;
        dump_request(self.sequence)
    }

    /// Take a datagram, and give its news to `out`, in order.
    ///
    /// # Errors
    /// The datagram is none of rtnetlink: it was cut, for example.
    pub fn receive(
        &mut self,
        datagram: &[u8],
        out: &mut impl FnMut(News),
    ) -> Result<(), Violation> {
        for message in Messages(datagram) {
            let message = message?;
            let is_of_dump = message.sequence == self.sequence && self.sequence != 0;
            self.is_interrupted |= is_of_dump && message.flags & NLM_F_DUMP_INTR != 0;
            match message.kind {
                RTM_NEWROUTE => self.route(&message, true, out)?,
                RTM_DELROUTE => self.route(&message, false, out)?,
                NLMSG_DONE if is_of_dump => {
                    self.counts.dumps += 1;
                    out(News::Dumped { is_whole: !self.is_interrupted });
                }
                NLMSG_ERROR if is_of_dump => out(News::Dumped { is_whole: false }),
                // Links and addresses: RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR, RTM_DELADDR.
                16 | 17 | 20 | 21 => out(News::Unsure),
                _ => {}
            }
        }
        Ok(())
    }

    fn route(
        &mut self,
        message: &Message<'_>,
        is_new: bool,
        out: &mut impl FnMut(News),
    ) -> Result<(), Violation> {
        let counts = &mut self.counts;
        *(if is_new { &mut counts.new_routes } else { &mut counts.deleted_routes }) += 1;
        let route = match route::parse(message, Speaker::Kernel)? {
            Parsed::Route(route) => route,
            Parsed::Encapsulated(which) => {
                counts.encapsulated[which as usize] += 1;
                return Ok(());
            }
            Parsed::Unsupported => {
                counts.unsupported += 1;
                return Ok(());
            }
        };
        let route::Route { key, metric, protocol, leads } = route;
        if leads == Leads::Kernel || NOT_OF_DAEMONS.contains(&protocol) {
            counts.of_others += 1;
            return Ok(());
        }
        if message.flags & NLM_F_APPEND != 0 && is_new {
            out(News::Unsure);
        }
        let to = match leads {
            _ if !is_new => None,
            Leads::To(NextHops::Inline(to)) => Some(to),
            Leads::Encapsulated(which) => {
                counts.encapsulated[which as usize] += 1;
                None
            }
            // A number without what it stands for, by sysctl nexthop_compat_mode.
            Leads::To(NextHops::Id(_)) | Leads::Unsupported | Leads::Limited(_) | Leads::Kernel => {
                counts.unsupported += 1;
                None
            }
        };
        out(match to {
            Some(to) => News::Route { key, metric, protocol, to },
            None => News::Gone { key, metric },
        });
        Ok(())
    }

    /// What was received.
    pub fn counts(&self) -> &KernelCounts {
        &self.counts
    }
}
