//! Reads files made by hand: valid ones, as other programs write them, and damaged ones.

use std::borrow::Cow;
use std::io::Cursor;
use std::time::Duration;

use bpf::{Insn, Program};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::packet::{PacketBlock, PacketOption};

use super::super::source::Direction;
use super::*;

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;

/// A record of a pcap file: seconds, fraction, captured length, original length; then the data.
type Record = ([u32; 4], Vec<u8>);

/// A pcap file in the byte order of `order`.
fn pcap(order: fn(u32) -> [u8; 4], magic: u32, snaplen: u32, records: &[Record]) -> Vec<u8> {
    let version = if order(1)[0] == 1 { [2, 0, 4, 0] } else { [0, 2, 0, 4] };
    let mut bytes = [order(magic), version].concat();
    bytes.extend([0, 0, snaplen, 1].map(order).concat());
    for (header, data) in records {
        bytes.extend(header.map(order).concat());
        bytes.extend(data);
    }
    bytes
}

fn keep_all(_: Link, _: bool) -> Result<Filter> {
    Ok(Filter::new(Program::new(&[Insn::new(0x06, 0, 0, u32::MAX)])?))
}

fn never() -> Stop {
    std::rc::Rc::new(|| false)
}

fn open(bytes: Vec<u8>) -> Capture {
    Capture::of("made".to_owned(), Box::new(Cursor::new(bytes)), keep_all, never())
        .expect("a capture")
}

/// The packets of a capture, and the error if there is one.
fn read(capture: &mut Capture) -> (Vec<Packet>, Option<String>) {
    let mut packets = Vec::new();
    loop {
        match capture.next() {
            Ok(Next::Packet(packet)) => packets.push(packet),
            Ok(Next::Later) => panic!("a file never waits"),
            Ok(Next::End) => return (packets, None),
            Err(error) => return (packets, Some(format!("{error:#}"))),
        }
    }
}

/// A section with these interfaces, and for each a packet of 20 bytes `tag`.
fn section(interfaces: &[(&'static str, DataLink)], tag: u8) -> Vec<u8> {
    let mut writer = PcapNgWriter::new(Vec::new()).expect("memory");
    for (name, linktype) in interfaces {
        let options = vec![InterfaceDescriptionOption::IfName(Cow::Borrowed(name))];
        let block = InterfaceDescriptionBlock { linktype: *linktype, snaplen: 0, options };
        writer.write_pcapng_block(block).expect("memory");
    }
    for interface_id in 0..interfaces.len() as u32 {
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_secs(1),
            original_len: 20,
            data: Cow::Owned(vec![tag; 20]),
            options: Vec::new(),
        };
        writer.write_pcapng_block(block).expect("memory");
    }
    writer.into_inner()
}

#[test]
fn a_pcap_file_is_of_either_byte_order_and_resolution() {
    let record: Record = ([1, 5, 4, 60], vec![1, 2, 3, 4]);
    for order in [u32::to_le_bytes as fn(u32) -> [u8; 4], u32::to_be_bytes] {
        for (magic, time_ns) in [(MICRO, 1_000_005_000), (NANO, 1_000_000_005)] {
            let bytes = pcap(order, magic, 65_535, std::slice::from_ref(&record));
            let (packets, said) = read(&mut open(bytes));
            assert_eq!(said, None);
            let seen = packets.iter().map(|p| (p.time_ns, p.wire_len, p.bytes.as_slice()));
            assert_eq!(seen.collect::<Vec<_>>(), [(time_ns, 60, &[1, 2, 3, 4][..])]);
        }
    }
}

#[test]
fn a_record_is_believed_more_than_the_header_of_the_file() {
    let records: [Record; 3] = [
        ([1, 0, 1514, 1514], vec![1; 1514]),
        ([1, 1_500_000, 60, 60], vec![2; 60]),
        ([3, 0, 60, 20], vec![3; 60]),
    ];
    for snaplen in [0, 1500] {
        let (packets, said) = read(&mut open(pcap(u32::to_le_bytes, MICRO, snaplen, &records)));
        assert_eq!(said, None);
        let seen = packets.iter().map(|p| (p.time_ns, p.wire_len, p.bytes.len()));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [(1_000_000_000, 1514, 1514), (2_500_000_000, 60, 60), (3_000_000_000, 60, 60)]
        );
    }
}

