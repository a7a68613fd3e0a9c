//! Captures in files: any bytes are read to an end, in bounded memory, and the same however few of
//! them come at a time.
//!
//! Called by: the target `capture_file`.

use std::io::{BufReader, Read};

use capture::{INTERFACES_MAX, NAME_BYTES_MAX, PACKET_BYTES_MAX, Packet, Reader};

/// A pipe that brings a few bytes at a time.
struct Pipe<'a>(&'a [u8]);

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = into.len().min(3);
        self.0.read(&mut into[..len])
    }
}

/// Any bytes as a file; a head in front of half of them, so that more of them are captures.
pub fn any_file(data: &[u8]) {
    let Some((&head, data)) = data.split_first() else { return };
    let mut file = match head % 4 {
        0 => head_of_pcap(),
        1 => head_of_pcapng(),
        _ => Vec::new(),
    };
    file.extend(data);
    let whole = read(Reader::new(&file[..]), file.len());
    let in_parts = read(Reader::new(BufReader::with_capacity(7, Pipe(&file))), file.len());
    assert_eq!(whole, in_parts);
}

type Outcome = (Vec<Packet>, Option<String>);

fn read<R: std::io::BufRead>(
    opened: Result<Reader<R>, capture::Error>,
    file_bytes: usize,
) -> Outcome {
    let mut packets = Vec::new();
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error.to_string())),
    };
    let said = loop {
        match reader.packet() {
            Ok(Some(packet)) => packets.push(packet),
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
        assert!(packets.len() <= file_bytes, "a packet takes bytes of the file");
    };
    let interfaces = reader.interfaces();
    assert!(interfaces.len() <= INTERFACES_MAX);
    for name in interfaces.iter().filter_map(|interface| interface.name.as_ref()) {
        // A byte that is no UTF-8 becomes a character of three.
        assert!(name.len() <= 3 * NAME_BYTES_MAX);
    }
    for packet in &packets {
        assert!(packet.interface < interfaces.len());
        assert!(packet.bytes.len() <= PACKET_BYTES_MAX as usize);
        assert!(packet.bytes.len() <= packet.wire_len as usize);
    }
    (packets, said)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn head_of_pcap() -> Vec<u8> {
    words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1])
}

fn head_of_pcapng() -> Vec<u8> {
    let section = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    [section, words(&[1, 20, 1, 0, 20])].concat()
}

/// The content behind each head: a packet in pcap; in pcapng one with flags, a block of another
/// type, a simple packet.
pub fn seeds() -> [Vec<u8>; 2] {
    let pcap = [vec![0], words(&[1, 5, 20, 60]), vec![0x45; 20]].concat();
    let enhanced = [words(&[6, 64, 0, 1, 2, 20, 60]), vec![0x45; 20]].concat();
    let flags = words(&[0x0004_0002, 1, 0, 64]);
    let others = words(&[10, 16, 7, 16, 3, 20, 4, 0x45, 20]);
    [pcap, [vec![1], enhanced, flags, others].concat()]
}
