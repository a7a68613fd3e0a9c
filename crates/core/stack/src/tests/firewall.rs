//! The firewall in the forwarding path, packet by packet: rules, states, translation in both
//! directions, ICMP errors, fragments, and what a reload does. RFC 4787, RFC 5382, RFC 5508.

mod bursts;
mod errors;
mod export;
mod hairpin;
mod mappings;
mod next_hop_v6;
pub(super) mod packets;

use std::sync::Arc;

use filter::states::Timeouts;
use filter::{Published, text};

use super::forward::{A, B, HOSTS, MACS, Router, ip};
use crate::PortId;
use base::{DropReason, Switch};
use wire::tcp::Flags;

const PORTS: [(&str, u16); 2] = [("lan", 0), ("wan", 1)];
/// The router's own addresses.
const LAN: &str = "192.0.2.1";
const WAN: &str = "198.51.100.1";

pub(super) fn published(rules: &str, nat: &str, generation: u32) -> Arc<Published> {
    let source = text::Source { rules, nat, ..text::Source::default() };
    let rules = text::parse(&source, &PORTS, &|_| Err("no files".into())).expect("rules");
    Published::compile(rules, Timeouts::default(), generation).expect("small")
}

fn router(rules: &str, nat: &str) -> Router {
    let mut router = Router::new(1_500);
    router.stack.set_filter(Some(published(rules, nat, 1)));
    router
}

/// The two ends of a flow: a host on the LAN, and a host beyond the WAN port.
const HERE: (&str, u16) = (A, 40_000);
const THERE: (&str, u16) = (B, 443);

fn udp(from: (&str, u16), to: (&str, u16)) -> Vec<u8> {
    packets::udp(from, to, b"datagram")
}

fn tcp(from: (&str, u16), to: (&str, u16), seq: u32, ack: u32, flags: Flags) -> Vec<u8> {
    packets::tcp(from, to, seq, ack, flags)
}

/// Gives a port an IP packet; returns the packets that leave by each port.
fn cross(router: &mut Router, port: usize, packet: &[u8]) -> [Vec<Vec<u8>>; 2] {
    let ethertype: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    let frame = [&MACS[port].0[..], &HOSTS[port].0, &ethertype, packet].concat();
    router
        .exchange_at(port, &frame)
        .map(|frames| frames.into_iter().map(|frame| frame[14..].to_vec()).collect())
}

/// The only packet that left, which must have left by `port`.
fn one(sent: [Vec<Vec<u8>>; 2], port: usize) -> Vec<u8> {
    assert_eq!(sent[1 - port], Vec::<Vec<u8>>::new());
    assert_eq!(sent[port].len(), 1, "{sent:?}");
    packets::check(&sent[port][0]);
    sent[port][0].clone()
}

