//! IPv4 options: source routes are dropped, malformed options cause an error, and other options are
//! ignored. RFC 791 section 3.1, RFC 1122 section 3.2.1.8, RFC 7126.

use core::net::SocketAddr;

use base::{Counter, DropReason, Duration, IpVersion, Limit, Owner};
use wire::checksum::Ladder;
use wire::tcp::Flags;

use super::craft::{Bench, Rng, Tcp, parse_tcp};
use super::icmp::{NOW, bench};
use crate::ListenConfig;

/// Source routes with hops left, with none left, and empty, and with every wrong length and
/// pointer.
const SOURCE_ROUTES: [&[u8]; 9] = [
    &[131, 7, 4, 10, 0, 0, 1, 0],
    &[137, 7, 4, 10, 0, 0, 1, 0],
    &[131, 7, 8, 10, 0, 0, 1, 0],
    &[131, 3, 4, 0],
    &[131, 0, 0, 0],
    &[131, 255, 255, 255],
    &[137, 2, 0, 0],
    &[1, 1, 1, 131],
    &[1, 131, 39, 200, 1, 2, 3, 4],
];

/// The frame with these options in its IPv4 header; their length is a multiple of four bytes.
fn with_options(frame: &[u8], options: &[u8]) -> Vec<u8> {
    let mut out = frame[..34].to_vec();
    out.extend_from_slice(options);
    out.extend_from_slice(&frame[34..]);
    out[14] = 0x40 | ((20 + options.len()) / 4) as u8;
    let total = (out.len() - 14) as u16;
    out[16..18].copy_from_slice(&total.to_be_bytes());
    out[24..26].fill(0);
    let sum = Ladder::Word64.sum(&out[14..34 + options.len()]);
    out[24..26].copy_from_slice(&sum.field());
    out
}

fn syn(bench: &Bench) -> Vec<u8> {
    bench.tcp_frame(&Tcp {
        ports: (2_000, 80),
        seq: base::SeqNumber(1),
        ack: base::SeqNumber(0),
        flags: Flags::SYN,
        window: 60_000,
        urgent: 0,
        options: Vec::new(),
        payload: Vec::new(),
    })
}

/// A datagram to port 7, without a checksum.
fn datagram(bench: &Bench) -> Vec<u8> {
    bench.frame(17, &[0, 9, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4])
}

fn echo(bench: &Bench) -> Vec<u8> {
    let mut message = vec![0; 16];
    wire::icmp::Header::EchoRequest { id: 7, seq: 1 }.emit(&mut message);
    bench.frame(1, &message)
}

/// A stack that would answer an echo request, the datagram and a SYN.
fn ready() -> Bench {
    let mut bench = bench(IpVersion::V4);
    bench.stack.tcp_listen(bench.listen_at(80), ListenConfig::default()).expect("free");
    bench
}

/// RFC 7126 sections 4.3 and 4.4.
#[test]
fn ipv4_source_route_is_dropped() {
    let mut bench = ready();
    let mut dropped = 0;
    for options in SOURCE_ROUTES {
        for frame in [syn(&bench), datagram(&bench), echo(&bench)] {
            let frame = with_options(&frame, options);
            assert!(bench.exchange(&frame, NOW).is_empty(), "{options:?}");
            dropped += 1;
            assert_eq!(bench.stack.drops().of(DropReason::Ipv4SourceRoute), dropped);
        }
    }
    assert_eq!(bench.stack.drops().total(), dropped);
    assert_eq!(bench.stack.connection_count(), 0);
}

/// The heap overflows of URGENT/11 (CVE-2019-12256) were caused by options of packets that were
/// quoted in errors. This stack quotes packets as bytes, and does not interpret them.
#[test]
fn urgent11_lsrr_options_are_bounded() {
    let mut bench = ready();
    let mut rng = Rng(11);
    for n in 0..20_000u32 {
        let words = 1 + rng.below(10) as usize;
        let mut options: Vec<u8> = (0..4 * words).map(|_| rng.next() as u8).collect();
        // Half of the options contain a source route of any length and pointer.
        if n % 2 == 0 {
            let at = rng.below(options.len() as u32) as usize;
            options[..at].fill(1);
            options[at] = rng.pick(&[131, 137]);
        }
        let frame = match n % 3 {
            0 => syn(&bench),
            1 => datagram(&bench),
            _ => echo(&bench),
        };
        let frame = with_options(&frame, &options);
        let before = bench.stack.drops().of(DropReason::Ipv4SourceRoute);
        let answers = bench.exchange(&frame, NOW);
        assert!(answers.len() <= 1 && answers.iter().all(|frame| frame.len() <= 14 + 576));
        assert!(
            answers.iter().all(|frame| frame[14] == 0x45),
            "the stack sent a header with options"
        );
        if n % 2 == 0 {
            assert_eq!(bench.stack.drops().of(DropReason::Ipv4SourceRoute), before + 1);
            assert!(answers.is_empty());
        }
    }
    let connections = bench.stack.connection_count();
    assert!(connections <= 1, "{connections} connections of one repeated SYN");
    assert!(bench.stack.pool().outstanding() < 100);
}

