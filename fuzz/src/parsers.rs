//! Every parser of `crates/core/wire` on any bytes, held to the contract at the head of that crate:
//! a header that parses can be sliced by its lengths, and a header that was emitted parses to the
//! same.
//!
//! Called by: the targets. A checksum keeps almost all random bytes out, so a header that has one
//! is tried twice: as it came, and with the right checksum put in.

use base::{DropReason, LinkKind};
use core::net::Ipv6Addr;
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Established, Flags, OPTIONS_LEN_MAX, Options};
use wire::{arp, ether, icmp, icmpv6, ipv4, ipv6, nd, protocol, tcp, udp, vlan};

use crate::craft;

/// The Ethernet header, VLAN tags behind it, ARP behind those and at the very beginning.
pub fn ethernet(data: &[u8]) {
    arp(data);
    let parsed = ether::Header::parse(data);
    assert_eq!(parsed.is_ok(), data.len() >= ether::HEADER_LEN);
    let Ok(header) = parsed else { return };
    let mut buf = [0; ether::HEADER_LEN];
    assert!(header.emit(&mut buf) && data.starts_with(&buf));
    let (mut ethertype, mut rest) = (header.ethertype, &data[ether::HEADER_LEN..]);
    while matches!(ethertype, ether::VLAN | ether::SERVICE_VLAN) {
        let Ok(tag) = vlan::Header::parse(rest) else { return };
        let mut buf = [0; vlan::HEADER_LEN];
        assert!(tag.emit(&mut buf) && rest.starts_with(&buf));
        ethertype = tag.ethertype;
        rest = &rest[vlan::HEADER_LEN..];
    }
    let is_ip = matches!(ethertype, ether::IPV4 | ether::IPV6);
    let at = vlan::ip_at(data, LinkKind::Ethernet);
    assert_eq!(at, is_ip.then_some(data.len() - rest.len()));
    if ethertype == ether::ARP {
        arp(rest);
    }
}

fn arp(data: &[u8]) {
    if let Ok(header) = arp::Header::parse(data) {
        let mut buf = [0; arp::HEADER_LEN];
        assert!(header.emit(&mut buf) && data.starts_with(&buf));
    }
}

/// The IPv4 header with options, whole and quoted, and the short way to a plain one.
pub fn ipv4(data: &[u8]) {
    ipv4_packet(data);
    let mut fixed = data.to_vec();
    craft::fix_ipv4_checksum(&mut fixed);
    ipv4_packet(&fixed);
}

fn ipv4_packet(packet: &[u8]) {
    let parsed = ipv4::Header::parse(packet);
    let plain = ipv4::Plain::parse(packet);
    if let Ok(quoted) = ipv4::Header::parse_quoted(packet) {
        assert!((20..=60).contains(&quoted.header_len) && quoted.header_len <= packet.len());
    }
    let Ok(header) = parsed else {
        assert!(plain.is_none(), "plain, and not to be parsed: {parsed:?}");
        return;
    };
    let total = usize::from(header.total_len);
    let _ = &packet[header.header_len..total];
    assert_eq!(plain.is_some(), header.header_len == 20 && !header.is_fragment());
    if let Some(plain) = plain {
        let short = (plain.total_len as usize, plain.protocol, plain.tos, plain.ttl);
        assert_eq!(short, (total, header.protocol, header.tos, header.ttl));
    }
    let mut copy = packet.to_vec();
    copy[..ipv4::HEADER_LEN].fill(0);
    assert!(header.emit(&mut copy));
    assert_eq!(ipv4::Header::parse(&copy), Ok(header));
    assert_eq!(copy[ipv4::HEADER_LEN..], packet[ipv4::HEADER_LEN..]);
    match ipv4::decrement_ttl(&mut copy) {
        Some(ttl) => {
            assert_eq!(ipv4::Header::parse(&copy), Ok(ipv4::Header { ttl, ..header }));
            assert_eq!(ttl + 1, header.ttl);
        }
        None => assert_eq!(header.ttl, 0),
    }
}

/// The IPv6 header, the short way to a plain one, the walk over extension headers, and fragment
/// headers.
pub fn ipv6(data: &[u8]) {
    ipv6_packet(data);
    // Most random bytes are of another version, or shorter than they say.
    let mut fixed = data.to_vec();
    if let Some(first) = fixed.first_mut() {
        *first = 0x60 | *first & 0x0f;
    }
    let payload_len = data.len().saturating_sub(ipv6::HEADER_LEN) as u16;
    if let Some(at) = fixed.get_mut(4..6) {
        at.copy_from_slice(&payload_len.to_be_bytes());
    }
    ipv6_packet(&fixed);
    if let Some(next_header) = fixed.get_mut(6) {
        *next_header = protocol::TCP;
    }
    ipv6_packet(&fixed);
    if let [next_header, payload @ ..] = data {
        upper_layer(payload, *next_header);
    }
}

