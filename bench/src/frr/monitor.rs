//! Watches a kernel's routes by rtnetlink. Called by `routes.rs`.
//!
//! The socket has room for all messages and is read every few milliseconds, so that nobody is woken
//! by a message: the kernel, which is measured, only puts a copy's reference into the queue.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with, sockopt,
};

use crate::build;

/// Room for 100,000 messages, each of which counts as about a kilobyte.
const ROOM: usize = 512 << 20;
/// The multicast group of IPv4 routes (RTMGRP_IPV4_ROUTE).
const IPV4_ROUTES: u32 = 0x40;
/// The number of BGP among the kernel's routing protocols.
const BGP: u8 = 186;
const HEADER: usize = 16;
const RTMSG: usize = 12;
const INET: u8 = 2;
const RTA_DST: u16 = 1;
/// The time between two looks: the resolution of what is measured.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// What happens to routes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Added = 24,
    Removed = 25,
}

/// A socket in the calling thread's namespace that hears of routes.
pub(super) struct Monitor(OwnedFd);

impl Monitor {
    /// Begins to listen.
    ///
    /// # Errors
    /// Without root.
    pub(super) fn new() -> Result<Monitor> {
        // Without a protocol it is NETLINK_ROUTE.
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, kind, flags, None).context("a netlink socket")?;
        sockopt::set_socket_recv_buffer_size_force(&socket, ROOM).context("needs root")?;
        bind(&socket, &SocketAddrNetlink::new(0, IPV4_ROUTES)).context("hearing of routes")?;
        Ok(Monitor(socket))
    }

    /// Waits until `event` has come for so many prefixes of BGP; returns the seconds from the first
    /// to the last.
    ///
    /// # Errors
    /// They do not come, or messages were lost.
    pub(super) fn watch(&self, event: Event, count: usize, limit: Duration) -> Result<f64> {
        let (begun, mut first) = (Instant::now(), None);
        let (mut seen, mut buffer) = (HashSet::with_capacity(count), vec![0; 64 << 10]);
        loop {
            match recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    let prefixes = prefixes(&buffer[..length], event as u16);
                    seen.extend(prefixes);
                    if first.is_none() && !seen.is_empty() {
                        first = Some(Instant::now());
                    }
                    continue;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOBUFS) => bail!("the kernel's messages were lost"),
                Err(why) => return Err(why).context("reading the kernel's messages"),
            }
            if let Some(first) = first.filter(|_| seen.len() >= count) {
                return Ok(first.elapsed().as_secs_f64());
            }
            ensure!(!build::interrupted(), "interrupted");
            ensure!(begun.elapsed() < limit, "only {} of {count} routes came", seen.len());
            std::thread::sleep(LOOK);
        }
    }
}

/// The destinations, with their lengths, of the messages of this type about IPv4 routes of BGP.
fn prefixes(mut bytes: &[u8], kind: u16) -> Vec<([u8; 4], u8)> {
    let mut found = Vec::new();
    while let Some((header, _)) = bytes.split_first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(message) = bytes.get(HEADER..length) else { break };
        if u16::from_ne_bytes([header[4], header[5]]) == kind {
            found.extend(prefix(message));
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn prefix(message: &[u8]) -> Option<([u8; 4], u8)> {
    let (header, mut attributes) = message.split_first_chunk::<RTMSG>()?;
    if header[0] != INET || header[5] != BGP {
        return None;
    }
    while let Some((&[low, high, kind_low, kind_high], _)) = attributes.split_first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        if u16::from_ne_bytes([kind_low, kind_high]) == RTA_DST {
            return Some((*attributes.get(4..)?.first_chunk()?, header[1]));
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, protocol: u8) -> Vec<u8> {
        let mut bytes = 36_u32.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend([INET, 24, 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0]);
        bytes.extend([8, 0, 1, 0, 11, 2, 3, 0]);
        bytes
    }

    #[test]
    fn prefixes_of_bgp_are_found_among_others() {
        let all = [message(24, BGP), message(25, BGP), message(24, 4)].concat();
        assert_eq!(prefixes(&all, 24), [([11, 2, 3, 0], 24)]);
        assert_eq!(prefixes(&all[..50], 24).len(), 1);
        assert!(prefixes(&all[..20], 24).is_empty());
    }
}
