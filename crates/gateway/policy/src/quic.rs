//! The TLS client hello in the first packets of QUIC: they are encrypted with keys that everybody
//! can compute who sees them.
//!
//! Called by: `hellos`, for datagrams of guests. RFC 9001 section 5 (protection of packets), RFC
//! 9000 sections 17.2.2 (Initial packets) and 19.6 (CRYPTO frames), RFC 9369 (version 2). The
//! client's packets alone are read. Crate `ring` has the ciphers. Cost: about 10 us a packet.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey, quic};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

/// Bytes of a connection's number (RFC 9000 section 17.2).
const ID_MAX: usize = 20;
/// Bytes that a packet's protection is sampled from (RFC 9001 section 5.4.2), behind four bytes for
/// the packet's number.
const SAMPLE: usize = 16;
const NUMBER_MAX: usize = 4;

/// What differs from version to version.
struct Version {
    number: u32,
    salt: [u8; 20],
    /// The type of Initial packets.
    initial: u8,
    labels: [&'static str; 3],
}

const VERSIONS: [Version; 2] = [
    Version {
        number: 1,
        salt: [
            0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8,
            0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
        ],
        initial: 0,
        labels: ["quic key", "quic iv", "quic hp"],
    },
    Version {
        number: 0x6b33_43cf,
        salt: [
            0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
            0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
        ],
        initial: 1,
        labels: ["quicv2 key", "quicv2 iv", "quicv2 hp"],
    },
];

/// The destination's number of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    len: u8,
    bytes: [u8; ID_MAX],
}

impl ConnectionId {
    fn of(bytes: &[u8]) -> Option<ConnectionId> {
        let mut id = ConnectionId { len: u8::try_from(bytes.len()).ok()?, bytes: [0; ID_MAX] };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }
}

/// An Initial packet that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Initial {
    /// The number with which the client begins the connection.
    pub(crate) id: ConnectionId,
    /// Parts of the handshake with their places in it.
    pub(crate) crypto: Vec<(u64, Vec<u8>)>,
}

/// Begins this datagram with a packet with a long header? The others belong to connections that are
/// open already.
pub(crate) fn is_long(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0xc0 == 0xc0)
}

/// Begins it with a packet of a version that is not known here, and that may begin a connection?
pub(crate) fn is_of_unknown_version(datagram: &[u8]) -> bool {
    let number = datagram.get(1..5).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    is_long(datagram) && !VERSIONS.iter().any(|version| Some(version.number) == number)
}

/// The Initial packets of a datagram that begin a connection: those whose keys are made of the
/// connection's number in them. Later ones, and what is no QUIC, are not among them.
pub(crate) fn initials(datagram: &[u8]) -> Vec<Initial> {
    let (mut found, mut rest) = (Vec::new(), datagram);
    while is_long(rest) {
        let Some((packet, behind)) = split(rest) else { break };
        found.extend(packet.and_then(|packet| packet.open()));
        rest = behind;
    }
    found
}

/// The bytes of an Initial packet.
struct Packet<'a> {
    version: &'static Version,
    id: &'a [u8],
    /// From the beginning to the packet's number.
    header: &'a [u8],
    /// From its number to its end.
    protected: &'a [u8],
}

/// The first packet of a datagram, if it is an Initial one of a known version, and what follows it;
/// `None` if that cannot be told.
fn split(bytes: &[u8]) -> Option<(Option<Packet<'_>>, &[u8])> {
    let mut reader = Reader(bytes);
    let first = reader.take(1)?[0];
    let number = u32::from_be_bytes(reader.take(4)?.try_into().ok()?);
    let version = VERSIONS.iter().find(|version| version.number == number)?;
    let id_len = usize::from(reader.take(1)?[0]);
    let id = reader.take(id_len)?;
    let source_len = usize::from(reader.take(1)?[0]);
    reader.take(source_len)?;
    let is_initial = first >> 4 & 3 == version.initial;
    if is_initial {
        let token_len = reader.length()?;
        reader.take(token_len)?;
    } else if first >> 4 & 3 == (version.initial + 3) & 3 {
        // Retry, of servers alone, has no length.
        return None;
    }
    let length = reader.length()?;
    let header = &bytes[..bytes.len() - reader.0.len()];
    let protected = reader.take(length)?;
    let packet = Packet { version, id, header, protected };
    Some((is_initial.then_some(packet), reader.0))
}

