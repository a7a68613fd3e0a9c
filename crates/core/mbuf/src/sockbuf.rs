//! The receive buffer of a socket: in-order data that waits for the reader.
//!
//! Called by: TCP, which appends in-order data, and the socket's read calls.

use crate::mbuf::SMALL;
use crate::{Mbuf, MbufQueue, Pool, copy};

/// In-order data, and a limit on its bytes.
pub struct SockBuf {
    queue: MbufQueue,
    limit_bytes: u32,
}

impl SockBuf {
    /// An empty buffer for at most `limit_bytes` bytes.
    pub const fn new(limit_bytes: u32) -> SockBuf {
        SockBuf { queue: MbufQueue::new(), limit_bytes }
    }

    /// Append data; the caller checks that there is room. Small data is copied to the end of the
    /// last mbuf, so that it does not keep a buffer of its own (`sbcompress` of 4.3BSD).
    #[inline(always)]
    pub fn append(&mut self, mbuf: Mbuf, pool: &mut Pool) {
        if mbuf.is_small() && !self.queue.is_empty() {
            self.append_small(mbuf, pool);
        } else {
            self.queue.push_back(mbuf);
        }
    }

    /// [`SockBuf::append`] for frames of equal layout: appends the `len` bytes from offset `from`
    /// of each frame, which must exist.
    #[inline(always)]
    pub fn append_alike(
        &mut self,
        frames: impl ExactSizeIterator<Item = Mbuf>,
        from: usize,
        len: usize,
        pool: &mut Pool,
    ) {
        let data = frames.map(|mut frame| {
            frame.keep(from, len);
            frame
        });
        if len < SMALL {
            data.for_each(|mbuf| self.append(mbuf, pool));
        } else {
            self.queue.extend_alike(data, len);
        }
    }

    #[inline(never)]
    fn append_small(&mut self, mbuf: Mbuf, pool: &mut Pool) {
        let absorbed = self.queue.with_back(|back| back.absorb(&mbuf));
        if absorbed != Some(true) {
            match pool.copy_of(mbuf.as_slice()) {
                Some(copy) => self.queue.push_back(copy),
                None => return self.queue.push_back(mbuf),
            }
        }
        pool.free(mbuf);
    }

    /// Bytes in the buffer.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.queue.bytes()
    }

    /// Is the buffer empty?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that may be added; 0 if the buffer is over its limit.
    #[inline(always)]
    pub fn space(&self) -> usize {
        (self.limit_bytes as usize).saturating_sub(self.queue.bytes())
    }

    /// The limit in bytes.
    #[inline(always)]
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes as usize
    }

    /// Change the limit. Data beyond it stays.
    pub fn set_limit(&mut self, limit_bytes: usize) {
        self.limit_bytes = u32::try_from(limit_bytes).unwrap_or(u32::MAX);
    }

    /// Copy the oldest data to `into` and free the mbufs that are then empty; returns the number of
    /// bytes.
    #[inline]
    pub fn read(&mut self, into: &mut [u8], pool: &mut Pool) -> usize {
        let wanted = into.len();
        let mut rest = into;
        self.queue.use_up(pool, |data| {
            let Some(to) = rest.split_off_mut(..data.len()) else { return false };
            bytepass_copy(data, to);
            true
        });
        let left = rest.len();
        let part = if left > 0 { self.read_part(rest) } else { 0 };
        wanted - left + part
    }

    /// Is all the data in one mbuf, and at most `len` bytes?
    #[inline(always)]
    pub fn is_one(&self, len: usize) -> bool {
        self.queue.count() == 1 && self.queue.bytes() <= len
    }

    /// [`SockBuf::read`] if [`SockBuf::is_one`]; otherwise `None`, and nothing changes.
    #[inline(always)]
    pub fn read_one(&mut self, into: &mut [u8], pool: &mut Pool) -> Option<usize> {
        let m = self.queue.take_only(into.len())?;
        let n = m.len();
        bytepass_copy(m.as_slice(), &mut into[..n]);
        pool.free(m);
        Some(n)
    }

    /// Copy the first part of an mbuf that does not fit whole into `into`.
    #[inline]
    fn read_part(&mut self, into: &mut [u8]) -> usize {
        let copied = self.queue.with_front(|m| {
            bytepass_copy(&m.as_slice()[..into.len()], into);
            m.trim_front(into.len());
        });
        copied.map_or(0, |()| into.len())
    }

    /// Call `look` with all data in order, mbuf by mbuf and without a copy, and free the mbufs;
    /// returns the number of bytes.
    #[inline]
    pub fn use_up(&mut self, pool: &mut Pool, mut look: impl FnMut(&[u8])) -> usize {
        let waiting = self.queue.bytes();
        self.queue.use_up(pool, |data| {
            look(data);
            true
        });
        waiting - self.queue.bytes()
    }

    /// Remove and return the oldest mbuf, without a copy.
    #[inline]
    pub fn take(&mut self) -> Option<Mbuf> {
        self.queue.pop_front()
    }

    /// Put back an mbuf that [`SockBuf::take`] returned.
    pub fn put_back(&mut self, mbuf: Mbuf) {
        self.queue.push_front(mbuf);
    }

    /// Discard everything.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.queue.clear(pool);
    }
}

/// The only copy on the receive path. It is a function of its own, so that instruction counts show
/// it separately.
#[inline(never)]
fn bytepass_copy(from: &[u8], to: &mut [u8]) {
    copy(from, to);
}
