//! Messages over a TCP connection: two bytes of length in front of each (RFC 7766 section 8).
//!
//! Called by: the owner of connections to guests, for questions; `flight.rs` for answers. At most
//! one message is kept.

/// A message is longer than the limit: the connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl core::fmt::Display for TooLong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a DNS message on a connection is longer than a question can be: close it")
    }
}

impl core::error::Error for TooLong {}

/// Cuts the bytes of a connection into messages.
#[derive(Clone, Debug)]
pub struct Framing {
    bytes: Vec<u8>,
    most: usize,
}

impl Framing {
    /// For messages of up to `most` bytes: [`crate::dns::limits::QUESTION_BYTES_MAX`] for
    /// questions.
    pub const fn new(most: usize) -> Framing {
        Framing { bytes: Vec::new(), most }
    }

    /// The next message in `from`, which is shortened by the bytes that are no longer needed;
    /// `None` once it is empty.
    ///
    /// # Errors
    /// A message is longer than the limit.
    pub fn next(&mut self, from: &mut &[u8]) -> Result<Option<Vec<u8>>, TooLong> {
        loop {
            let wanted = match self.bytes.first_chunk::<2>() {
                None => 2,
                Some(&length) => 2 + usize::from(u16::from_be_bytes(length)),
            };
            if wanted > 2 + self.most {
                return Err(TooLong);
            }
            if self.bytes.len() >= 2 && self.bytes.len() == wanted {
                let message = self.bytes.split_off(2);
                self.bytes.clear();
                return Ok(Some(message));
            }
            if from.is_empty() {
                return Ok(None);
            }
            let count = (wanted - self.bytes.len()).min(from.len());
            let (taken, rest) = from.split_at(count);
            self.bytes.extend(taken);
            *from = rest;
        }
    }
}

/// A message with its length in front; nothing if it is longer than 65,535 bytes.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let Ok(length) = u16::try_from(message.len()) else { return Vec::new() };
    [&length.to_be_bytes(), message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_in_any_pieces_gives_the_same_messages() {
        let messages: [&[u8]; 4] = [b"first", b"", b"x", &[7; 1_232]];
        let stream: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
        for piece in [1, 2, 3, 7, 1_000, stream.len()] {
            let (mut framing, mut got) = (Framing::new(1_232), Vec::new());
            for mut bytes in stream.chunks(piece) {
                while let Some(message) = framing.next(&mut bytes).expect("short ones") {
                    got.push(message);
                }
            }
            assert_eq!(got, messages, "in pieces of {piece}");
        }
        let mut long = &framed(&[7; 1_233])[..];
        assert_eq!(Framing::new(1_232).next(&mut long), Err(TooLong));
        assert!(framed(&[0; 65_536]).is_empty());
    }
}