impl Packet<'_> {
    /// Remove the protection; `None` if it was made with other keys.
    fn open(&self) -> Option<Initial> {
        let keys = Keys::of(self.version, self.id)?;
        let sample = self.protected.get(NUMBER_MAX..NUMBER_MAX + SAMPLE)?;
        let mask = keys.header.new_mask(sample).ok()?;
        let mut header = self.header.to_vec();
        header[0] ^= mask[0] & 0x0f;
        let number_len = usize::from(header[0] & 3) + 1;
        let (number, payload) = self.protected.split_at_checked(number_len)?;
        let number: Vec<u8> =
            number.iter().zip(&mask[1..]).map(|(byte, mask)| byte ^ mask).collect();
        header.extend(&number);
        // The first numbers are short and have no higher bytes (RFC 9001 section 5.3).
        let mut nonce = keys.iv;
        let tail = nonce.len() - number.len();
        nonce[tail..].iter_mut().zip(&number).for_each(|(byte, number)| *byte ^= number);
        let mut payload = payload.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = keys.packet.open_in_place(nonce, Aad::from(&header), &mut payload).ok()?;
        Some(Initial { id: ConnectionId::of(self.id)?, crypto: crypto(opened)? })
    }
}

/// The parts of the handshake in these frames; `None` if a frame may not be there.
fn crypto(frames: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
    const PADDING: u64 = 0;
    const PING: u64 = 1;
    const ACK: u64 = 2;
    const ACK_ECN: u64 = 3;
    const CRYPTO: u64 = 6;
    const CLOSE: u64 = 0x1c;
    let (mut parts, mut reader) = (Vec::new(), Reader(frames));
    while !reader.0.is_empty() {
        match reader.number()? {
            PADDING | PING => {}
            kind @ (ACK | ACK_ECN) => {
                // The largest, the delay; the first range, and two numbers for each other one.
                let [_, _, ranges, _] = [(); 4].map(|()| reader.number());
                let counts = if kind == ACK_ECN { 3 } else { 0 };
                for _ in 0..ranges?.checked_mul(2)?.checked_add(counts)? {
                    reader.number()?;
                }
            }
            CRYPTO => {
                let offset = reader.number()?;
                let length = reader.length()?;
                parts.push((offset, reader.take(length)?.to_vec()));
            }
            CLOSE => break,
            _ => return None,
        }
    }
    Some(parts)
}

/// The keys of a client's Initial packets.
struct Keys {
    packet: LessSafeKey,
    iv: [u8; 12],
    header: quic::HeaderProtectionKey,
}