fn ipv6_packet(packet: &[u8]) {
    let plain = ipv6::Plain::parse(packet);
    let Ok(header) = ipv6::Header::parse(packet) else {
        assert!(plain.is_none(), "plain, and not to be parsed");
        return;
    };
    assert_eq!(ipv6::Header::parse_quoted(packet), Ok(header));
    let is_plain = matches!(header.next_header, protocol::TCP | protocol::UDP | protocol::ICMPV6);
    assert_eq!(plain.is_some(), is_plain);
    if let Some(plain) = plain {
        let short = (plain.payload_len as u16, plain.protocol, plain.traffic_class);
        assert_eq!(short, (header.payload_len, header.next_header, header.traffic_class));
        assert_eq!(plain.hop_limit, header.hop_limit);
        let addrs: Vec<u8> = plain.addrs.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(addrs, [header.src.octets(), header.dst.octets()].concat());
    }
    let mut buf = [0; ipv6::HEADER_LEN];
    assert!(header.emit(&mut buf) && packet.starts_with(&buf));
    let end = ipv6::HEADER_LEN + usize::from(header.payload_len);
    upper_layer(&packet[ipv6::HEADER_LEN..end], header.next_header);
}

fn upper_layer(payload: &[u8], next_header: u8) {
    let Ok((protocol, at)) = ipv6::upper_layer(payload, next_header) else { return };
    let rest = payload.get(at..).expect("what is carried begins inside the payload");
    match protocol {
        protocol::FRAGMENT => {
            let fragment = ipv6::Fragment::parse(rest).expect("returned for reassembly");
            assert!(fragment.more_fragments || fragment.fragment_offset != 0);
            let mut buf = [0; ipv6::Fragment::LEN];
            assert!(fragment.emit(&mut buf));
            assert_eq!(ipv6::Fragment::parse(&buf), Ok(fragment));
        }
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
            panic!("an extension header is nothing that is carried")
        }
        _ => {}
    }
}

/// ICMP, ICMPv6 and neighbour discovery, and the headers that their errors quote.
pub fn icmp(data: &[u8]) {
    let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
    let mut fixed = data.to_vec();
    icmp_message(data);
    craft::fix_checksum(&mut fixed, 2, Sum::ZERO);
    icmp_message(&fixed);
    icmpv6_message(data, src, dst);
    let pseudo = Sum::pseudo_v6(src, dst, protocol::ICMPV6).plus(Sum::of_be16(data.len() as u16));
    craft::fix_checksum(&mut fixed, 2, pseudo);
    icmpv6_message(&fixed, src, dst);
    let _ = (ipv4::Header::parse_quoted(data), ipv6::Header::parse_quoted(data));
}

fn icmp_message(message: &[u8]) {
    let Ok(header) = icmp::Header::parse(message) else { return };
    let mut copy = message.to_vec();
    copy[..icmp::HEADER_LEN].fill(0);
    assert!(header.emit(&mut copy));
    assert_eq!(icmp::Header::parse(&copy), Ok(header));
    let _ = header.is_error();
}

fn icmpv6_message(message: &[u8], src: Ipv6Addr, dst: Ipv6Addr) {
    let Ok(header) = icmpv6::Header::parse(message, src, dst) else { return };
    let mut copy = message.to_vec();
    copy[..icmpv6::HEADER_LEN].fill(0);
    assert!(header.emit(&mut copy, src, dst));
    assert_eq!(icmpv6::Header::parse(&copy, src, dst), Ok(header));
    let _ = header.is_error();
    if let Ok(found) = nd::Header::parse(message) {
        let mut buf = [0; nd::LEN_MAX];
        let len = found.emit(&mut buf, src, dst).expect("room for the longest");
        assert!(icmpv6::Header::parse(&buf[..len], src, dst).is_ok());
        assert_eq!(nd::Header::parse(&buf[..len]), Ok(found));
        let _ = nd::Header::nonce(message);
    }
    let _ = nd::Redirect::parse(message);
    if let Ok(found) = nd::RouterAdvertisement::parse(message) {
        let options = found.options.iter().inspect(|option| {
            if let nd::NdOption::Dnssl { domains, .. } = option {
                assert!(domains.iter().all(|name| (1..=253).contains(&name.len())));
            }
        });
        assert!(options.count() <= 64);
    }
}

