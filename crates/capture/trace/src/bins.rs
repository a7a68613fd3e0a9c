//! Bytes over time in a bounded number of equal intervals. When there are too many intervals, each
//! pair of neighbours becomes one, and intervals are twice as long from then on.
//!
//! Called by: `side`, for the throughput of a direction.

/// The initial length of an interval.
const WIDTH_NS: u64 = 1_000_000;

/// Bytes by interval, from the first interval that had any.
#[derive(Clone, Debug)]
pub struct Bins {
    /// When the first interval begins, in ns since 1970; `None` if nothing was counted.
    start_ns: Option<u64>,
    width_ns: u64,
    bytes: Vec<u64>,
}

impl Default for Bins {
    fn default() -> Bins {
        Bins { start_ns: None, width_ns: WIDTH_NS, bytes: Vec::new() }
    }
}

impl Bins {
    /// Count `bytes` at `time_ns`, and keep at most `most` intervals. Bytes from before the first
    /// interval are counted in it, because the packets of a capture may be slightly out of order.
    pub(crate) fn add(&mut self, time_ns: u64, bytes: u64, most: usize) {
        let start_ns = *self.start_ns.get_or_insert(time_ns);
        let since_ns = time_ns.saturating_sub(start_ns);
        while since_ns / self.width_ns >= most.max(2) as u64 {
            self.halve();
        }
        let index = (since_ns / self.width_ns) as usize;
        if index >= self.bytes.len() {
            self.bytes.resize(index + 1, 0);
        }
        if let Some(bin) = self.bytes.get_mut(index) {
            *bin += bytes;
        }
    }

    /// Make the intervals longer until there are at most `most` of them.
    pub(crate) fn fit(&mut self, most: usize) {
        while self.bytes.len() > most.max(2) {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
    }

    /// When the first interval begins, in ns since 1970; `None` if nothing was counted.
    pub fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }

    /// The length of an interval in ns.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The bytes of each interval.
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_is_lost_however_long_it_takes() {
        let mut bins = Bins::default();
        for n in 0..10_000_u64 {
            bins.add(7_000_000_000 + n * 3_000_000, n, 64);
        }
        assert!(bins.bytes().len() <= 64 && bins.bytes().len() > 30, "{}", bins.bytes().len());
        assert_eq!(bins.bytes().iter().sum::<u64>(), (0..10_000).sum());
        assert_eq!((bins.start_ns(), bins.width_ns()), (Some(7_000_000_000), 512_000_000));
        // 512 ms hold 170 or 171 steps of 3 ms. The steps are numbered from 0.
        assert_eq!(bins.bytes()[0], (0..171).sum());
        bins.fit(10);
        assert!(bins.bytes().len() <= 10);
        assert_eq!(bins.bytes().iter().sum::<u64>(), (0..10_000).sum());
    }

    #[test]
    fn a_time_at_the_end_of_the_world_is_counted() {
        let mut bins = Bins::default();
        bins.add(0, 1, 256);
        bins.add(u64::MAX, 2, 256);
        bins.add(5, 4, 256);
        assert_eq!(bins.bytes().iter().sum::<u64>(), 7);
        assert!(bins.bytes().len() <= 256);
    }
}
