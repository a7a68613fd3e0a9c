use base::{DropReason, IpVersion, Owner};
use wire::tcp::Flags;

use super::{NOW, account, established, nothing_is_left};
use crate::pair::PairConfig;
use crate::tests::craft::{Bench, Rng, Tcp, transport_sum};

/// A valid frame of each kind.
fn valid(bench: &Bench, next: &Tcp, rng: &mut Rng) -> Vec<u8> {
    let len = rng.below(100) as usize;
    let payload: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
    let v6 = bench.ours.is_ipv6();
    match rng.below(6) {
        0 => {
            let mut datagram = vec![9, 9, 0, 53, 0, (8 + len) as u8, 0, 0];
            datagram.extend(payload);
            let sum = transport_sum(bench.theirs, bench.ours, 17, &datagram);
            datagram[6..8].copy_from_slice(&sum.field());
            bench.frame(17, &datagram)
        }
        1 => {
            let mut echo = vec![if v6 { 128 } else { 8 }, 0, 0, 0, 1, 2, 3, 4];
            echo.extend(payload);
            let sum = match v6 {
                true => transport_sum(bench.theirs, bench.ours, 58, &echo),
                false => wire::checksum::Ladder::Word64.sum(&echo),
            };
            echo[2..4].copy_from_slice(&sum.field());
            bench.frame(if v6 { 58 } else { 1 }, &echo)
        }
        2 => bench.frame(rng.pick(&[0, 43, 44, 60, 59, 51, 50, 4, 41]), &payload),
        3 => {
            let ports = (3_000 + rng.below(50) as u16, rng.pick(&[80, 81]));
            let flags = Flags(rng.next() as u8);
            bench.tcp_frame(&Tcp { ports, flags, payload, ..next.clone() })
        }
        _ => {
            let flags = if rng.one_in(3) { Flags(rng.next() as u8) } else { Flags::ACK };
            let seq = next.seq + rng.pick(&[0, 0, 1, 500, u32::MAX, 1 << 31]);
            let ack = next.ack + rng.pick(&[0, 0, 1, 70_000, u32::MAX, 1 << 31]);
            let options = (0..4 * rng.below(11)).map(|_| rng.below(10) as u8).collect();
            let urgent = rng.next() as u16;
            bench.tcp_frame(&Tcp { flags, seq, ack, payload, options, urgent, ..next.clone() })
        }
    }
}

/// Change up to three bytes of a header, truncate the frame or make it longer.
fn mutate(frame: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.below(4) {
        let at = rng.below(frame.len().min(100) as u32) as usize;
        frame[at] = match rng.below(4) {
            0 => 0,
            1 => 0xff,
            2 => frame[at].wrapping_add(rng.pick(&[1, 4, 255])),
            _ => rng.next() as u8,
        };
    }
    match rng.below(4) {
        0 => frame.truncate(rng.below(frame.len() as u32 + 1) as usize),
        1 => frame.extend((0..rng.below(60)).map(|i| i as u8)),
        _ => {}
    }
}

/// Corrects the IPv4 header checksum, so that later checks are reached.
fn fix_checksums(frame: &mut [u8]) {
    if let Some(header) = frame.get_mut(14..34)
        && header[0] == 0x45
    {
        header[10..12].fill(0);
        let field = wire::checksum::Ladder::Word64.sum(header).field();
        header[10..12].copy_from_slice(&field);
    }
}

fn mutated_frames(version: IpVersion) {
    let mut reasons = std::collections::BTreeMap::new();
    for seed in 0..150 {
        let mut rng = Rng(seed);
        let mut config = PairConfig::new([seed, 2]);
        config.version = version;
        // In half of the runs no checksums are verified, so that bad values reach the later checks.
        let sums = rng.one_in(2);
        config.stack.switches = config.stack.switches.with(base::Switch::ChecksumRx, sums);
        let (mut bench, handle, next) = established(&config, tcp::Config::default());
        let local = bench.listen_at(53);
        let udp = bench.stack.udp_bind(local, Owner::program()).expect("free");
        let mut handles = vec![handle];
        for _ in 0..100 {
            let mut frame = valid(&bench, &next, &mut rng);
            if !rng.one_in(3) {
                mutate(&mut frame, &mut rng);
                if rng.one_in(2) {
                    fix_checksums(&mut frame);
                }
            }
            account(&mut bench, &frame, NOW);
            while let Some(event) = bench.stack.next_event() {
                if let crate::Event::Accept(listener) = event {
                    handles.extend(bench.stack.tcp_accept(listener));
                }
            }
        }
        for (reason, n) in bench.stack.drops().nonzero() {
            *reasons.entry(reason.name()).or_insert(0) += n;
        }
        let held = bench.stack.pool().held_bytes();
        assert!(held < 8 << 20, "{held} bytes");
        bench.stack.udp_close(udp);
        nothing_is_left(&mut bench, &handles, NOW);
    }
    println!("{reasons:?}");
    assert!(reasons.len() > 20, "only {reasons:?}");
}

#[test]
fn a_mutated_frame_is_delivered_or_dropped_under_one_reason_v4() {
    mutated_frames(IpVersion::V4);
}

#[test]
fn a_mutated_frame_is_delivered_or_dropped_under_one_reason_v6() {
    mutated_frames(IpVersion::V6);
}

/// Gives one bad segment to an established connection, and checks the reason of its drop.
fn refused(change: impl FnOnce(&mut Tcp), reason: DropReason) {
    let (mut bench, handle, mut next) =
        established(&PairConfig::new([3, 4]), tcp::Config::default());
    change(&mut next);
    let frame = bench.tcp_frame(&next);
    account(&mut bench, &frame, NOW);
    let seen: Vec<_> = bench.stack.drops().nonzero().collect();
    assert_eq!(seen, [(reason, 1)]);
    nothing_is_left(&mut bench, &[handle], NOW);
}

#[test]
fn each_lie_has_its_reason() {
    refused(|s| s.options = vec![8, 0, 0, 0], DropReason::TcpOptions);
    refused(|s| s.options = vec![1, 1, 8, 1], DropReason::TcpOptions);
    refused(|s| s.options = vec![2, 40, 1, 1], DropReason::TcpOptions);
    refused(|s| s.flags = Flags::SYN, DropReason::TcpSynInWindow);
    refused(|s| s.flags = Flags::SYN | Flags::ACK, DropReason::TcpSynInWindow);
    refused(|s| s.flags = Flags::NONE, DropReason::TcpNoAck);
    refused(|s| s.seq = s.seq - 5_000, DropReason::TcpDuplicate);
    refused(|s| s.seq += 1 << 30, DropReason::TcpOutOfWindow);
    refused(|s| s.ack += 1, DropReason::TcpAckUnsent);
    refused(|s| s.ack = s.ack - (1 << 30), DropReason::TcpAckTooOld);
    refused(|s| (s.seq, s.flags) = (s.seq + 1, Flags::RST), DropReason::TcpBadRst);
    // Data in a RST changes nothing (RFC 9293 section 3.10.7.4 allows a RST to contain its cause).
    refused(|s| (s.flags, s.payload) = (Flags::RST, vec![1; 50]), DropReason::TcpRst);
}
