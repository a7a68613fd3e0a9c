//! Inconsistent headers: URGENT/11, AMNESIA:33, Ripple20. RFC 9293 sections 3.1 and 3.2, RFC 6093,
//! RFC 791, RFC 2003.

use base::{DropReason, IpVersion};
use tcp::State;
use wire::tcp::{Flags, Options};

use super::{MSS, NOW, Scene, account, parsed, syn};
use crate::pair::PairConfig;
use crate::tests::craft::Tcp;

/// URGENT/11 (CVE-2019-12255 and others): urgent pointers of zero, past the segment, around the
/// sequence space, on SYN and FIN. A read returns only bytes that were sent, and never more than
/// the caller's buffer takes.
#[test]
fn urgent_11() {
    let urg = Flags::ACK | Flags::URG;
    for pointer in [0, 1, 5, 9, 10, 0x7fff, 0xffff] {
        for flags in [urg, urg | Flags::PSH, urg | Flags::FIN] {
            let mut s = Scene::new(&MSS);
            let text = b"0123456789";
            let lie = Tcp { flags, urgent: pointer, payload: text.to_vec(), ..s.next.clone() };
            s.give(&lie);
            s.next.seq += 10 + u32::from(flags.contains(Flags::FIN));
            // The next segment, without data, moves the pointer back again.
            let bare = Tcp { flags: urg, urgent: 0xffff - pointer, ..s.next.clone() };
            s.give(&bare);
            let mut into = [0xee; 64];
            let mut read = Vec::new();
            while let Ok(n @ 1..) = s.bench.stack.tcp_read(s.victim, &mut into[..4]) {
                assert!(
                    n <= 4 && into[4..].iter().all(|&b| b == 0xee),
                    "bytes were written past the caller's limit"
                );
                read.extend_from_slice(&into[..n]);
            }
            // The bytes must be in order; the stack may have taken the urgent byte out of the
            // stream.
            let mut rest = text.iter();
            assert!(read.iter().all(|byte| rest.any(|t| t == byte)), "{pointer}: {read:?}");
            assert!(read.len() >= 9, "{pointer}: {read:?}");
            s.end();
        }
    }
    // An urgent pointer in a SYN, to a listener and to a connection.
    let mut s = Scene::new(&MSS);
    for flags in [Flags::SYN | Flags::URG, Flags::SYN | Flags::FIN | Flags::URG] {
        for pointer in [0, 1, 0xffff] {
            let open = Tcp { flags, urgent: pointer, payload: vec![1; 20], ..syn(77) };
            for (header, _) in s.give(&open) {
                let reset =
                    Tcp { flags: Flags::RST, seq: open.seq + 1, ack: header.seq, ..open.clone() };
                s.give(&reset);
            }
            assert_eq!(s.bench.stack.connection_count(), 2);
            let again = Tcp { flags, urgent: pointer, ..s.next.clone() };
            s.is_challenged(&again);
        }
    }
    // Urgent data for which there is no room: the pointer does not extend the window.
    let mut tcp = tcp::Config::default();
    tcp.set_fixed_buffers(2_000, 2_000);
    let mut small = Scene::with(&PairConfig::new([1, 2]), tcp, &MSS);
    for n in 0..100 {
        let seq = small.next.seq + 100 * n;
        let text =
            Tcp { seq, flags: urg, urgent: 0xffff, payload: vec![1; 100], ..small.next.clone() };
        small.give(&text);
    }
    let (unread, _) = small.bench.stack.tcp_readable(small.victim).expect("open");
    assert!(unread <= 2_000, "{unread} bytes in a buffer of 2,000");
    small.end();
    s.victim_goes_on();
    s.end();
}

