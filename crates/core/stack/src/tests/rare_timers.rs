//! The one deadline that is kept for all rare timers.

use core::net::{IpAddr, SocketAddr};

use base::{Duration, Instant, IpVersion, Owner};
use wire::protocol;

use super::craft::{Bench, Rng, frame_between};
use crate::pair::PairConfig;
use crate::{Address, AddressState, AutoConfig, PortId, Route, SourceFilter};

const PORT: PortId = PortId(0);

fn host(rng: &mut Rng, version: IpVersion) -> IpAddr {
    let last = rng.below(20) as u8 + 3;
    match version {
        IpVersion::V4 => IpAddr::from([192, 0, 2, last]),
        IpVersion::V6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last)]),
    }
}

/// One action that sets, clears or moves a deadline.
fn anything(bench: &mut Bench, rng: &mut Rng, version: IpVersion, now: Instant) {
    let other = host(rng, version);
    let until = now + Duration::from_millis(u64::from(rng.below(9_000)));
    let stack = &mut bench.stack;
    stack.set_now(now);
    match rng.below(10) {
        0 => {
            let to = SocketAddr::new(other, 80);
            let _ = stack.tcp_connect(to, None, &tcp::Config::default(), Owner::program(), now);
        }
        1 => {
            _ = stack.add_neighbour(PORT, other, crate::pair::mac(other.to_string().len() as u8));
        }
        2 => {
            let bits = if version == IpVersion::V4 { 24 } else { 64 };
            let state = rng.pick(&[AddressState::Tentative, AddressState::Preferred]);
            let (valid_until, preferred_until) = (until, now + Duration::from_secs(2));
            let fixed = Address::fixed(base::Cidr { addr: other, prefix_len: bits });
            let _ =
                stack.add_address(PORT, Address { state, valid_until, preferred_until, ..fixed });
        }
        3 => _ = stack.remove_address(PORT, other),
        4 => {
            let bits = if version == IpVersion::V4 { 32 } else { 128 };
            let dest = base::Cidr { addr: other, prefix_len: bits };
            stack.add_route(Route { expires: until, ..Route::new(dest, None, PORT.0) });
        }
        5 => {
            let group = match version {
                IpVersion::V4 => IpAddr::from([239, 1, 2, rng.below(4) as u8]),
                IpVersion::V6 => IpAddr::from([0xff0e, 0, 0, 0, 0, 0, 0, rng.below(4) as u16 + 9]),
            };
            let any = SocketAddr::new(bench.ours, 0);
            if let Ok(socket) = stack.udp_bind(any, Owner::program()) {
                let _ = stack.udp_set_source_filter(socket, PORT, group, SourceFilter::ANYTHING);
                if rng.one_in(2) {
                    stack.udp_close(socket);
                }
            }
        }
        6 => {
            let _ = stack.autoconfigure(PORT, AutoConfig::default());
        }
        7 => _ = stack.stop_autoconf(PORT),
        8 if version == IpVersion::V4 => {
            // The first fragment of a datagram, whose other fragments may never arrive.
            let mut frame = frame_between(bench.theirs, bench.ours, protocol::UDP, &[7; 64]);
            let id = (rng.below(3) as u16).to_be_bytes();
            frame[18..22].copy_from_slice(&[id[0], id[1], 0x20, 0]);
            frame[24..26].fill(0);
            let sum = wire::checksum::Ladder::Word64.sum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.field());
            bench.exchange(&frame, now);
        }
        _ => {
            let _ = stack.add_link_local_v4(PORT);
        }
    }
}

/// Whatever happens, in any order, the kept deadline is never later than the earliest of the rare
/// deadlines.
#[test]
fn the_first_deadline_is_never_late() {
    for seed in 0..40 {
        let version = if seed % 2 == 0 { IpVersion::V4 } else { IpVersion::V6 };
        let config = PairConfig { version, ..PairConfig::new([seed, 5]) };
        let mut bench = Bench::among_strangers(&config);
        let (mut rng, mut now) = (Rng(seed), Instant::from_nanos(5_000_000_000));
        let mut due = 0;
        for _ in 0..300 {
            anything(&mut bench, &mut rng, version, now);
            let stack = &bench.stack;
            assert!(
                stack.rare_timers.next_deadline() <= stack.first_rare_deadline(),
                "seed {seed}"
            );
            assert!(stack.rare_timers.lifetimes <= stack.first_lifetime(), "seed {seed}");
            if rng.one_in(2) {
                // Sometimes exactly at the deadline.
                let next = stack.next_deadline();
                let step = now + Duration::from_millis(u64::from(rng.below(2_000)));
                now = if next > now && rng.one_in(2) { next.min(step) } else { step };
                due += usize::from(stack.rare_timers.is_due(now));
                bench.poll(now);
                assert!(
                    bench.stack.rare_timers.next_deadline() <= bench.stack.first_rare_deadline(),
                    "seed {seed}"
                );
            }
        }
        assert!(due > 20, "seed {seed}: {due} times");
    }
}

/// A deadline that was cleared costs only one check, at its time.
#[test]
fn what_is_cleared_is_forgotten_at_its_time() {
    let mut bench = Bench::among_strangers(&PairConfig::new([1, 5]));
    let now = Instant::from_nanos(5_000_000_000);
    let to = SocketAddr::new(bench.theirs, 9);
    let socket = bench.stack.udp_bind(bench.listen_at(7), Owner::program()).expect("free");
    bench.stack.udp_send(socket, to, b"whose link address is asked for", now).expect("queued");
    let again = now + inet::neighbour::RETRANSMIT;
    assert_eq!(bench.stack.next_deadline(), again);
    bench.stack.add_neighbour(PORT, to.ip(), crate::pair::mac(2));
    assert_eq!(bench.stack.next_deadline(), again, "clearing moved the kept deadline");
    bench.poll(again);
    assert_eq!(bench.stack.next_deadline(), Instant::NEVER);
}
