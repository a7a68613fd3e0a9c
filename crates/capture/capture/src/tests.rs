//! Files made byte by byte: as in the drafts, as old and careless programs write them, and damaged.

use super::*;

mod clocks;
mod damage;
mod described;

/// Words as bytes in little-endian order.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A block with this body, padded to whole words.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = body.len() as u32 + 12;
    [words(&[kind, len]), body, words(&[len])].concat()
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [code.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn section(options: &[u8]) -> Vec<u8> {
    block(0x0a0d_0d0a, &[&words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]), options].concat())
}

/// The description of an Ethernet interface with these options.
fn interface(options: &[u8]) -> Vec<u8> {
    block(1, &[&words(&[1, 0]), options].concat())
}

/// An Enhanced Packet Block of interface 0, with a time in the clock's units, 20 bytes of data and
/// these options.
fn packet(units: u64, wire_len: u32, options: &[u8]) -> Vec<u8> {
    let head = words(&[0, (units >> 32) as u32, units as u32, 20, wire_len]);
    block(6, &[&head, &[7; 20][..], options].concat())
}

fn open(file: &[u8]) -> Reader<&[u8]> {
    Reader::new(file).expect("a capture")
}

/// The packets of a file, and the error that follows them, if there is one.
fn read(file: &[u8]) -> (Vec<Packet>, Option<String>) {
    let mut reader = open(file);
    let mut packets = Vec::new();
    loop {
        match reader.packet() {
            Ok(Some(packet)) => packets.push(packet),
            Ok(None) => return (packets, None),
            Err(error) => return (packets, Some(error.to_string())),
        }
    }
}

/// A pcap file: a file header with this magic number and version, then packets, each with one of
/// these headers and 20 bytes.
fn pcap(magic: u32, version: [u16; 2], headers: &[&[u32]]) -> Vec<u8> {
    let mut bytes = words(&[magic]);
    bytes.extend(version.iter().flat_map(|half| half.to_le_bytes()));
    bytes.extend(words(&[0, 0, 65_535, 1]));
    for header in headers {
        bytes.extend(words(header));
        bytes.extend([7; 20]);
    }
    bytes
}

#[test]
fn a_file_that_is_no_capture_is_none() {
    for bytes in [&[][..], &[1], &[0; 24], b"GIF89a and more of it, as pictures have"] {
        let error = Reader::new(bytes).expect_err("bytes that are no capture were accepted");
        assert!(matches!(error, Error::NotOne | Error::CutOff), "{bytes:?}: {error}");
    }
}

#[test]
fn headers_of_old_programs_are_read() {
    const LONGER: u32 = 0xa1b2_cd34;
    let lens = |file: &[u8]| {
        let (packets, said) = read(file);
        assert_eq!(said, None);
        let of = |p: &Packet| (p.bytes.len(), p.wire_len, p.bytes.iter().all(|byte| *byte == 7));
        packets.iter().map(of).collect::<Vec<_>>()
    };
    let usual: &[u32] = &[1, 5, 20, 60];
    let turned: &[u32] = &[1, 5, 60, 20];
    assert_eq!(lens(&pcap(LONGER, [2, 4], &[&[1, 5, 20, 60, 3, 8]])), [(20, 60, true)]);
    let micro = 0xa1b2_c3d4;
    assert_eq!(lens(&pcap(micro, [2, 4], &[usual])), [(20, 60, true)]);
    assert_eq!(lens(&pcap(micro, [2, 2], &[turned])), [(20, 60, true)]);
    assert_eq!(lens(&pcap(micro, [543, 0], &[turned])), [(20, 60, true)]);
    // Version 2.3 has the two lengths in either order; the smaller one is the captured length.
    assert_eq!(lens(&pcap(micro, [2, 3], &[usual, turned])), [(20, 60, true); 2]);
    let other = Reader::new(&pcap(micro, [3, 0], &[])[..])
        .expect_err("a version that does not exist was accepted");
    assert!(other.to_string().contains("version 3 of pcap"), "{other}");
}

#[test]
fn link_types_and_byte_orders_are_those_of_the_interfaces() {
    let file = pcap(0xa1b2_c3d4, [2, 4], &[]);
    let is_big = cfg!(target_endian = "big");
    assert_eq!(open(&file).interfaces()[0].is_swapped, is_big);
    let mut other: Vec<u8> = Vec::new();
    for chunk in [&file[..4], &file[4..6], &file[6..8], &file[8..12], &file[12..16]] {
        other.extend(chunk.iter().rev());
    }
    other.extend([0, 0, 1, 0, 0xf0, 0, 0, 113]);
    let reader = open(&other);
    // The upper bits are the length of a frame check sequence.
    assert_eq!((reader.interfaces()[0].link, reader.interfaces()[0].snaplen), (113, 256));
    assert_eq!(reader.interfaces()[0].is_swapped, !is_big);
}
