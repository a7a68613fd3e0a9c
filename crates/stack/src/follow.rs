//! Following: a data segment whose headers are those of the one before it in the burst, but for
//! sequence number and checksum, needs none of them parsed again.
//!
//! Called by: `rx.rs`, inside one burst, after a leader was predicted. Bulk data comes this way:
//! one segment of a burst pays for the headers, the others for a comparison. It may only refuse,
//! or do exactly what prediction would do; switch `follow` turns it off and a differential test
//! compares. Must not know: what the headers mean beyond where two fields are.

use mbuf::Mbuf;
use wire::checksum::Sum;
use wire::tcp::{CHECKSUM_OFFSET, HEADER_LEN};

use crate::TcpHandle;

/// Ethernet, IPv6 and a TCP header with timestamps.
const HEADERS_MAX: usize = 14 + 40 + 32;

/// Headers of the last data segment of a burst that was predicted.
pub(crate) struct Leader {
    /// Whose segment it was; `None` for no leader.
    pub(crate) handle: Option<TcpHandle>,
    /// Bytes of payload; its followers have as many.
    pub(crate) len: u32,
    /// Sum of the pseudo-header, length included.
    pub(crate) pseudo: Sum,
    /// Where the TCP header begins, and where it ends.
    pub(crate) tcp_at: usize,
    pub(crate) payload_at: usize,
    headers: [u8; HEADERS_MAX],
}

impl Leader {
    pub(crate) fn none() -> Leader {
        Leader {
            handle: None,
            len: 0,
            pseudo: Sum::ZERO,
            tcp_at: 0,
            payload_at: 0,
            headers: [0; HEADERS_MAX],
        }
    }

    /// A data segment was predicted: those behind it may follow. `frame` is the whole frame.
    #[inline(always)]
    pub(crate) fn lead(
        &mut self,
        handle: TcpHandle,
        frame: &[u8],
        tcp_at: usize,
        payload_at: usize,
        len: u32,
        pseudo: Sum,
    ) {
        let Some(headers) = frame.get(..payload_at) else { return };
        let Some(copy) = self.headers.get_mut(..payload_at) else { return };
        copy.copy_from_slice(headers);
        self.handle = Some(handle);
        self.len = len;
        self.pseudo = pseudo;
        self.tcp_at = tcp_at;
        self.payload_at = payload_at;
    }

    /// Are this frame's headers the leader's but for sequence number and checksum? Then here is
    /// its raw sequence number.
    #[inline(always)]
    pub(crate) fn is_followed_by(&self, m: &Mbuf) -> Option<u32> {
        self.handle?;
        match (self.tcp_at, self.payload_at) {
            (34, 66) => self.same::<34, 66>(m),
            (54, 86) => self.same::<54, 86>(m),
            (20, 52) => self.same::<20, 52>(m),
            (40, 72) => self.same::<40, 72>(m),
            (34, 54) => self.same::<34, 54>(m),
            (54, 74) => self.same::<54, 74>(m),
            (20, 40) => self.same::<20, 40>(m),
            (40, 60) => self.same::<40, 60>(m),
            _ => None,
        }
    }

    #[inline(always)]
    fn same<const TCP_AT: usize, const PAYLOAD_AT: usize>(&self, m: &Mbuf) -> Option<u32> {
        let frame = m.as_slice();
        if frame.len() < PAYLOAD_AT + self.len as usize {
            return None;
        }
        let new = frame.first_chunk::<PAYLOAD_AT>()?;
        let old = self.headers.first_chunk::<PAYLOAD_AT>()?;
        const SEQ: usize = 4;
        let checksum = TCP_AT + CHECKSUM_OFFSET;
        // One word after the other, all differences gathered: a call to compare slices costs more
        // than the comparison. The ranges are constants, so nothing of this is a loop in the end.
        let mut different = 0;
        for (from, to) in
            [(0, TCP_AT + SEQ), (TCP_AT + SEQ + 4, checksum), (checksum + 2, PAYLOAD_AT)]
        {
            let mut at = from;
            while at + 8 <= to {
                different |= word(new, at) ^ word(old, at);
                at += 8;
            }
            if to - from >= 8 {
                // The last word reaches back over what was compared already.
                different |= word(new, to - 8) ^ word(old, to - 8);
            } else if new[from..to] != old[from..to] {
                return None;
            }
        }
        const { assert!(PAYLOAD_AT >= TCP_AT + HEADER_LEN) }
        let seq = new.get(TCP_AT + SEQ..)?.first_chunk::<4>()?;
        (different == 0).then(|| u32::from_be_bytes(*seq))
    }
}

/// Eight bytes at `at`.
#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
}