#[test]
fn a_length_that_lies_ends_the_file_and_takes_no_memory() {
    let good: Record = ([1, 0, 60, 60], vec![1; 60]);
    for (len, words) in [(u32::MAX, "cut off or damaged"), (300_000, "300000 bytes")] {
        let lying: Record = ([2, 0, len, len], vec![2; 300_000]);
        let records = [good.clone(), lying, good.clone()];
        let (packets, said) = read(&mut open(pcap(u32::to_be_bytes, MICRO, 0, &records)));
        assert_eq!(packets.len(), 1);
        let said = said.expect("it is no packet");
        assert!(said.contains("behind packet 1") && said.contains(words), "{said}");
        assert!(said.contains("-w"), "{said}");
    }
}

#[test]
fn a_packet_block_is_a_packet() {
    let mut writer = PcapNgWriter::new(Vec::new()).expect("memory");
    let interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 65_535);
    writer.write_pcapng_block(interface).expect("memory");
    let block = PacketBlock {
        interface_id: 0,
        drop_count: 3,
        timestamp: Duration::from_micros(1_000_002),
        original_len: 99,
        data: Cow::Owned(vec![7; 60]),
        options: vec![PacketOption::Flags(2)],
    };
    writer.write_pcapng_block(block).expect("memory");
    let (packets, said) = read(&mut open(writer.into_inner()));
    assert_eq!((packets.len(), said), (1, None));
    assert_eq!((packets[0].time_ns, packets[0].wire_len), (1_000_002_000, 99));
    assert_eq!((packets[0].port, packets[0].direction), (0, Some(Direction::Out)));
    assert_eq!(packets[0].bytes, [7; 60]);
}

#[test]
fn the_interfaces_of_a_second_section_are_its_own() {
    let first = section(&[("eth0", DataLink::ETHERNET), ("eth1", DataLink::ETHERNET)], 1);
    let second = section(&[("tun0", DataLink::RAW)], 2);
    let mut capture = open([first, second].concat());
    let (packets, said) = read(&mut capture);
    assert_eq!(said, None);
    let seen = packets.iter().map(|p| (p.port, p.link, p.bytes[0]));
    let (ethernet, ip) = (Link::ETHERNET, Link::RAW);
    assert_eq!(seen.collect::<Vec<_>>(), [(0, ethernet, 1), (1, ethernet, 1), (2, ip, 2)]);
    let ports = capture.ports().into_iter().map(|port| (port.name, port.link));
    let name = |name: &str| name.to_owned();
    assert_eq!(
        ports.collect::<Vec<_>>(),
        [(name("eth0"), ethernet), (name("eth1"), ethernet), (name("tun0"), ip)]
    );
    let counted = capture.counted().expect("it is counted here");
    assert_eq!(counted.iter().map(|c| (c.seen, c.matched)).collect::<Vec<_>>(), [(1, 1); 3]);
}

#[test]
fn what_packets_begin_with_is_known_before_the_first() {
    let mut capture = open(section(&[("tun0", DataLink::RAW)], 2));
    assert!(capture.ports().is_empty());
    let first = capture.first().expect("it is understood");
    assert_eq!(first.map(|first| first.link), Some(101));
    assert_eq!(read(&mut capture).0.len(), 1);
    assert_eq!(open(section(&[], 0)).first().expect("nothing is wrong"), None);
    let mut other = open(section(&[("any", DataLink::LINUX_SLL)], 0));
    let first = other.first().expect("any kind is a kind");
    assert_eq!(first.map(|first| (first.link, first.snaplen)), Some((113, 0)));
}