/// Source and destination (address and port) of an IPv4 packet with UDP or TCP.
fn ends(packet: &[u8]) -> [(String, u16); 2] {
    let addr = |at: usize| {
        let [a, b, c, d] = [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
        format!("{a}.{b}.{c}.{d}")
    };
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    [(addr(12), port(20)), (addr(16), port(22))]
}

/// RFC 5382 REQ-4a.
#[test]
fn answers_pass_by_the_state_and_strangers_by_no_rule() {
    let mut router = router("pass in lan out wan", "");
    assert_eq!(cross(&mut router, 1, &udp(THERE, HERE)), [vec![], vec![]] as [Vec<Vec<u8>>; 2]);
    assert_eq!(router.drops(DropReason::FilterRule), 1);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    one(cross(&mut router, 1, &udp(THERE, HERE)), 0);
    assert_eq!(cross(&mut router, 1, &udp((B, 444), HERE))[0].len(), 0);
    assert_eq!(router.drops(DropReason::FilterRule), 2);
    let firewall = router.stack.filter().expect("rules are set");
    assert_eq!(firewall.states().len(), 1);
    assert_eq!((firewall.counts()[0].packets, firewall.counts()[0].flows), (2, 1));
    assert_eq!(firewall.counts()[1].packets, 2, "the default rule did not count two packets");
}

#[test]
fn a_handshake_passes_and_a_segment_without_one_does_not() {
    let mut router = router("pass in lan out wan", "");
    let data = tcp(HERE, THERE, 1_001, 5_001, Flags::ACK);
    assert!(cross(&mut router, 0, &data)[1].is_empty());
    assert_eq!(router.drops(DropReason::FilterNoState), 1);
    one(cross(&mut router, 0, &tcp(HERE, THERE, 1_000, 0, Flags::SYN)), 1);
    one(cross(&mut router, 1, &tcp(THERE, HERE, 5_000, 1_001, Flags::SYN | Flags::ACK)), 0);
    one(cross(&mut router, 0, &data), 1);
    let forged = tcp(THERE, HERE, 900_000_000, 1_001, Flags::RST);
    assert!(cross(&mut router, 1, &forged)[0].is_empty());
    assert_eq!(router.drops(DropReason::FilterWindow), 1);
}

#[test]
fn a_rule_rejects_with_a_reset_or_an_error() {
    let mut router = router("reject in lan out wan", "");
    let back = one(cross(&mut router, 0, &tcp(HERE, THERE, 1_000, 0, Flags::SYN)), 0);
    assert_eq!(ends(&back), [(B.to_owned(), 443), (A.to_owned(), 40_000)]);
    assert_eq!(back[33], (Flags::RST | Flags::ACK).0);
    let back = one(cross(&mut router, 0, &udp(HERE, THERE)), 0);
    assert_eq!((back[9], back[20], back[21]), (1, 3, 13), "the error is not \"prohibited\"");
    assert_eq!(router.drops(DropReason::FilterRule), 2);
}

#[test]
fn the_router_itself_is_behind_the_filter_and_its_neighbours_are_not() {
    let mut router = router("pass in lan to self udp 53", "");
    for (port, passes) in [(53, true), (54, false)] {
        let before = router.drops(DropReason::FilterRule);
        let sent = cross(&mut router, 0, &udp(HERE, (LAN, port)));
        // No socket is bound to the port: if the filter passes the datagram, an ICMP error is sent.
        assert_eq!(sent[0].len(), usize::from(passes), "{port}");
        assert_eq!(router.drops(DropReason::FilterRule) - before, u64::from(!passes));
    }
}

#[test]
fn masquerade_translates_both_ways() {
    let mut router = router("pass in lan out wan", "source out wan from 192.0.2.0/24 to port");
    let out = one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    assert_eq!(
        ends(&out),
        [(WAN.to_owned(), 40_000), (B.to_owned(), 443)],
        "the source port was changed"
    );
    let back = one(cross(&mut router, 1, &udp(THERE, (WAN, 40_000))), 0);
    assert_eq!(ends(&back), [(B.to_owned(), 443), (A.to_owned(), 40_000)]);
    // Another host with the same source port gets another port.
    let out = one(cross(&mut router, 0, &udp(("192.0.2.10", 40_000), THERE)), 1);
    assert_ne!(ends(&out)[0].1, 40_000);
    assert_eq!(ends(&out)[0].0, WAN);
}

#[test]
fn a_port_leads_to_a_host_inside() {
    let rules = "pass in wan to 192.0.2.9 tcp 443";
    let mut router = router(rules, "dest in wan tcp 8443 to 192.0.2.9:443");
    let syn = tcp((B, 5_000), (WAN, 8_443), 1_000, 0, Flags::SYN);
    let out = one(cross(&mut router, 1, &syn), 0);
    assert_eq!(ends(&out), [(B.to_owned(), 5_000), (A.to_owned(), 443)]);
    let answer = tcp((A, 443), (B, 5_000), 9_000, 1_001, Flags::SYN | Flags::ACK);
    let back = one(cross(&mut router, 0, &answer), 1);
    assert_eq!(ends(&back), [(WAN.to_owned(), 8_443), (B.to_owned(), 5_000)]);
}

/// The error's quote is translated back, too: RFC 5508 REQ-4.
#[test]
fn errors_about_translated_packets_come_back_translated() {
    let mut router = router("pass in lan out wan", "source out wan from 192.0.2.0/24 to port");
    let out = one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    let error = packets::unreachable(B, WAN, &out);
    let back = one(cross(&mut router, 1, &error), 0);
    assert_eq!(
        ends(&back[28..]),
        [(A.to_owned(), 40_000), (B.to_owned(), 443)],
        "the quoted packet was not translated back"
    );
    assert_eq!(&back[16..20], &[192, 0, 2, 9]);
    // An error about a flow that does not exist.
    let stranger = packets::unreachable(B, A, &udp((A, 1), THERE));
    assert!(cross(&mut router, 1, &stranger)[0].is_empty());
    assert_eq!(router.drops(DropReason::FilterIcmp), 1);
}

#[test]
fn an_error_of_ours_quotes_the_packet_as_it_came() {
    let mut router = router("pass in lan out wan", "source out wan from 192.0.2.0/24 to port");
    let mut spent = udp(HERE, THERE);
    spent[8] = 1;
    packets::fix(&mut spent);
    let back = one(cross(&mut router, 0, &spent), 0);
    assert_eq!((back[20], back[21]), (11, 0), "the error is not \"time exceeded\"");
    assert_eq!(ends(&back[28..]), [(A.to_owned(), 40_000), (B.to_owned(), 443)]);
}

/// RFC 4787 REQ-14.
#[test]
fn fragments_share_the_fate_of_the_first_in_any_order() {
    for backwards in [false, true] {
        let mut router = router("pass in lan out wan", "source out wan from 192.0.2.0/24 to port");
        let whole = packets::udp(HERE, THERE, &[7; 2_000]);
        let mut pieces = packets::fragments(&whole, 1_000);
        if backwards {
            pieces.reverse();
        }
        let mut out = Vec::new();
        for piece in &pieces {
            let [back, sent] = cross(&mut router, 0, piece);
            assert!(back.is_empty());
            out.extend(sent);
        }
        assert_eq!(out.len(), pieces.len(), "{backwards}");
        let ids: Vec<&[u8]> = out.iter().map(|piece| &piece[4..6]).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "the fragments differ in their identification");
        assert!(out.iter().all(|piece| piece[12..16] == [198, 51, 100, 1]));
    }
}

