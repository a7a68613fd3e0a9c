//! Datagrams are encrypted and authenticated: the header in clear, and the session that they are
//! for, are covered by the tag.
//!
//! Called by: `session.rs`. A nonce is the sender's session, 16 random bytes, and the number of the
//! datagram, so that two routers with one key never use a nonce twice. A number is used for one
//! datagram; sent again it is the same bytes. draft-irtf-cfrg-xchacha, RFC 8439.

use core::fmt;

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};

use crate::counts::Refused;

/// The version of the protocol.
const VERSION: u8 = 1;
/// Bytes in clear, and of the tag.
const HEADER: usize = 26;
const TAG: usize = 16;
/// Bytes of a datagram that are no body.
pub(crate) const OVERHEAD: usize = HEADER + TAG;
/// The longest datagram of IPv4.
const LONGEST: usize = 65_507;

/// The number of a router's session: random, and another one after each start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionId(pub [u8; 16]);

/// The key of a pair, 32 bytes. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// These bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// Read a key as 64 hexadecimal digits, or as base64 of 44 characters; white space around it
    /// does not count. `None`: it is neither.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Key> {
        let text = text.trim().as_bytes();
        let mut bytes = [0; 32];
        if text.len() == 64 {
            for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
                let digit = |at: usize| (char::from(pair[at])).to_digit(16);
                *byte = (digit(0)? << 4 | digit(1)?) as u8;
            }
            return Some(Key(bytes));
        }
        let digits = text.strip_suffix(b"=").filter(|digits| digits.len() == 43)?;
        let (mut bits, mut count, mut at) = (0_u32, 0, 0);
        for digit in digits {
            bits = bits << 6 | u32::from(base64(*digit)?);
            count += 6;
            if count >= 8 {
                count -= 8;
                *bytes.get_mut(at)? = (bits >> count) as u8;
                at += 1;
            }
        }
        // Bits that are no part of a byte are zero.
        (bits & ((1 << count) - 1) == 0).then_some(Key(bytes))
    }
}

fn base64(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// What a datagram has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hello = 1,
    Names = 2,
    States = 3,
    Missing = 4,
}

/// What a datagram has in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) session: SessionId,
    /// Of states in their order; of other kinds in an order of their own.
    pub(crate) number: u64,
}

impl Header {
    /// Read the header of a datagram.
    pub(crate) fn of(datagram: &[u8]) -> Result<Header, Refused> {
        if !(OVERHEAD..=LONGEST).contains(&datagram.len()) {
            return Err(Refused::Length);
        }
        let Some((&[version, kind], rest)) = datagram.split_first_chunk() else {
            return Err(Refused::Length);
        };
        if version != VERSION {
            return Err(Refused::Version);
        }
        let kinds = [Kind::Hello, Kind::Names, Kind::States, Kind::Missing];
        let kind = kinds.into_iter().find(|known| *known as u8 == kind).ok_or(Refused::Kind)?;
        let (session, rest) = rest.split_first_chunk().ok_or(Refused::Length)?;
        let number = rest.first_chunk().ok_or(Refused::Length)?;
        let number = u64::from_be_bytes(*number);
        Ok(Header { kind, session: SessionId(*session), number })
    }

    fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        (bytes[0], bytes[1]) = (VERSION, self.kind as u8);
        bytes[2..18].copy_from_slice(&self.session.0);
        bytes[18..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// Numbers of states and of other kinds do not meet.
    fn nonce(&self) -> XNonce {
        let mut nonce = [0; 24];
        nonce[..16].copy_from_slice(&self.session.0);
        let others = if self.kind == Kind::States { 0 } else { 1 << 63 };
        nonce[16..].copy_from_slice(&(self.number & !(1 << 63) | others).to_be_bytes());
        nonce.into()
    }
}

/// The cipher with its key.
pub(crate) struct Seal(XChaCha20Poly1305);

impl Seal {
    pub(crate) fn new(Key(key): &Key) -> Seal {
        Seal(XChaCha20Poly1305::new(key.into()))
    }

    /// The datagram with this body for the session `to`, all zeros if it is for any; `None`: the
    /// body is too long for the cipher, which no body here is.
    pub(crate) fn seal(&self, header: &Header, to: SessionId, body: &[u8]) -> Option<Vec<u8>> {
        let mut datagram = Vec::with_capacity(OVERHEAD + body.len());
        datagram.extend(header.bytes());
        datagram.extend(body);
        let covered = [&header.bytes()[..], &to.0].concat();
        let body = datagram.get_mut(HEADER..)?;
        let tag = self.0.encrypt_in_place_detached(&header.nonce(), &covered, body).ok()?;
        datagram.extend(tag);
        Some(datagram)
    }

    /// The body of a datagram for the session `to`.
    pub(crate) fn open(
        &self,
        header: &Header,
        to: SessionId,
        datagram: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        let (_, rest) = datagram.split_at_checked(HEADER).ok_or(Refused::Length)?;
        let (body, tag) = rest.split_last_chunk::<TAG>().ok_or(Refused::Length)?;
        let covered = [&header.bytes()[..], &to.0].concat();
        let mut body = body.to_vec();
        let tag = Tag::from(*tag);
        let opened = self.0.decrypt_in_place_detached(&header.nonce(), &covered, &mut body, &tag);
        opened.map(|()| body).map_err(|_| Refused::Key)
    }
}
