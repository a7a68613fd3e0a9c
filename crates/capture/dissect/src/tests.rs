//! Prints packets made by hand: truncated, fragmented, with wrong checksums. The expected texts are
//! those of tcpdump.

mod random;

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::checksum::{Ladder, Sum};
use wire::{ipv4, ipv6, protocol, tcp, udp};

use super::*;

/// The link type of raw IP.
const RAW: u32 = 101;

const FROM: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const TO: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const FROM_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const TO_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// TCP options: MSS, SACK permitted, timestamps, NOP, window scale.
const OPTIONS: [u8; 20] = [2, 4, 5, 180, 4, 2, 8, 10, 0, 1, 226, 64, 0, 0, 0, 42, 1, 3, 3, 7];

/// `len` bytes of data that are not all equal.
fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * i / 251 + i) as u8).collect()
}

/// The checksum of a payload; `pseudo` is the sum of its pseudo-header without the length.
fn sum(pseudo: Sum, bytes: &[u8]) -> [u8; 2] {
    let length = Sum::of_be16(bytes.len() as u16);
    pseudo.plus(length).plus(Ladder::best().sum(bytes)).field()
}

fn echo_request(len: usize) -> Vec<u8> {
    let mut message = [vec![8, 0, 0, 0, 0, 17, 0, 1], data(len)].concat();
    let field = Ladder::best().sum(&message).field();
    message[2..4].copy_from_slice(&field);
    message
}

fn echo_request_v6(len: usize) -> Vec<u8> {
    let mut message = [vec![128, 0, 0, 0, 0, 17, 0, 1], data(len)].concat();
    let field = sum(Sum::pseudo_v6(FROM_6, TO_6, protocol::ICMPV6), &message);
    message[2..4].copy_from_slice(&field);
    message
}

fn datagram(pseudo: Sum, len: usize) -> Vec<u8> {
    let length = ((udp::HEADER_LEN + len) as u16).to_be_bytes();
    let mut bytes = [vec![3, 232, 7, 208, length[0], length[1], 0, 0], data(len)].concat();
    let field = sum(pseudo, &bytes);
    bytes[udp::CHECKSUM_OFFSET..udp::CHECKSUM_OFFSET + 2].copy_from_slice(&field);
    bytes
}

fn segment(pseudo: Sum, flags: tcp::Flags, options: &[u8], len: usize) -> Vec<u8> {
    let header_words = ((tcp::HEADER_LEN + options.len()) / 4) as u8;
    // Ports, sequence and acknowledgment number; then header length, flags, window, checksum,
    // urgent.
    let fixed = [3, 232, 7, 208, 0, 0, 3, 232, 0, 0, 0, 5];
    let front = [header_words << 4, flags.0, 0xfa, 0xf0, 0, 0, 0, 0];
    let mut bytes = [&fixed[..], &front[..], options, &data(len)[..]].concat();
    let field = sum(pseudo, &bytes);
    bytes[tcp::CHECKSUM_OFFSET..tcp::CHECKSUM_OFFSET + 2].copy_from_slice(&field);
    bytes
}

fn tcp_v4() -> Sum {
    Sum::pseudo_v4(FROM, TO, protocol::TCP)
}

/// An IPv4 packet that carries `part` of a datagram, at this fragment offset.
fn part_v4(protocol: u8, part: &[u8], offset: u16, more_fragments: bool) -> Vec<u8> {
    let header = ipv4::Header {
        header_len: ipv4::HEADER_LEN,
        tos: 0,
        total_len: (ipv4::HEADER_LEN + part.len()) as u16,
        id: 7,
        dont_fragment: false,
        more_fragments,
        fragment_offset: offset,
        ttl: 64,
        protocol,
        src: FROM,
        dst: TO,
    };
    let mut bytes = [vec![0; ipv4::HEADER_LEN], part.to_vec()].concat();
    assert!(header.emit(&mut bytes));
    bytes
}

fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    part_v4(protocol, payload, 0, false)
}

fn v6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header,
        hop_limit: 64,
        src: FROM_6,
        dst: TO_6,
    };
    let mut bytes = [vec![0; ipv6::HEADER_LEN], payload.to_vec()].concat();
    assert!(header.emit(&mut bytes));
    bytes
}

fn part_v6(next_header: u8, part: &[u8], fragment_offset: u16, more_fragments: bool) -> Vec<u8> {
    let header = ipv6::Fragment { next_header, fragment_offset, more_fragments, id: 0x1234 };
    let mut bytes = [vec![0; ipv6::Fragment::LEN], part.to_vec()].concat();
    assert!(header.emit(&mut bytes));
    v6(protocol::FRAGMENT, &bytes)
}