#[test]
fn fragments_of_a_protocol_without_ports_share_that_fate_too() {
    let mut router = router("pass in lan out wan proto 99", "");
    let mut whole = packets::udp(HERE, THERE, &[7; 2_000]);
    whole[9] = 99;
    packets::fix(&mut whole);
    let mut pieces = packets::fragments(&whole, 1_000);
    pieces.swap(0, 1);
    let out: usize = pieces.iter().map(|piece| cross(&mut router, 0, piece)[1].len()).sum();
    assert_eq!(out, pieces.len());
}

#[test]
fn an_error_about_a_flow_goes_to_no_other_host() {
    let mut router = router("pass in lan out wan", "");
    router.stack.add_neighbour(PortId(0), ip("192.0.2.10"), HOSTS[0]);
    let out = one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    one(cross(&mut router, 1, &packets::unreachable(B, A, &out)), 0);
    let stray = packets::unreachable(B, "192.0.2.10", &out);
    assert!(cross(&mut router, 1, &stray)[0].is_empty());
    assert_eq!(router.drops(DropReason::FilterIcmp), 1);
}

/// A FIN follows a full window of data that was lost, then the window's first data is sent again.
#[test]
fn the_first_data_of_a_full_window_passes_again_after_a_fin() {
    let mut router = router("pass in lan out wan", "");
    let ack = Flags::ACK;
    one(cross(&mut router, 0, &tcp(HERE, THERE, 1_000, 0, Flags::SYN)), 1);
    one(cross(&mut router, 1, &tcp(THERE, HERE, 5_000, 1_001, Flags::SYN | ack)), 0);
    one(cross(&mut router, 0, &tcp(HERE, THERE, 1_001, 5_001, ack)), 1);
    // The window of these packets is 8,192 bytes.
    one(cross(&mut router, 0, &tcp(HERE, THERE, 9_193, 5_001, Flags::FIN | ack)), 1);
    one(cross(&mut router, 0, &tcp(HERE, THERE, 1_001, 5_001, ack)), 1);
    assert!(cross(&mut router, 0, &tcp(HERE, THERE, 1_000, 5_001, ack))[1].is_empty());
    assert_eq!(router.drops(DropReason::FilterWindow), 1);
}

#[test]
fn a_reload_ends_flows_that_are_not_allowed_and_keeps_the_others() {
    let mut router = router("pass in lan out wan udp {443, 444}", "");
    for port in [443, 444] {
        one(cross(&mut router, 0, &udp(HERE, (B, port))), 1);
    }
    router.stack.set_filter(Some(published("pass in lan out wan udp 443", "", 2)));
    one(cross(&mut router, 1, &udp((B, 443), HERE)), 0);
    assert!(cross(&mut router, 1, &udp((B, 444), HERE))[0].is_empty());
    assert_eq!(router.stack.filter().expect("rules").states().len(), 1);
}

#[test]
fn flows_of_an_address_that_is_gone_begin_again_from_the_new_one() {
    let mut router = router("pass in lan out wan", "source out wan from 192.0.2.0/24 to port");
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    let new = inet::Address::fixed("198.51.100.77/24".parse().expect("an address"));
    assert!(router.stack.add_address(PortId(1), new).is_ok());
    assert!(router.stack.remove_address(PortId(1), ip(WAN)));
    let out = one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    assert_eq!(ends(&out)[0].0, "198.51.100.77");
    let back = one(cross(&mut router, 1, &udp(THERE, ("198.51.100.77", ends(&out)[0].1))), 0);
    assert_eq!(ends(&back)[1], (A.to_owned(), 40_000));
    assert_eq!(router.stack.filter().expect("rules").states().len(), 1);
}

/// RFC 6056 section 3.2, RFC 4787 REQ-3: the router's sockets get no port that NAT may use.
#[test]
fn sockets_of_the_router_have_ports_that_nat_does_not_use() {
    let mut router = router("pass in lan out wan", "");
    assert!(router.stack.ports_to_try().any(|port| port < 61_000));
    let nat = "source out wan from 192.0.2.0/24 to port";
    router.stack.set_filter(Some(published("pass in lan out wan", nat, 2)));
    assert!(router.stack.ports_to_try().all(|port| port > 60_999));
}

#[test]
fn without_rules_nothing_is_asked() {
    let mut router = Router::new(1_500);
    router.stack.set_switch(Switch::ForwardBurst, false);
    one(cross(&mut router, 1, &udp(THERE, HERE)), 0);
    assert!(router.stack.filter().is_none());
}