impl Keys {
    fn of(version: &Version, id: &[u8]) -> Option<Keys> {
        let secret = Salt::new(HKDF_SHA256, &version.salt).extract(id);
        let secret = Prk::new_less_safe(HKDF_SHA256, &expand::<32>(&secret, "client in")?);
        let [key, iv, header] = version.labels;
        let key = UnboundKey::new(&AES_128_GCM, &expand::<16>(&secret, key)?).ok()?;
        let header_key = expand::<16>(&secret, header)?;
        Some(Keys {
            packet: LessSafeKey::new(key),
            iv: expand(&secret, iv)?,
            header: quic::HeaderProtectionKey::new(&quic::AES_128, &header_key).ok()?,
        })
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label without context (RFC 8446 section 7.1).
fn expand<const N: usize>(secret: &Prk, label: &str) -> Option<[u8; N]> {
    let label = ["tls13 ", label].concat();
    let info = [&(N as u16).to_be_bytes()[..], &[label.len() as u8], label.as_bytes(), &[0]];
    let mut bytes = [0; N];
    secret.expand(&info, Length(N)).and_then(|made| made.fill(&mut bytes)).ok()?;
    Some(bytes)
}

/// Reads fields of variable length (RFC 9000 section 16).
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let length = 1_usize << (self.0.first()? >> 6);
        let bytes = self.take(length)?;
        let first = u64::from(bytes[0] & 0x3f);
        Some(bytes[1..].iter().fold(first, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| {
            u8::from_str_radix(core::str::from_utf8(pair).expect("text"), 16).expect("digits")
        };
        digits.chunks(2).map(byte).collect()
    }

    /// The number of RFC 9001 appendix A.
    pub(crate) const ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    /// Bytes that authenticate a packet.
    const TAG: usize = 16;

    fn number(value: usize) -> [u8; 2] {
        (0x4000 | value as u16).to_be_bytes()
    }

    /// A client's Initial packet of version 1 with these frames.
    pub(crate) fn seal(id: &[u8], packet_number: u8, frames: &[u8]) -> Vec<u8> {
        let keys = Keys::of(&VERSIONS[0], id).expect("keys");
        let mut frames = frames.to_vec();
        frames.resize(frames.len().max(SAMPLE), 0);
        let mut header = vec![0xc0, 0, 0, 0, 1, id.len() as u8];
        header.extend(id);
        header.extend([0, 0]);
        header.extend(number(1 + frames.len() + TAG));
        let length = header.len();
        header.push(packet_number);
        let mut nonce = keys.iv;
        nonce[11] ^= packet_number;
        let (nonce, aad) = (Nonce::assume_unique_for_key(nonce), Aad::from(header.clone()));
        keys.packet.seal_in_place_append_tag(nonce, aad, &mut frames).expect("room");
        let mut packet = [header, frames].concat();
        let sample = length + NUMBER_MAX;
        let mask = keys.header.new_mask(&packet[sample..sample + SAMPLE]).expect("a sample");
        packet[0] ^= mask[0] & 0x0f;
        packet[length] ^= mask[1];
        packet
    }

    /// A CRYPTO frame.
    pub(crate) fn frame(offset: usize, bytes: &[u8]) -> Vec<u8> {
        [&[6][..], &number(offset), &number(bytes.len()), bytes].concat()
    }

    #[test]
    fn keys_are_those_of_the_rfc() {
        // RFC 9001 appendix A.1.
        let secret = Salt::new(HKDF_SHA256, &VERSIONS[0].salt).extract(&ID);
        let secret = expand::<32>(&secret, "client in").expect("a secret");
        let expected = "c00cf151ca5be075ed0ebfb5c80323c4 2d6b7db67881289af4008f1f6c357aea";
        assert_eq!(secret.to_vec(), hex(expected));
        let secret = Prk::new_less_safe(HKDF_SHA256, &secret);
        for (label, expected) in [
            ("quic key", "1f369613dd76d5467730efcbe3b1a22d"),
            ("quic hp", "9f50449e04a0e810283a1e9933adedd2"),
        ] {
            assert_eq!(expand::<16>(&secret, label).expect("a key").to_vec(), hex(expected));
        }
        let iv = expand::<12>(&secret, "quic iv").expect("an iv");
        assert_eq!(iv.to_vec(), hex("fa044b2f42a3fd3b46fb255c"));
    }

    #[test]
    fn the_packet_of_the_rfc_names_its_server() {
        // RFC 9001 appendix A.2: the header, the CRYPTO frame, the sample and the mask.
        let mut header = hex("c300000001088394c8f03e5157080000449e00000002");
        let mut frames = hex(
            "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c
             00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006
             001d00170018001000070005 04616c706e000500050100000000003300260024001d00209370b2c9caa4
             7fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e040305
             0306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ff
             ff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff",
        );
        frames.resize(1162, 0);
        let keys = Keys::of(&VERSIONS[0], &ID).expect("keys");
        let mut nonce = keys.iv;
        nonce[11] ^= 2;
        let (nonce, aad) = (Nonce::assume_unique_for_key(nonce), Aad::from(header.clone()));
        keys.packet.seal_in_place_append_tag(nonce, aad, &mut frames).expect("room");
        assert_eq!(frames[..SAMPLE], hex("d1b1c98dd7689fb8ec11d242b123dc9b"));
        let mask = keys.header.new_mask(&frames[..SAMPLE]).expect("a sample");
        assert_eq!(mask.to_vec(), hex("437b9aec36"));
        header[0] ^= mask[0] & 0x0f;
        header[18..].iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
        let found = initials(&[header, frames].concat());
        let hello = &found[0].crypto[0].1;
        let name = host::dns::DomainName::parse("example.com").expect("a name");
        assert_eq!(crate::hello::read_message(hello), crate::hello::Seen::Hello(Some(name)));
    }

    #[test]
    fn initial_packets_are_read_wherever_they_are_in_a_datagram() {
        let first = seal(&ID, 0, &frame(0, b"hello"));
        let ack = [2, 5, 0, 1, 0, 0, 3, 1, 0, 3, 1, 0, 0, 1, 7, 8, 9];
        let second = seal(&ID, 1, &[&ack[..], &frame(700, b"more"), &frame(5, b", you")].concat());
        let id = ConnectionId::of(&ID).expect("short");
        // A packet of another type is passed over.
        let zero_rtt = [&[0xd3, 0, 0, 0, 1, 1, 9, 0, 5][..], &[7; 5]].concat();
        let datagram = [first.clone(), zero_rtt, second].concat();
        let expected = [
            Initial { id, crypto: vec![(0, b"hello".to_vec())] },
            Initial { id, crypto: vec![(700, b"more".to_vec()), (5, b", you".to_vec())] },
        ];
        assert_eq!(initials(&datagram), expected);
        // Other keys, other versions, and cut packets are no beginning of a connection.
        let mut forged = first.clone();
        forged[7] ^= 1;
        assert_eq!(initials(&forged), []);
        let mut version = first.clone();
        version[4] = 2;
        assert_eq!(initials(&version), []);
        for length in 0..first.len() {
            assert_eq!(initials(&first[..length]), [], "{length}");
        }
        let unknown = seal(&ID, 2, &[0x30, 1, 2]);
        assert_eq!(initials(&unknown), []);
    }

    #[test]
    fn any_bytes_are_no_packet() {
        let packet = seal(&ID, 0, &frame(0, b"hello"));
        for at in 0..packet.len() {
            for bit in 0..8 {
                let mut bytes = packet.clone();
                bytes[at] ^= 1 << bit;
                // The unused bits of the first byte are authenticated as well.
                assert_eq!(initials(&bytes), [], "{at} {bit}");
            }
        }
    }
}
