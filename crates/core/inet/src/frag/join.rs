//! Joins the fragments of a complete datagram: the headers of the first one, and the data of all.
//!
//! Called by: `stack/frag.rs`, whose receive path then processes the packet as if it had arrived
//! unfragmented.

use base::DropReason;
use mbuf::{Flags, Mbuf, Pool};
use wire::checksum::{Ladder, Sum, sum_short};
use wire::{ipv4, ipv6, protocol};

use super::Fragments;
use super::datagram::Datagram;

/// A datagram that was joined from its fragments.
#[derive(Debug)]
pub struct Joined {
    /// The packet, from its IP header on.
    pub packet: Mbuf,
    /// Where the joined data begins in the packet.
    pub data_at: u32,
    /// The sum of that data.
    pub data_sum: Sum,
}

impl Fragments {
    /// Returns the whole packet: its IP header, without fragment header, and the data, which is
    /// copied and summed in one pass. It is in the buffer of the first fragment if the data of the
    /// others fits there. No checksum flags are set; it counts as sent to a broadcast or multicast
    /// MAC address if one of its fragments was.
    ///
    /// # Errors
    /// [`DropReason::MbufExhausted`]; [`DropReason::FragmentTooBig`] if the headers of the first
    /// fragment make the packet longer than its length field can express.
    ///
    /// RFC 8200 4.5-b.
    #[inline]
    pub fn join(
        &mut self,
        mut datagram: Datagram,
        pool: &mut Pool,
        ladder: Ladder,
    ) -> Result<Joined, DropReason> {
        let joined = match datagram.appended(ladder) {
            Some(joined) => Ok(joined),
            None => datagram.copied(pool, ladder),
        };
        while let Some(piece) = datagram.pieces.pop() {
            pool.free(piece.m);
        }
        self.keep_list(datagram.pieces);
        joined
    }
}

impl Datagram {
    /// Append the data of the other fragments to the first one, which leaves the list. `None`, and
    /// nothing has changed, if its buffer has no room for them.
    fn appended(&mut self, ladder: Ladder) -> Option<Joined> {
        let data_len = self.data_len();
        let (first, others) = self.pieces.split_first_mut()?;
        let headers_len = first.data_at as usize;
        let own = first.data().len();
        let is_v6 = first.m.as_slice().first()? >> 4 == 6;
        let is_usual = !is_v6 && headers_len == ipv4::HEADER_LEN;
        let length = u16::try_from(headers_len + data_len).ok()?;
        if !is_usual || data_len - own > first.m.tailroom() {
            return None;
        }
        let mut sum = ladder.sum(first.data());
        for piece in others {
            let data = piece.data();
            // There is room, and all but the last fragment have a multiple of eight bytes.
            sum = sum.plus(first.m.put(data.len(), |to| ladder.copy_sum(data, to))?);
        }
        let (is_ce, to_group) = (self.is_ce(), self.came_to_group());
        let mut m = self.pieces.swap_remove(0).m;
        repair_v4(m.headers_mut(headers_len)?, length, is_ce);
        // Flags that the device or the sender set for the first fragment do not hold for the
        // datagram.
        m.clear(!Flags::LINK_GROUP & !Flags::PUSH);
        m.set(if to_group { Flags::LINK_GROUP } else { 0 });
        m.set_segment_size(0);
        Some(Joined { packet: m, data_at: headers_len as u32, data_sum: sum })
    }

    /// Was one of the fragments sent to a broadcast or multicast MAC address?
    fn came_to_group(&self) -> bool {
        self.pieces.iter().any(|piece| piece.m.has(Flags::LINK_GROUP))
    }

    fn copied(&self, pool: &mut Pool, ladder: Ladder) -> Result<Joined, DropReason> {
        let first = self.pieces.first().ok_or(DropReason::FragmentMalformed)?;
        let headers = first.m.as_slice().get(..first.data_at as usize).unwrap_or_default();
        let is_v6 = headers.first().is_some_and(|b| b >> 4 == 6);
        let (kept, counted) = match is_v6 {
            true => {
                let kept = headers.len().saturating_sub(ipv6::Fragment::LEN);
                (kept, kept.saturating_sub(ipv6::HEADER_LEN))
            }
            false => (headers.len(), headers.len()),
        };
        let length = counted + self.data_len();
        let length = u16::try_from(length).map_err(|_| DropReason::FragmentTooBig)?;
        let mut m = pool.alloc(kept + self.data_len()).ok_or(DropReason::MbufExhausted)?;
        // The headers go into the headroom, if they fit: data that begins on a cache line is copied
        // faster.
        let is_in_front = kept <= m.headroom();
        if !is_in_front {
            m.append(&headers[..kept]);
        }
        let mut sum = Sum::ZERO;
        for piece in &self.pieces {
            let data = piece.data();
            let part = m.put(data.len(), |to| ladder.copy_sum(data, to));
            // All but the last fragment have a multiple of eight bytes.
            sum = sum.plus(part.ok_or(DropReason::MbufExhausted)?);
        }
        if is_in_front {
            let front = m.prepend(kept).ok_or(DropReason::MbufExhausted)?;
            front.copy_from_slice(&headers[..kept]);
        }
        if let Some(header) = m.headers_mut(kept) {
            match is_v6 {
                true => repair_v6(header, &headers[kept..], length, self.is_ce()),
                false => repair_v4(header, length, self.is_ce()),
            }
        }
        m.set_in_port(first.m.in_port());
        if self.came_to_group() {
            m.set(Flags::LINK_GROUP);
        }
        Ok(Joined { packet: m, data_at: kept as u32, data_sum: sum })
    }
}

/// Turn the header of the first fragment into that of a datagram of `length` bytes.
fn repair_v4(header: &mut [u8], length: u16, is_ce: bool) {
    let Some((b, options)) = header.split_first_chunk_mut::<{ ipv4::HEADER_LEN }>() else { return };
    b[1] |= if is_ce { 3 } else { 0 };
    b[2..4].copy_from_slice(&length.to_be_bytes());
    b[6..8].fill(0);
    b[10..12].fill(0);
    let options = if options.is_empty() { Sum::ZERO } else { sum_short(options) };
    let field = ipv4::header_sum(b).plus(options).field();
    b[10..12].copy_from_slice(&field);
}

/// Turn the headers of the first fragment into those of a datagram of `length` bytes. The field
/// that named the fragment header then names the header that follows it.
fn repair_v6(headers: &mut [u8], fragment: &[u8], length: u16, is_ce: bool) {
    let next = fragment.first().copied().unwrap_or(protocol::NO_NEXT);
    let Some((b, extensions)) = headers.split_first_chunk_mut::<{ ipv6::HEADER_LEN }>() else {
        return;
    };
    b[1] |= if is_ce { 0x30 } else { 0 };
    b[4..6].copy_from_slice(&length.to_be_bytes());
    // Find the last header before the fragment header; the lengths were checked.
    let (mut at, mut last) = (0, None);
    while let Some(&[_, units]) = extensions.get(at..at + 2) {
        last = Some(at);
        at += (usize::from(units) + 1) * 8;
    }
    match last.and_then(|at| extensions.get_mut(at)) {
        Some(names_next) => *names_next = next,
        None => b[6] = next,
    }
}
