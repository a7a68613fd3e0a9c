//! Lengths that contradict each other, and files that end early.

use super::*;

fn capture(blocks: &[Vec<u8>]) -> Vec<u8> {
    [section(&[]), interface(&[]), blocks.concat()].concat()
}

#[test]
fn a_length_on_the_wire_below_what_was_captured_is_what_was_captured() {
    let (packets, said) = read(&capture(&[packet(1, 1, &[]), packet(2, 0, &[])]));
    assert_eq!(said, None);
    assert_eq!(
        packets.iter().map(|p| (p.wire_len, p.bytes.len())).collect::<Vec<_>>(),
        [(20, 20); 2]
    );
    let (packets, said) = read(&pcap(0xa1b2_c3d4, [2, 4], &[&[1, 0, 20, 1], &[1, 1, 20, 0]]));
    assert_eq!(
        (packets.iter().map(|p| p.wire_len).collect::<Vec<_>>(), said),
        (vec![20, 20], None)
    );
}

#[test]
fn a_packet_that_is_longer_than_its_block_is_what_the_block_has() {
    for captured in [21, 24, u32::MAX] {
        let long = block(6, &[&words(&[0, 0, 1, captured, captured])[..], &[7; 20]].concat());
        let (packets, said) = read(&capture(&[long, packet(2, 20, &[])]));
        assert_eq!(said, None);
        let lens: Vec<_> = packets.iter().map(|p| (p.wire_len, p.bytes.len())).collect();
        assert_eq!(lens, [(captured, 20), (20, 20)]);
    }
}

#[test]
fn a_packet_without_a_length_of_its_own_ends_at_the_snapshot_length() {
    let simple = |wire_len: u32, data: &[u8]| block(3, &[&words(&[wire_len]), data].concat());
    let limited =
        [section(&[]), block(1, &words(&[1, 10])), simple(60, &[7; 12]), simple(4, &[7; 4])];
    let (packets, said) = read(&limited.concat());
    assert_eq!(said, None);
    assert_eq!(
        packets.iter().map(|p| (p.wire_len, p.bytes.len())).collect::<Vec<_>>(),
        [(60, 10), (4, 4)]
    );
}

#[test]
fn of_a_packet_that_is_too_long_the_first_bytes_are_kept() {
    let len = PACKET_BYTES_MAX + 5;
    let head = words(&[0, 0, 1, len, len]);
    let flags = option(2, &2_u32.to_le_bytes());
    let mut body = [&head[..], &vec![7; len as usize]].concat();
    body.resize(body.len().next_multiple_of(4), 0);
    let (packets, said) = read(&capture(&[block(6, &[body, flags].concat()), packet(2, 20, &[])]));
    assert_eq!((packets.len(), said), (2, None));
    assert_eq!((packets[0].bytes.len() as u32, packets[0].wire_len), (PACKET_BYTES_MAX, len));
    assert_eq!(packets[0].direction, Some(Direction::Out));
    let (packets, said) = read(&pcap(0xa1b2_c3d4, [2, 4], &[&[1, 0, len, len]]));
    assert!(packets.is_empty());
    assert_eq!(said.as_deref(), Some("a packet of 262149 bytes"));
}

#[test]
fn of_two_lengths_of_a_block_the_first_counts_while_blocks_follow() {
    let mut wrong = packet(1, 20, &[]);
    let end = wrong.len() - 4;
    wrong[end..].fill(0);
    let (packets, said) = read(&capture(&[wrong.clone(), packet(2, 20, &[]), wrong.clone()]));
    assert_eq!((packets.len(), said), (3, None));
    // The first length reaches into the next block, so that no block begins after it.
    let mut long = packet(1, 20, &[]);
    long[4] += 8;
    let (packets, said) = read(&capture(&[long, packet(2, 20, &[]), packet(3, 20, &[])]));
    assert_eq!(packets.len(), 1);
    assert!(said.is_some_and(|said| said.contains("two lengths differ")));
}

#[test]
fn a_file_gives_what_it_has_wherever_it_ends() {
    let file = capture(&[packet(1, 20, &[]), block(10, &[1; 30]), packet(2, 20, &[])]);
    let head = capture(&[]).len();
    let mut before = 0;
    for len in head..file.len() {
        let (packets, said) = read(&file[..len]);
        assert!(packets.len() >= before, "{len}");
        before = packets.len();
        let torn = Some("the file ends within a packet or a block");
        assert!(said.is_none() || said.as_deref() == torn);
    }
    // The data of the last packet is complete, although its block is not.
    assert_eq!(before, 2);
    let file = pcap(0xa1b2_c3d4, [2, 4], &[&[1, 0, 20, 20], &[1, 0, 20, 20]]);
    for len in 25..file.len() {
        let (packets, said) = read(&file[..len]);
        assert_eq!((packets.len(), said.is_none()), ((len - 24) / 36, len == 60), "{len}");
    }
}

#[test]
fn what_no_reader_can_know_is_said() {
    let said = |blocks: &[Vec<u8>]| read(&capture(blocks)).1.expect("the file ends with an error");
    let other = block(6, &words(&[5, 0, 0, 0, 0]));
    assert!(said(&[other]).contains("interface 5"));
    assert_eq!(said(&[words(&[77, 11])]), "a block of 11 bytes");
    assert_eq!(said(&[block(6, &[1; 12])]), "a block of 24 bytes");
    assert_eq!(said(&[words(&[0x0a0d_0d0a, 28, 0, 0])]), "neither pcap nor pcapng");
    let later = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 2, 0, 0]));
    assert!(said(&[later]).contains("version 2 of pcapng"));
}