/// The TCP header, and the options of the segment that it begins.
pub fn tcp_header(data: &[u8]) {
    let Ok(header) = tcp::Header::parse(data) else { return };
    let options = header.options(data);
    assert_eq!(options.len(), header.header_len - tcp::HEADER_LEN);
    let _ = &data[header.header_len..];
    let mut copy = data.to_vec();
    copy[..tcp::HEADER_LEN].fill(0);
    assert!(header.emit(&mut copy));
    assert_eq!(tcp::Header::parse(&copy), Ok(header));
    assert_eq!(copy[tcp::HEADER_LEN..], data[tcp::HEADER_LEN..]);
    tcp_options(options);
    if let Some(timestamps) = tcp::timestamps_only(options) {
        as_established(data, &header, Some(timestamps));
    } else if options.is_empty() {
        as_established(data, &header, None);
    }
}

/// The short way to write a header gives the bytes of the long one, with a right checksum.
fn as_established(data: &[u8], header: &tcp::Header, timestamps: Option<tcp::Timestamps>) {
    let fields = Established {
        ports: [data[0], data[1], data[2], data[3]],
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        timestamps,
    };
    assert_eq!(fields.len(), header.header_len);
    let mut copy = data.to_vec();
    copy[..header.header_len].fill(0);
    let payload = Ladder::Word64.sum(&data[header.header_len..]);
    let pseudo = Sum::of_be16(0x1234);
    let len = data.len().min(usize::from(u16::MAX));
    fields.emit(&mut copy, len, pseudo, payload, tcp::ChecksumField::Full);
    let whole = pseudo.plus(Sum::of_be16(len as u16)).plus(Ladder::Byte.sum(&copy));
    assert!(whole.is_whole(), "the checksum of {header:?}");
    assert_eq!(tcp::Header::parse(&copy), Ok(tcp::Header { urgent: 0, ..*header }));
}

/// TCP options: whatever was understood is understood again when it is written.
pub fn tcp_options(data: &[u8]) {
    let area = data.get(..OPTIONS_LEN_MAX).unwrap_or(data);
    let only = tcp::timestamps_only(area);
    let parsed = match Options::parse(area) {
        Ok(parsed) => parsed,
        Err(reason) => {
            assert_eq!((reason, only), (DropReason::TcpOptions, None));
            return;
        }
    };
    if only.is_some() {
        assert_eq!(parsed, Options { timestamps: only, ..Options::default() });
    }
    let mut buf = [0xee; OPTIONS_LEN_MAX];
    let len = parsed.emit(&mut buf);
    assert!(len <= OPTIONS_LEN_MAX && len.is_multiple_of(4));
    assert!(buf[len..].iter().all(|&b| b == 0xee), "written past {len}");
    let again = Options::parse(&buf[..len]).expect("what was emitted");
    let blocks = again.sack.as_slice();
    assert!(parsed.sack.as_slice().starts_with(blocks));
    assert!(blocks.len() == parsed.sack.len() || len + 8 > OPTIONS_LEN_MAX);
    assert_eq!(again, Options { sack: again.sack, ..parsed });
}

/// The UDP header.
pub fn udp(data: &[u8]) {
    let Ok(header) = udp::Header::parse(data) else { return };
    let _ = &data[udp::HEADER_LEN..usize::from(header.length)];
    let mut buf = [0; udp::HEADER_LEN];
    assert!(header.emit(&mut buf) && data.starts_with(&buf));
}

/// Every rung of the checksum ladder gives the sum of the plain loop, wherever the bytes begin.
pub fn checksum(data: &[u8]) {
    let Some((&skip, rest)) = data.split_first() else { return };
    // The wide rungs are for long data: repeat the input.
    let times = 1 + usize::from(skip >> 4);
    let long: Vec<u8> = rest.iter().copied().cycle().take(rest.len() * times).collect();
    let bytes = long.get(usize::from(skip & 15)..).unwrap_or_default();
    let plain = Ladder::Byte.sum(bytes);
    let mut copy = vec![0; bytes.len()];
    for rung in Ladder::available() {
        assert_eq!(rung.sum(bytes).field(), plain.field(), "{rung:?} of {}", bytes.len());
        copy.fill(0);
        assert_eq!(rung.copy_sum(bytes, &mut copy).field(), plain.field(), "{rung:?} copying");
        assert_eq!(copy, bytes, "{rung:?}");
    }
    let (front, back) = bytes.split_at(bytes.len() / 2);
    let joined = Ladder::best().sum(front).plus_at(Ladder::best().sum(back), front.len());
    assert_eq!(joined.field(), plain.field(), "in two parts");
    let _ = format!("{:?}", Flags(skip));
}