/// The text for a packet of which only the first `keep` bytes were captured, without a time.
fn cut(verbose: u8, bytes: &[u8], keep: usize) -> String {
    let mut printer = Printer::new(Style { verbose, ..Style::default() });
    let frame = Frame { link: RAW, bytes: &bytes[..keep], wire_len: bytes.len() as u32 };
    printer.text(frame, "").trim_end().to_owned()
}

fn line(verbose: u8, bytes: &[u8]) -> String {
    cut(verbose, bytes, bytes.len())
}

/// The text that a dissector prints for bytes of its protocol.
pub(crate) fn printed_by(
    dissect: impl FnOnce(&mut Printer, data::Data<'_>) -> data::Done,
    verbose: u8,
    bytes: &[u8],
) -> (String, data::Done) {
    let mut p = Printer::new(Style { verbose, ..Style::default() });
    let done = dissect(&mut p, data::Data::new(bytes, bytes.len()));
    (p.out, done)
}

#[test]
fn the_first_fragment_of_a_ping_is_the_request_and_the_others_are_numbers() {
    let message = echo_request(3000);
    let first = part_v4(protocol::ICMP, &message[..1480], 0, true);
    let said = "192.0.2.1 > 192.0.2.2: ICMP echo request, id 17, seq 1, length 1480";
    assert_eq!(line(0, &first), format!("IP {said}"));
    assert!(line(1, &first).ends_with(&format!("\n    {said}")), "{}", line(1, &first));
    let second = part_v4(protocol::ICMP, &message[1480..2960], 1480, true);
    assert_eq!(line(0, &second), "IP 192.0.2.1 > 192.0.2.2: ip-proto-1");
}

#[test]
fn nothing_is_said_about_a_checksum_of_which_not_all_is_here() {
    let udp = datagram(Sum::pseudo_v4(FROM, TO, protocol::UDP), 3000);
    let first = line(2, &part_v4(protocol::UDP, &udp[..1480], 0, true));
    assert!(first.ends_with(" 192.0.2.1.1000 > 192.0.2.2.2000: UDP, length 3000"), "{first}");
    assert!(line(2, &v4(protocol::UDP, &udp)).contains("[udp sum ok] UDP, length 3000"));
    let tcp = segment(tcp_v4(), tcp::Flags::ACK, &[], 3000);
    let first = line(1, &part_v4(protocol::TCP, &tcp[..1480], 0, true));
    assert!(first.ends_with("Flags [.], seq 1000:2460, ack 5, win 64240, length 1460"), "{first}");
    let whole = v4(protocol::TCP, &tcp);
    assert!(line(1, &whole).contains("(correct), seq 1000:4000, "), "{}", line(1, &whole));
    let short = cut(1, &whole, 100);
    assert!(short.ends_with("Flags [.], seq 1000:4000, ack 5, win 64240, length 3000"), "{short}");
    let mut wrong = whole.clone();
    wrong[100] ^= 1;
    assert!(line(1, &wrong).contains(" (incorrect -> 0x"), "{}", line(1, &wrong));
}

#[test]
fn a_header_that_was_cut_off_is_not_a_bad_one() {
    let syn = v4(protocol::TCP, &segment(tcp_v4(), tcp::Flags::SYN, &OPTIONS, 0));
    let front = "IP 192.0.2.1.1000 > 192.0.2.2.2000: Flags [S], seq 1000, win 64240, options [";
    let whole = "mss 1460,sackOK,TS val 123456 ecr 42,nop,wscale 7], length 0";
    assert_eq!(line(0, &syn), format!("{front}{whole}"));
    let shown =
        [(54, "mss 1460,sackOK,TS [|tcp]>"), (46, "mss 1460,sackOK, [|tcp]"), (40, " [|tcp]")];
    for (keep, options) in shown {
        assert_eq!(cut(0, &syn, keep), format!("{front}{options}"), "{keep}");
    }
    assert_eq!(cut(0, &syn, 39), "IP 192.0.2.1.1000 > 192.0.2.2.2000:  [|tcp]");
    // The header length exceeds the packet.
    let mut bad = syn.clone();
    bad[32] = 0xf0;
    let front = "IP 192.0.2.1.1000 > 192.0.2.2.2000: ";
    let said = format!("{front}Flags [S] [bad hdr length 60 - too long, > 40]");
    assert_eq!(line(0, &bad), said);
    bad[32] = 0x40;
    let said = format!("{front} tcp 24 [bad hdr length 16 - too short, < 20]");
    assert_eq!(line(0, &bad), said);
}

#[test]
fn eight_bytes_of_an_echo_are_enough() {
    let ping = v4(protocol::ICMP, &echo_request(56));
    let said = "IP 192.0.2.1 > 192.0.2.2: ICMP echo request, id 17, seq 1, length 64";
    assert_eq!(cut(0, &ping, 46), said);
    assert_eq!(cut(0, &ping, 28), said);
    assert_eq!(cut(0, &ping, 27), "IP 192.0.2.1 > 192.0.2.2:  [|icmp]");
    let ping = v6(protocol::ICMPV6, &echo_request_v6(56));
    let said = "IP6 2001:db8::1 > 2001:db8::2: ICMP6, echo request, id 17, seq 1, length 64";
    assert_eq!(cut(0, &ping, 48), said);
    assert!(!cut(1, &ping, 48).contains("sum"), "{}", cut(1, &ping, 48));
}

#[test]
fn an_ipv6_fragment_says_where_it_belongs_and_the_first_what_it_carries() {
    let between = "2001:db8::1 > 2001:db8::2:";
    let echo = echo_request_v6(3000);
    let first = part_v6(protocol::ICMPV6, &echo[..1448], 0, true);
    let said = "ICMP6, echo request, id 17, seq 1";
    assert_eq!(line(0, &first), format!("IP6 {between} frag (0|1448) {said}, length 1448"));
    let verbose = line(1, &first);
    assert!(verbose.ends_with(&format!("{between} frag (0x00001234:0|1448) {said}")), "{verbose}");
    let second = part_v6(protocol::ICMPV6, &echo[1448..2896], 1448, true);
    assert_eq!(line(0, &second), format!("IP6 {between} frag (1448|1448)"));
    assert_eq!(cut(0, &second, 43), format!("IP6 {between}  [|frag6]"));
    let udp = datagram(Sum::pseudo_v6(FROM_6, TO_6, protocol::UDP), 2000);
    let first = part_v6(protocol::UDP, &udp[..1448], 0, true);
    let said = "1000 > 2000: UDP, length 2000";
    assert_eq!(line(0, &first), format!("IP6 {between} frag (0|1448) {said}"));
    assert!(line(1, &first).ends_with(&format!("|1448) {said}")), "{}", line(1, &first));
    let tcp = segment(Sum::pseudo_v6(FROM_6, TO_6, protocol::TCP), tcp::Flags::ACK, &[], 2000);
    let first = line(1, &part_v6(protocol::TCP, &tcp[..1448], 0, true));
    let said = "1000 > 2000: Flags [.], seq 1000:2428, ack 5, win 64240, length 1428";
    assert!(first.ends_with(&format!("|1448) {said}")), "{first}");
}

#[test]
fn a_wrong_checksum_of_icmp_hides_nothing() {
    let mut ping = v4(protocol::ICMP, &echo_request(56));
    let right = u16::from_be_bytes([ping[22], ping[23]]);
    ping[22] ^= 0x10;
    let has = u16::from_be_bytes([ping[22], ping[23]]);
    let said = "192.0.2.1 > 192.0.2.2: ICMP echo request, id 17, seq 1, length 64";
    assert_eq!(line(0, &ping), format!("IP {said}"));
    let wrong = format!("{said} (wrong icmp cksum {has:x} (->{right:x})!)");
    assert!(line(1, &ping).ends_with(&wrong), "{}", line(1, &ping));
    let mut ping = v6(protocol::ICMPV6, &echo_request_v6(56));
    assert!(line(1, &ping).contains(" [icmp6 sum ok] ICMP6, echo request, "));
    let right = u16::from_be_bytes([ping[42], ping[43]]);
    ping[42] ^= 0x10;
    let has = u16::from_be_bytes([ping[42], ping[43]]);
    let wrong = format!("[bad icmp6 cksum 0x{has:04x} -> 0x{right:04x}!] ICMP6, echo request, ");
    assert!(line(1, &ping).contains(&wrong), "{}", line(1, &ping));
    assert!(line(0, &ping).contains(": ICMP6, echo request, "), "{}", line(0, &ping));
}

/// The urgent pointer is chosen so that the checksum is zero; all ones is valid too.
#[test]
fn both_zeros_of_ones_complement_are_right() {
    let mut segment = segment(tcp_v4(), tcp::Flags::ACK, &[], 0);
    let field = [segment[16], segment[17]];
    segment[18..].copy_from_slice(&field);
    for zero in [0, 0xff] {
        segment[16..18].fill(zero);
        let shown = line(1, &v4(protocol::TCP, &segment));
        assert!(shown.contains(" (correct), ack 5, "), "{shown}");
    }
}

#[test]
fn a_packet_of_dccp_says_what_it_is_and_what_it_acknowledges() {
    let mut reset = vec![0x13, 0x89, 0, 80, 7, 0, 0, 0, 7 << 1 | 1, 0, 0, 0, 0, 0, 0, 1];
    let dots = "IP 192.0.2.1.5001 > 192.0.2.2.80: DCCP";
    reset.extend([0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0]);
    let said = format!("{dots} DCCP-Reset (code=closed) (ack=4294967298)");
    assert_eq!(line(0, &v4(33, &reset)), said);
    let request = [0x13, 0x89, 0, 80, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 42];
    assert_eq!(line(0, &v4(33, &request)), format!("{dots} DCCP-Request (service=42)"));
    assert!(line(0, &v4(33, &request[..14])).ends_with("DCCP-Request  [length 14 < 16] (invalid)"));
}

#[test]
fn what_nobody_understands_behind_snap_is_in_hex_with_its_header() {
    let frame =
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0, 10][..], &[0xaa, 0xaa, 3, 0, 0, 12, 0, 3, 7, 7]]
            .concat();
    let mut printer = Printer::new(Style::default());
    let frame = Frame { link: 1, bytes: &frame, wire_len: frame.len() as u32 };
    let text = printer.text(frame, "");
    assert!(text.contains(" length 2: \n\t0x0000:  aaaa 0300 000c 0003 0707 "), "{text}");
}

