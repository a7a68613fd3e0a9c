//! SipHash-1-3 over 64-bit words with a secret key: for tables whose keys a remote host can choose,
//! for initial sequence numbers (RFC 6528) and for ports (RFC 6056).
//!
//! Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012. This is an
//! implementation of our own, of thirty lines, because one with the general `Hasher` interface
//! takes a third more time on the fixed-size keys of the demux table. The tests compare it with the
//! `siphasher` crate.

/// A keyed pseudo-random function of a few 64-bit words.
#[derive(Clone, Copy, Debug)]
pub struct KeyedHash {
    k0: u64,
    k1: u64,
}

impl KeyedHash {
    /// Make the function with this 128-bit secret key.
    pub const fn new(k0: u64, k1: u64) -> KeyedHash {
        KeyedHash { k0, k1 }
    }

    /// SipHash-1-3 of the words as little-endian bytes.
    #[inline]
    pub fn hash<const N: usize>(&self, words: [u64; N]) -> u64 {
        self.siphash::<N, 1, 3>(words)
    }

    /// SipHash-2-4 of the words as little-endian bytes, for values that other hosts compute too: a
    /// TCP Fast Open cookie must be the same on every host behind one name.
    pub fn hash_2_4<const N: usize>(&self, words: [u64; N]) -> u64 {
        self.siphash::<N, 2, 4>(words)
    }

    #[inline(always)]
    fn siphash<const N: usize, const C: usize, const D: usize>(&self, words: [u64; N]) -> u64 {
        let mut v = [
            self.k0 ^ 0x736f_6d65_7073_6575,
            self.k1 ^ 0x646f_7261_6e64_6f6d,
            self.k0 ^ 0x6c79_6765_6e65_7261,
            self.k1 ^ 0x7465_6462_7974_6573,
        ];
        for word in words {
            v[3] ^= word;
            (0..C).for_each(|_| round(&mut v));
            v[0] ^= word;
        }
        let length = ((N * 8) as u64) << 56;
        v[3] ^= length;
        (0..C).for_each(|_| round(&mut v));
        v[0] ^= length;
        v[2] ^= 0xff;
        (0..D).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}
