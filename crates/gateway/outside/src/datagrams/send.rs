//! Sending: the TTL and the type of service that the guest chose, several datagrams in one call.
//!
//! Called by: `host/outside.rs`, `gather.rs`.

use core::net::SocketAddr;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};

use gateway::Outgoing;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::gather::{BYTES_MAX, Gather, SEGMENTS_MAX};
use super::{ECHO_HEADER_BYTES, Socket};
use crate::counts::Counts;
use crate::errors::errno;

/// Types of echo requests: RFC 792, RFC 4443 section 4.1.
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
/// How often a call is repeated that had to report an error about earlier datagrams.
const TRIES: usize = 3;

impl Socket {
    /// Send, or gather.
    pub(crate) fn send(
        &mut self,
        what: &Outgoing<'_>,
        gather: &mut Gather,
        counts: &mut Counts,
    ) -> Result<(), Errno> {
        self.set_ip(what, gather, counts);
        if self.is_echo {
            let kind = if self.is_v6 { ECHO_REQUEST_V6 } else { ECHO_REQUEST };
            // The kernel fills in the checksum and its own identifier.
            let mut header = [0; ECHO_HEADER_BYTES];
            header[0] = kind;
            header[6..].copy_from_slice(&what.seq.to_be_bytes());
            return send_parts(&self.fd, &[&header, what.payload], None, what.to);
        }
        let size = usize::from(what.segment_size);
        if size > 0 && size < what.payload.len() {
            gather.leave(self, counts);
            return send_segments(&self.fd, what.payload, size, what.to, counts);
        }
        let here = Some((what.to, gather.failures));
        if self.last_to == here && !what.payload.is_empty() {
            gather.add(self, what.to, what.payload, counts);
            return Ok(());
        }
        gather.leave(self, counts);
        self.last_to = None;
        send_to(&self.fd, what.payload, what.to)?;
        self.last_to = here;
        Ok(())
    }

    /// Set the TTL and the type of service of what is sent next.
    fn set_ip(&mut self, what: &Outgoing<'_>, gather: &mut Gather, counts: &mut Counts) {
        // A TTL of 0 never comes from a network, and the kernel does not send it.
        let (ttl, tos) = (what.ttl.max(1), what.tos);
        if self.sends_with == Some((ttl, tos)) {
            return;
        }
        gather.leave(self, counts);
        let known = self.sends_with.replace((ttl, tos));
        // Where one of them is not permitted, the datagram leaves without it.
        if known.is_none_or(|(known, _)| known != ttl) {
            let _ = match self.is_v6 {
                true => sockopt::set_ipv6_unicast_hops(&self.fd, Some(ttl)),
                false => sockopt::set_ip_ttl(&self.fd, u32::from(ttl)),
            };
        }
        if known.map_or(0, |(_, known)| known) != tos {
            let _ = match self.is_v6 {
                true => sockopt::set_ipv6_tclass(&self.fd, u32::from(tos)),
                false => sockopt::set_ip_tos(&self.fd, tos),
            };
        }
    }
}

/// Send one datagram.
pub(super) fn send_to(fd: &OwnedFd, payload: &[u8], to: SocketAddr) -> Result<(), Errno> {
    send_parts(fd, &[payload], None, to)
}

/// Send datagrams of `size` bytes; the last one may be shorter.
pub(super) fn send_segments(
    fd: &OwnedFd,
    payload: &[u8],
    size: usize,
    to: SocketAddr,
    counts: &mut Counts,
) -> Result<(), Errno> {
    let at_once = (BYTES_MAX / size).clamp(1, SEGMENTS_MAX) * size;
    for part in payload.chunks(at_once) {
        counts.segmented_sends += 1;
        let sent = match u16::try_from(size) {
            Ok(size) if part.len() > usize::from(size) => send_parts(fd, &[part], Some(size), to),
            _ => Err(Errno::INVAL),
        };
        match sent {
            // Longer than the MTU of the path, or the kernel cannot do it here.
            Err(Errno::INVAL | Errno::MSGSIZE | Errno::IO | Errno::OPNOTSUPP) => {
                part.chunks(size).try_for_each(|one| send_to(fd, one, to))?;
            }
            sent => sent?,
        }
    }
    Ok(())
}

/// One call. A call may fail because of an error about an earlier datagram, perhaps to another
/// peer; that error is in the error queue, and this datagram is none of its business: it is tried
/// again.
fn send_parts(
    fd: &OwnedFd,
    parts: &[&[u8]],
    segment_size: Option<u16>,
    to: SocketAddr,
) -> Result<(), Errno> {
    let to = SockaddrStorage::from(to);
    let empty: &[u8] = &[];
    let slices = [0, 1].map(|n| IoSlice::new(parts.get(n).copied().unwrap_or(empty)));
    let slices = &slices[..parts.len().min(2)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let mut last = Errno::AGAIN;
    for _ in 0..TRIES {
        let sent = match &segment_size {
            Some(size) => {
                let control = [ControlMessage::UdpGsoSegments(size)];
                sendmsg(fd.as_raw_fd(), slices, &control, flags, Some(&to))
            }
            None => sendmsg(fd.as_raw_fd(), slices, &[], flags, Some(&to)),
        };
        match sent.map_err(errno) {
            Ok(_) => return Ok(()),
            Err(error @ (Errno::AGAIN | Errno::NOBUFS | Errno::INVAL | Errno::IO)) => {
                return Err(error);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