#[test]
fn reports_of_groups_name_their_sources_in_both_versions_of_ip() {
    let v3 = [&[0x22, 0, 0, 0, 0, 0, 0, 1, 6, 0, 0, 1, 239, 1, 2, 3][..], &[192, 0, 2, 9]].concat();
    let said = "igmp v3 report, 1 group record(s)";
    assert!(line(0, &v4(2, &v3)).ends_with(said));
    let shown = line(1, &v4(2, &v3));
    assert!(shown.contains(&format!("{said} [gaddr 239.1.2.3 block, 1 source(s)]")), "{shown}");
    let shown = line(2, &v4(2, &v3));
    assert!(shown.contains("[gaddr 239.1.2.3 block { 192.0.2.9 }]"), "{shown}");
    let shown = line(1, &v4(2, &v3[..16]));
    assert!(shown.contains("block [invalid number of sources 1]"), "{shown}");
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5).octets();
    let v2 = [&[143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 1][..], &group, &FROM_6.octets()].concat();
    let shown = line(2, &v6(58, &v2));
    let said = "1 group record(s) [gaddr ff02::5 to_ex { 2001:db8::1 }]";
    assert!(shown.ends_with(said), "{shown}");
}

#[test]
fn a_message_of_rsvp_has_its_length() {
    let hello = [0x10, 20, 0, 0, 64, 0, 0, 8];
    let said = "IP 192.0.2.1 > 192.0.2.2: RSVPv1 Hello Message, length: 8";
    assert_eq!(line(0, &v4(46, &hello)), said);
}

/// Nested tunnels are followed only to a maximum depth, so that the call stack is not exhausted.
#[test]
fn packets_inside_packets_are_followed_to_a_bound() {
    let mut packet = v4(protocol::UDP, &datagram(Sum::ZERO, 4));
    for _ in 0..1_000 {
        packet = v4(4, &packet);
    }
    let text = line(0, &packet);
    assert!(text.ends_with("[|nested too deeply]"), "{text}");
    assert!(text.matches("IP 192.0.2.1 > 192.0.2.2: ").count() < 30, "{text}");
}

#[test]
fn a_link_type_of_which_nothing_is_known_is_shown_in_hex() {
    let mut printer = Printer::new(Style::default());
    let frame = Frame { link: 147, bytes: b"any bytes of it", wire_len: 15 };
    let hex = "0x0000:  616e 7920 6279 7465 7320 6f66 2069 74    any.bytes.of.it";
    assert_eq!(printer.text(frame, ""), format!("UNSUPPORTED\n\t{hex}\n"));
    assert!(!is_decoded(147) && is_decoded(1));
}
