//! Blocks that have only descriptions do not hide packets.

use super::*;

/// Read a file that has two packets, and other blocks between, before or in them; both packets must
/// be read.
fn both(name: &str, file: &[Vec<u8>]) -> Vec<Packet> {
    let (packets, said) = read(&file.concat());
    assert_eq!((packets.len(), said), (2, None), "{name}");
    packets
}

fn one() -> Vec<u8> {
    packet(1, 20, &[])
}

#[test]
fn comments_and_names_of_any_bytes_are_passed_over() {
    let latin = option(1, b"caf\xe9");
    both("a section", &[section(&latin), interface(&[]), one(), one()]);
    both("a packet", &[section(&[]), interface(&[]), packet(1, 20, &latin), one()]);
    both("an empty filter", &[section(&[]), interface(&option(11, &[])), one(), one()]);
    let host = [&words(&[0x0009_0001])[..], &[192, 0, 2, 1], b"h\xffst\0\0\0\0", &[0; 4]].concat();
    both("a host", &[section(&[]), interface(&[]), block(4, &host), one(), one()]);
    let file = [section(&[]), interface(&option(2, b"Verbindung f\xfcr LAN")), one()].concat();
    let mut reader = open(&file);
    let first =
        reader.first_interface().expect("the file is valid").expect("the file has an interface");
    assert_eq!(first.name.as_deref(), Some("Verbindung f\u{fffd}r LAN"));
    assert_eq!(reader.packet().expect("the file is valid").map(|p| p.time_ns), Some(1_000));
}

#[test]
fn statistics_of_any_interface_and_size_are_passed_over() {
    for (interface_id, size) in [(0, 8), (0, 4), (0, 0), (7, 8), (u32::MAX, 3)] {
        let counted = [words(&[interface_id, 0, 0]), option(4, &vec![1; size])].concat();
        both("statistics", &[section(&[]), interface(&[]), one(), block(5, &counted), one()]);
    }
    both("none at all", &[section(&[]), interface(&[]), one(), block(5, &[]), one()]);
}

#[test]
fn blocks_of_any_type_and_size_are_passed_over() {
    let large = vec![b'#'; 9 << 20];
    for (kind, body) in [(10, &large[..]), (0xbad, &[1]), (0x8000_0001, &[]), (77, &large)] {
        both("a block", &[section(&[]), interface(&[]), one(), block(kind, body), one()]);
    }
}

#[test]
fn options_behind_their_end_or_longer_than_their_block_are_none() {
    let flags = option(2, &1_u32.to_le_bytes());
    let ended = [option(0, &[]), flags.clone()].concat();
    let long = [&[5, 0, 0xff, 0xff][..], &flags].concat();
    for (options, direction) in [
        (flags.clone(), Some(Direction::In)),
        ([option(1, &[b'x'; 60_000]), flags.clone()].concat(), Some(Direction::In)),
        (option(2, &2_u32.to_le_bytes()), Some(Direction::Out)),
        (option(2, &[1, 0]), None),
        (ended, None),
        (long, None),
        (vec![1], None),
    ] {
        let packets =
            both("options", &[section(&[]), interface(&[]), packet(1, 20, &options), one()]);
        assert_eq!(packets[0].direction, direction, "{:?}", options.get(..8));
        assert_eq!(packets[1].direction, None);
    }
}

#[test]
fn a_reserved_field_may_hold_anything() {
    let interface = block(1, &words(&[0xffff_0001, 0]));
    both("a reserved field", &[section(&[]), interface, one(), one()]);
}

#[test]
fn a_long_name_is_kept_in_part() {
    let file = [section(&[]), interface(&option(2, &[b'n'; 60_000])), one()].concat();
    let mut reader = open(&file);
    let first =
        reader.first_interface().expect("the file is valid").expect("the file has an interface");
    assert_eq!(first.name.as_ref().map(String::len), Some(NAME_BYTES_MAX));
    assert!(reader.packet().expect("the file is valid").is_some());
}

#[test]
fn interfaces_are_numbered_through_the_sections() {
    let first = [section(&[]), interface(&option(2, b"a")), one()].concat();
    let second = [section(&[]), interface(&option(2, b"b")), one()].concat();
    let file = [first, second].concat();
    let (packets, said) = read(&file);
    assert_eq!((packets.iter().map(|p| p.interface).collect::<Vec<_>>(), said), (vec![0, 1], None));
}
