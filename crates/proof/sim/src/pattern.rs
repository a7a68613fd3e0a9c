//! The bytes that applications send: both ends can compute the byte at any position of a stream, so
//! nothing has to be kept for the comparison.
//!
//! Called by: `app`.

use device::fault::Rng;

/// The period in bytes. It is a prime, so that data which is shifted by whole segments or powers of
/// two does not match by chance.
const PERIOD: usize = 65_521;

/// Bytes that repeat after [`PERIOD`]. Each stream begins at another place in them.
pub(crate) struct Pattern {
    /// The bytes of two periods, so that any piece of up to a period is contiguous.
    bytes: Vec<u8>,
}

impl Pattern {
    pub(crate) fn new(seed: u64) -> Pattern {
        let mut rng = Rng::new(seed);
        let mut bytes: Vec<u8> = (0..PERIOD).map(|_| rng.next_u64() as u8).collect();
        bytes.extend_from_within(..);
        Pattern { bytes }
    }

    /// The bytes of a stream at `position`: at most `most`, at least one if `most` is not 0.
    pub(crate) fn at(&self, stream: u64, position: u64, most: usize) -> &[u8] {
        let period = PERIOD as u64;
        let from = (stream.wrapping_mul(7_919) % period + position % period) % period;
        let from = from as usize;
        &self.bytes[from..from + most.min(PERIOD)]
    }

    /// Are these the stream's bytes at `position`? The error is the number of bytes that are right
    /// before the first wrong one.
    pub(crate) fn check(&self, stream: u64, position: u64, bytes: &[u8]) -> Result<(), usize> {
        let mut done = 0;
        while done < bytes.len() {
            let expected = self.at(stream, position + done as u64, bytes.len() - done);
            let got = &bytes[done..done + expected.len()];
            if got != expected {
                let right = got.iter().zip(expected).take_while(|(a, b)| a == b).count();
                return Err(done + right);
            }
            done += expected.len();
        }
        Ok(())
    }
}