/// AMNESIA:33 (CVE-2020-17437 to 17440, 13987 and others): every kind of option with every length,
/// at every position, also past the end of the header. Parsing ends, and the segment is delivered
/// or dropped for bad options.
#[test]
fn amnesia_33() {
    let mut s = Scene::new(&MSS);
    let mut refused = 0;
    for kind in [0_u8, 1, 2, 3, 4, 5, 8, 19, 28, 29, 30, 34, 69, 253, 254, 255] {
        for len in 0..=44_u8 {
            for before in [0, 3, 38] {
                let mut options = vec![1; before];
                options.extend([kind, len]);
                options.resize(40, 0);
                refused += usize::from(Options::parse(&options).is_err());
                let segment = Tcp { options, ..s.next.clone() };
                let answers = s.give(&segment);
                assert!(answers.iter().all(|(h, _)| !h.flags.contains(Flags::RST)));
            }
        }
    }
    assert_eq!(s.dropped(DropReason::TcpOptions), refused as u64);
    assert!(refused > 500, "{refused}");
    // Data offsets less than the header, and past the segment.
    for offset in [0, 1, 4, 6, 15] {
        let frame = s.bench.tcp_frame(&s.next.clone());
        let mut segment = frame[34..].to_vec();
        segment[12] = offset << 4;
        let sum = {
            segment[16..18].fill(0);
            crate::tests::craft::transport_sum(s.bench.theirs, s.bench.ours, 6, &segment)
        };
        segment[16..18].copy_from_slice(&sum.field());
        let frame = s.bench.frame(6, &segment);
        account(&mut s.bench, &frame, s.now);
    }
    assert_eq!(s.dropped(DropReason::TcpDataOffset), 5);
    s.victim_goes_on();
    s.end();
}

/// Ripple20 (CVE-2020-11896 and others): IP lengths that disagree with the frame's, and
/// encapsulated packets. Bytes after the packet are padding and never read; a packet whose length
/// exceeds the frame is dropped.
#[test]
fn ripple20() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let config = PairConfig { version, ..PairConfig::new([3, 4]) };
        let mut s = Scene::with(&config, tcp::Config::default(), &[]);
        let text = Tcp { payload: b"the truth".to_vec(), ..s.next.clone() };
        let good = s.bench.tcp_frame(&text);
        let reason = match version {
            IpVersion::V4 => DropReason::Ipv4TotalLength,
            IpVersion::V6 => DropReason::Ipv6PayloadLength,
        };
        // Lengths greater than what arrived, up to the largest possible.
        let real = (good.len() - 14 - ip_header(version)) as u16;
        let mut lies = 0;
        for more in [1, 2, 40, 1_000, 30_000, 65_535 - 40 - real] {
            let frame = claiming(&good, version, real + more);
            assert_eq!(account(&mut s.bench, &frame, NOW).len(), 0);
            lies += 1;
            assert_eq!(s.dropped(reason), lies);
        }
        // A smaller length truncates the segment: its checksum is wrong, or its header is
        // incomplete.
        for less in 1..=real {
            let frame = claiming(&good, version, real - less);
            account(&mut s.bench, &frame, NOW);
        }
        assert_eq!(s.bench.stack.tcp_readable(s.victim), Some((0, false)));
        // IPv4 in IPv4, IPv6 in IPv4 and so on: the stack decapsulates no packets.
        for protocol in [4, 41, 47, 50, 51, 94] {
            let inner = s.bench.frame(protocol, &good[14..]);
            account(&mut s.bench, &inner, NOW);
        }
        assert_eq!(s.bench.stack.tcp_readable(s.victim), Some((0, false)));
        // Any bytes may follow a whole packet.
        let mut padded = good.clone();
        padded.extend([0xaa; 200]);
        let answers = account(&mut s.bench, &padded, NOW);
        assert!(parsed(&answers).iter().all(|(h, _)| h.flags == Flags::ACK));
        assert_eq!(s.bench.stack.tcp_readable(s.victim), Some((9, false)));
        assert_eq!(s.state(), State::Established);
        s.end();
    }
}

fn ip_header(version: IpVersion) -> usize {
    if version == IpVersion::V4 { 20 } else { 40 }
}

/// The frame with an IP header that claims a payload of `len` bytes, its header checksum corrected.
fn claiming(frame: &[u8], version: IpVersion, len: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if version == IpVersion::V6 {
        frame[18..20].copy_from_slice(&len.to_be_bytes());
        return frame;
    }
    frame[16..18].copy_from_slice(&(len + 20).to_be_bytes());
    frame[24..26].fill(0);
    let sum = wire::checksum::Ladder::Word64.sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.field());
    frame
}
