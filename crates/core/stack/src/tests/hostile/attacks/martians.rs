//! Impossible source addresses, and the stack's own address as a source. RFC 1122 section 3.2.1.3,
//! RFC 6890, RFC 9293 MUST-57, MUST-63.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Counter, DropReason, IpVersion};
use wire::tcp::Flags;

use super::{MSS, NOW, Scene, nothing_is_left, syn};
use crate::ListenConfig;
use crate::pair::PairConfig;
use crate::tests::craft::{Bench, Tcp, frame_between};

/// A segment whose source equals its destination: an answer to it would be answered for ever.
#[test]
fn land() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let config = PairConfig { version, ..PairConfig::new([3, 4]) };
        let mut s = Scene::with(&config, tcp::Config::default(), &[]);
        let ours = s.bench.ours;
        let mut land = 0;
        for flags in [Flags::SYN, Flags::SYN | Flags::ACK, Flags::ACK, Flags::RST, Flags::FIN] {
            for port in [80, 81] {
                let segment = Tcp { flags, ports: (port, port), ..syn(port) };
                let frame = frame_between(ours, ours, 6, &segment.bytes(ours, ours));
                assert_eq!(s.bench.exchange(&frame, NOW).len(), 0, "{version:?} {flags:?}");
                land += 1;
                assert_eq!(s.dropped(DropReason::TcpLand), land);
            }
        }
        // From another port of the stack's address: no host on the wire has that address.
        let segment = Tcp { ports: (4_000, 80), ..syn(4_000) };
        let frame = frame_between(ours, ours, 6, &segment.bytes(ours, ours));
        assert_eq!(s.bench.exchange(&frame, NOW).len(), 0);
        assert_eq!(s.dropped(DropReason::IpMartianSource), 1);
        assert_eq!(s.bench.stack.connection_count(), 2);
        s.end();
    }
}

fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

fn v6(text: &str) -> IpAddr {
    IpAddr::V6(text.parse::<Ipv6Addr>().expect("an address"))
}

/// Impossible sources, among them both forms of the network's broadcast address, and destinations
/// that are not one host. Such segments are dropped, counted and never answered, even where a
/// listener takes any destination.
/// RFC 9293 MUST-63, MUST-57.
/// RFC 1122 3.2.1.3-b.
#[test]
fn martians() {
    let sources4 = [
        v4(127, 0, 0, 1),
        v4(0, 0, 0, 0),
        v4(0, 1, 2, 3),
        v4(224, 0, 0, 1),
        v4(255, 255, 255, 255),
        v4(192, 0, 2, 255),
        v4(192, 0, 2, 0),
    ];
    let groups4 = [v4(224, 0, 0, 9), v4(255, 255, 255, 255), v4(192, 0, 2, 255), v4(192, 0, 2, 0)];
    martians_of(IpVersion::V4, &sources4, &groups4);
    let sources6 = [v6("::1"), v6("::"), v6("ff02::1"), v6("ff0e::5")];
    martians_of(IpVersion::V6, &sources6, &[v6("ff02::1"), v6("ff0e::5")]);
}

fn martians_of(version: IpVersion, sources: &[IpAddr], groups: &[IpAddr]) {
    let config = PairConfig { version, ..PairConfig::new([3, 4]) };
    let mut s = Scene::with(&config, tcp::Config::default(), &MSS);
    let sources = sources.iter().map(|&src| (src, s.bench.ours));
    let groups = groups.iter().map(|&dst| (s.bench.theirs, dst));
    let lies: Vec<_> = sources.chain(groups).collect();
    for forwarder in [false, true] {
        if forwarder {
            let any = "0.0.0.0:0".parse().expect("an address");
            s.bench.stack.tcp_listen(any, ListenConfig::default()).expect("free");
        }
        for &(src, dst) in &lies {
            for port in [80, 81] {
                for flags in [Flags::SYN, Flags::ACK, Flags::NONE] {
                    let segment = Tcp { flags, ports: (9, port), ..syn(9) };
                    let frame = frame_between(src, dst, 6, &segment.bytes(src, dst));
                    let before = s.bench.stack.drops().total();
                    let answers = s.bench.exchange(&frame, NOW).len();
                    assert_eq!(answers, 0, "{src} {dst} {flags:?}");
                    assert_eq!(s.bench.stack.drops().total(), before + 1, "{src} {dst} {flags:?}");
                }
            }
        }
    }
    assert_eq!(s.bench.stack.connection_count(), 2);
    assert_eq!(s.bench.stack.counters().of(Counter::TcpAccepts), 2);
    s.end();
}

/// Echo requests and datagrams to or from broadcast addresses: answers would cause a storm (RFC
/// 1122 section 3.2.2.6, RFC 2644).
#[test]
fn smurf_and_fraggle() {
    let mut bench = Bench::new(&PairConfig::new([3, 4]));
    let mut echo = vec![8, 0, 0, 0, 0, 1, 0, 1];
    let sum = wire::checksum::Ladder::Word64.sum(&echo);
    echo[2..4].copy_from_slice(&sum.field());
    let mut chargen = vec![0, 7, 0, 19, 0, 9, 0, 0, b'x'];
    let everybody =
        [v4(255, 255, 255, 255), v4(192, 0, 2, 255), v4(192, 0, 2, 0), v4(224, 0, 0, 1)];
    for all in everybody {
        let ends = [(bench.theirs, all), (all, bench.ours)];
        for (src, dst) in ends {
            chargen[6..8].fill(0);
            let sum = crate::tests::craft::transport_sum(src, dst, 17, &chargen);
            chargen[6..8].copy_from_slice(&sum.field());
            for (protocol, packet) in [(1, &echo), (17, &chargen)] {
                for to_all in [false, true] {
                    let mut frame = frame_between(src, dst, protocol, packet);
                    if to_all {
                        frame[..6].fill(0xff);
                    }
                    let before = bench.stack.drops().total();
                    assert_eq!(bench.exchange(&frame, NOW).len(), 0, "{src} {dst} {protocol}");
                    assert_eq!(bench.stack.drops().total(), before + 1, "{src} {dst} {protocol}");
                }
            }
        }
    }
    nothing_is_left(&mut bench, &[], NOW);
}
