//! Stamping: the segments of a run have the headers of its first but for sequence number and
//! checksum, so those are copied whole and two fields are filled in.
//!
//! Called by: `tx.rs`, behind the first segment of a run. The counterpart of `follow.rs`, which
//! saves the receiver what this saves the sender; switch `stamp` turns it off and a differential
//! test compares. Must not know: what the headers mean beyond where two fields are.

use base::SeqNumber;
use mbuf::{Flags, Mbuf, Pool};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{CHECKSUM_OFFSET, SEQ_OFFSET};

use crate::follow::HEADERS_MAX;

/// All headers of a run's first segment.
pub(crate) struct Stamp {
    /// At the end of the array; sequence number zero, and the checksum too if it is for us to make.
    headers: [u8; HEADERS_MAX],
    len: usize,
    /// The TCP header is the last 32 bytes of it; else the last 20.
    timestamps: bool,
    /// Where the TCP header is, if a device is to finish its checksum.
    for_device: Option<u16>,
    /// Sum of the pseudo-header and of the TCP header without the two fields; `None` if the
    /// checksum field is the same in every segment (a device finishes it, or nobody wants it).
    sum: Option<Sum>,
}

impl Stamp {
    /// The headers of `frame`, whose TCP header begins at `tcp_at` and whose payload is `payload`
    /// bytes; `pseudo` is the pseudo-header's sum without length if there are checksums to make.
    #[inline(always)]
    pub(crate) fn of(
        frame: &Mbuf,
        tcp_at: usize,
        payload: usize,
        pseudo: Option<Sum>,
        ladder: Ladder,
    ) -> Option<Stamp> {
        let bytes = frame.as_slice();
        let len = bytes.len().checked_sub(payload)?;
        let at = HEADERS_MAX.checked_sub(len)?;
        let mut headers = [0; HEADERS_MAX];
        headers.get_mut(at..)?.copy_from_slice(bytes.get(..len)?);
        let tcp = headers.get_mut(at + tcp_at..)?;
        let segment_len = (bytes.len() - tcp_at) as u16;
        tcp.get_mut(SEQ_OFFSET..SEQ_OFFSET + 4)?.fill(0);
        let sum = match pseudo {
            Some(pseudo) => {
                tcp.get_mut(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2)?.fill(0);
                Some(pseudo.plus(Sum::of_be16(segment_len)).plus(ladder.sum(tcp)))
            }
            None => None,
        };
        let for_device = frame.has(Flags::CSUM_PARTIAL).then_some(tcp_at as u16);
        let timestamps = match len - tcp_at {
            32 => true,
            20 => false,
            _ => return None,
        };
        Some(Stamp { headers, len, timestamps, for_device, sum })
    }

    /// The frame of another segment of the run: a handle on its payload with headers in front.
    /// `None` when no buffer is left.
    #[inline(always)]
    pub(crate) fn put(
        &self,
        pool: &mut Pool,
        payload: &mut Mbuf,
        seq: SeqNumber,
        sum: Sum,
    ) -> Option<Mbuf> {
        let seq = seq.0.to_be();
        let field = self.sum.map(|all| {
            let words = u64::from(all.0) + u64::from(seq) + u64::from(sum.0);
            Sum::from_u64s([words]).field()
        });
        let mut m = pool.share_behind(payload, &self.headers, self.len, |headers| {
            if self.timestamps {
                fill::<{ HEADERS_MAX - 32 }>(headers, seq, field);
            } else {
                fill::<{ HEADERS_MAX - 20 }>(headers, seq, field);
            }
        })?;
        if let Some(tcp_at) = self.for_device {
            m.set(Flags::CSUM_PARTIAL);
            m.set_csum(tcp_at);
        }
        Some(m)
    }
}

/// The two fields of a TCP header that begins at `TCP`.
#[inline(always)]
fn fill<const TCP: usize>(headers: &mut [u8; HEADERS_MAX], seq: u32, field: Option<[u8; 2]>) {
    headers[TCP + SEQ_OFFSET..TCP + SEQ_OFFSET + 4].copy_from_slice(&seq.to_ne_bytes());
    if let Some(field) = field {
        let at = TCP + CHECKSUM_OFFSET;
        headers[at..at + 2].copy_from_slice(&field);
    }
}