/// RFC 1122 3.2.2.5-a, 3.2.1.8-c.
#[test]
fn malformed_options_draw_a_parameter_problem_within_its_limit() {
    let mut bench = ready();
    for (options, pointer) in [
        (&[7, 0, 0, 0][..], 20),
        (&[7, 1, 0, 0], 20),
        (&[1, 68, 4, 0], 21),
        (&[1, 1, 1, 7], 23),
        (&[7, 7, 4, 0, 0, 0, 0, 130], 27),
    ] {
        for frame in [syn(&bench), datagram(&bench)] {
            let frame = with_options(&frame, options);
            let answers = bench.exchange(&frame, NOW);
            assert_eq!(answers.len(), 1, "{options:?}");
            let message = &answers[0][34..];
            let header = wire::icmp::Header::parse(message).expect("ICMP");
            assert_eq!(header, wire::icmp::Header::ParameterProblem { code: 0, pointer });
            assert_eq!(message[8..], frame[14..], "the error quotes another packet");
        }
        // No error is sent about an ICMP error, a later fragment, or a broadcast.
        let mut later = datagram(&bench);
        later[21] = 2;
        let mut broadcast = datagram(&bench);
        broadcast[33] = 255;
        for frame in [echo(&bench), later, broadcast] {
            let frame = with_options(&frame, options);
            assert!(bench.exchange(&frame, NOW).is_empty());
        }
    }
    assert_eq!(bench.stack.drops().of(DropReason::Ipv4Options), 25);
    assert_eq!(bench.stack.counters().of(Counter::IcmpErrorsOut), 10);
    bench.stack.core.cx.budget.set(Limit::IcmpErrorsPerSecond, 3);
    let later = NOW + Duration::from_secs(5);
    let frame = with_options(&datagram(&bench), &[7, 0, 0, 0]);
    let answers: usize = (0..100).map(|_| bench.exchange(&frame, later).len()).sum();
    assert!(answers <= 3, "{answers}");
}

/// Record route, timestamp, security, router alert and unknown options: the packet is accepted as
/// if it had no options. RFC 7126 sections 4.5 to 4.15.
/// RFC 1122 3.2.1.8-b.
#[test]
fn harmless_options_are_ignored() {
    for options in [
        &[7, 7, 4, 0, 0, 0, 0, 0][..],
        &[68, 8, 5, 0, 0, 0, 0, 0],
        &[130, 4, 1, 2],
        &[133, 4, 1, 2],
        &[148, 4, 0, 0],
        &[200, 4, 9, 9],
        &[0, 131, 7, 0],
        &[1, 1, 1, 0],
    ] {
        let mut bench = ready();
        let at = SocketAddr::new(bench.ours, 7);
        let socket = bench.stack.udp_bind(at, Owner::program()).expect("free");
        let frame = with_options(&syn(&bench), options);
        let answers = bench.exchange(&frame, NOW);
        let (header, _) = parse_tcp(&answers[0]).expect("TCP");
        assert_eq!(header.flags, Flags::SYN | Flags::ACK, "{options:?}");
        let frame = with_options(&datagram(&bench), options);
        bench.exchange(&frame, NOW);
        let datagram = bench.stack.udp_receive(socket).expect("delivered");
        assert_eq!(datagram.payload.as_slice(), [1, 2, 3, 4]);
        let frame = with_options(&echo(&bench), options);
        let reply = bench.exchange(&frame, NOW).remove(0);
        assert_eq!((reply[14], reply[34]), (0x45, 0), "not an echo reply without options");
    }
}
