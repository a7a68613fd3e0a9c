//! Finds the addresses that programs have given the mirrors, or macvlans above them: VRRP's, while
//! the program says that this router is the master.
//!
//! Called by: `mirrors.rs`. The kernel reports changes at one socket; what has changed is not
//! read there, because messages may be lost. All interfaces and addresses are asked for at another
//! socket instead. Both are in the mirrors' namespace. Sources: rtnetlink(7), netlink(7).

use core::net::{IpAddr, Ipv6Addr};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{self, Timeout};

use super::news::{self, Held, Link, News};
use crate::links;
use crate::mirror::{OfProgram, PROGRAMS_MAX, State};

/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// How often a table is asked for that changes while it is read; then the kernel has news again.
const TRIES: u32 = 3;
/// The kernel answers at once; it is not waited for without end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Datagrams of one answer: each has room for several interfaces or addresses.
const DATAGRAMS_MAX: usize = 10_000;

/// Addresses that a mirror, or interfaces above it, had when it was taken over from an earlier
/// router, with the numbers of the interfaces. Some may have been the port's, others those of a
/// program that was killed. They are no program's before they were removed, or, of an interface
/// above, before that went down by itself.
pub(super) type Left = BTreeSet<(u32, IpAddr)>;

/// What the kernel says of a namespace.
pub(super) struct Watch {
    news: Socket,
    ask: Socket,
    /// The number of the last request.
    sequence: u32,
}

impl Watch {
    /// Watch the namespace of the calling thread.
    ///
    /// # Errors
    /// Why that cannot be, and what does not work then.
    pub(super) fn open() -> Result<Watch, String> {
        let open = || {
            let mut news = Socket::new(NETLINK_ROUTE)?;
            news.bind(&SocketAddr::new(0, GROUPS))?;
            let ask = Socket::new(NETLINK_ROUTE)?;
            sockopt::set_socket_timeout(&ask, Timeout::Recv, Some(PATIENCE))?;
            io::Result::Ok(Watch { news, ask, sequence: 0 })
        };
        open().map_err(|why| {
            format!("addresses that programs give them are not noticed: no netlink socket ({why})")
        })
    }

    /// Readable when there is news.
    pub(super) fn news(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    /// Is there news? It is read.
    pub(super) fn hear(&self) -> bool {
        links::hear(self.news.as_fd())
    }

    /// All interfaces and addresses; `None`: they change just now, and there will be news.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn table(&mut self) -> Result<Option<Table>, String> {
        // The rest of an answer that was given up.
        links::hear(self.ask.as_fd());
        for _ in 0..TRIES {
            let mut table = Table::default();
            let links = self.dump(news::GET_LINK, &mut table);
            let all = links
                .and_then(|is_whole| Ok(self.dump(news::GET_ADDRESS, &mut table)? && is_whole));
            if all.map_err(|why| format!("the kernel does not tell them ({why})"))? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    /// Ask for one table; `false`: it has changed meanwhile.
    fn dump(&mut self, kind: u16, into: &mut Table) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut is_whole = true;
        self.ask.send_to(&news::request(kind, self.sequence), &SocketAddr::new(0, 0), 0)?;
        for _ in 0..DATAGRAMS_MAX {
            let (bytes, from) = self.ask.recv_from_full()?;
            if from.port_number() != 0 {
                // Another process wrote it.
                continue;
            }
            let (all, interrupted) = news::read(&bytes, self.sequence);
            is_whole &= !interrupted;
            for news in all {
                match news {
                    News::Link(link) => drop(into.links.insert(link.index, link)),
                    News::Address(held) => into.held.push(held),
                    News::Done => return Ok(is_whole),
                    News::Refused(errno) => return Err(io::Error::from_raw_os_error(errno)),
                }
            }
        }
        Err(io::Error::other("the answer has no end"))
    }
}

/// The interfaces of a namespace, and their addresses.
#[derive(Debug, Default)]
pub(super) struct Table {
    links: BTreeMap<u32, Link>,
    held: Vec<Held>,
}

impl Table {
    fn link(&self, name: &str) -> Option<&Link> {
        self.links.values().find(|link| link.name == name)
    }

    /// The addresses of a mirror and of interfaces above it.
    pub(super) fn left_at(&self, mirror: &str) -> Left {
        let Some(mirror) = self.link(mirror) else { return Left::new() };
        let is_of = |index| self.link_at(index, mirror.index).is_some();
        let held = self.held.iter().filter(|held| held.index == mirror.index || is_of(held.index));
        held.map(|held| (held.index, held.ip)).collect()
    }

    /// Forget of these what was removed, and what an interface has that went down by itself.
    pub(super) fn forget_of(&self, left: &mut Left, mirror: &str) {
        let Some(mirror) = self.link(mirror) else { return left.clear() };
        left.retain(|(index, ip)| {
            let above = self.link_at(*index, mirror.index);
            let is_down = mirror.is_running && above.is_some_and(|link| !link.is_up);
            !is_down && self.held.iter().any(|held| (held.index, held.ip) == (*index, *ip))
        });
    }

    /// The interface of this number, if it is above that one.
    fn link_at(&self, index: u32, mirror: u32) -> Option<&Link> {
        self.links.get(&index).filter(|link| link.above == Some(mirror))
    }

    /// The addresses of programs at the mirror of a port that is like `port`, without those that
    /// were `left` there; the flag says that there are more than the port takes. One that an
    /// interface above the mirror has counts while that is up.
    pub(super) fn of_programs(&self, port: &State, left: &Left) -> (Vec<OfProgram>, bool) {
        let Some(mirror) = self.link(&port.port) else { return (Vec::new(), false) };
        let is_ours = |ip| port.addresses.iter().any(|(own, _)| *own == ip);
        let mut found = BTreeMap::new();
        for &Held { index, ip, prefix_len } in &self.held {
            if left.contains(&(index, ip)) {
                continue;
            }
            if index == mirror.index && !is_ours(ip) {
                found.entry(ip).or_insert(OfProgram { ip, prefix_len, mac: None });
            }
            let above = self.link_at(index, mirror.index).filter(|link| link.is_up);
            let Some(mac) = above.and_then(|link| link.mac) else { continue };
            // The kernel makes a link-local one of the link address at each router of the group,
            // and keepalived copies the port's.
            if is_link_local(ip) && (is_ours(ip) || ip == IpAddr::V6(eui64(mac))) {
                continue;
            }
            let mac = Some(mac).filter(|mac| *mac != port.mac);
            found.insert(ip, OfProgram { ip, prefix_len, mac });
        }
        let too_many = found.len() > PROGRAMS_MAX;
        (found.into_values().take(PROGRAMS_MAX).collect(), too_many)
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// The link-local address that an interface makes of its link address, RFC 4291 appendix A.
fn eui64([a, b, c, d, e, f]: [u8; 6]) -> Ipv6Addr {
    let id = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Addr::from_bits((0xfe80 << 112) | u128::from(id))
}

#[cfg(test)]
mod tests;
