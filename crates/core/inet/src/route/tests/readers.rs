//! Threads read while one writes.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::*;

/// A route whose port and MTU both identify its prefix.
fn tagged(dest: Cidr, tag: u16) -> Route {
    let mtu = Mtu::new(1000 + usize::from(tag));
    let via = IpAddr::from([192, 0, 2, tag as u8]);
    Route { mtu, ..Route::new(dest, Some(via), tag) }
}

fn cidr(addr: u32, len: u8) -> Cidr {
    Cidr::new(addr.to_be_bytes().into(), len).expect("a prefix").network()
}

/// Add and remove prefixes that contain one address, below a prefix that stays. `offset` makes the
/// next hops of a round differ from those of the rounds before and after, so that records are freed
/// and used again all the time.
fn churn(routes: &mut Routes, rounds: u32, addr: u32) {
    for round in 0..rounds {
        let offset = (round % 4) as u16 * 40;
        for len in [26, 30, 32, 25, 20, 13] {
            routes.add(tagged(cidr(addr, len), offset + u16::from(len)));
            routes.add(tagged(cidr(addr ^ 1 << (32 - len), len), offset + 39));
        }
        for len in [13, 32, 25, 26, 30, 20] {
            for addr in [addr, addr ^ 1 << (32 - len)] {
                routes.remove_exact(cidr(addr, len), MAIN_TABLE, |_| true);
            }
        }
    }
}

/// Look one address up until `stop` is set. Each result must be one that the writer has set.
fn watch(fib: &Fib, dst: u32, stop: &AtomicBool, lookups: &AtomicU64) {
    let mut reader = fib.reader();
    let addr = IpAddr::from(dst.to_be_bytes());
    while !stop.load(Ordering::Relaxed) {
        let view = reader.pin();
        for _ in 0..32 {
            let group = view.lookup(addr, MAIN_TABLE);
            let hop = view.next_hop(group, addr, 0).expect("the default route is always there");
            let lengths = [8, 13, 20, 25, 26, 30, 32];
            let tag = hop.port % 40;
            assert!(
                lengths.contains(&tag),
                "the next hop of another prefix was found: port {}",
                hop.port
            );
            let mtu = hop.mtu.expect("an MTU").bytes();
            assert_eq!(mtu, 1000 + usize::from(hop.port), "a record changed while it was read");
            assert_eq!(hop.neighbour, IpAddr::from([192, 0, 2, hop.port as u8]));
        }
        lookups.fetch_add(32, Ordering::Relaxed);
    }
}

#[test]
fn a_reader_finds_a_next_hop_of_before_or_after_a_change() {
    const ADDR: u32 = 0x0a01_0203;
    for is_wide in [false, true] {
        let mut routes = Routes::default();
        routes.add(tagged(cidr(ADDR, 8), 8));
        if is_wide {
            crowd(&mut routes);
        }
        let (fib, stop, lookups) = (routes.fib(), AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let readers: Vec<_> =
                (0..3).map(|_| scope.spawn(|| watch(&fib, ADDR, &stop, &lookups))).collect();
            let mut rounds = 0;
            while rounds < 2_000 || (lookups.load(Ordering::Relaxed) < 100_000 && rounds < 200_000)
            {
                churn(&mut routes, 100, ADDR);
                rounds += 100;
                if readers.iter().any(thread::ScopedJoinHandle::is_finished) {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(lookups.load(Ordering::Relaxed) > 0);
    }
}

/// A route that replaces all earlier ones of this function, with the gateway `number`.
fn by_gateway(number: u32) -> Route {
    Route::new(cidr(0x0a00_0000, 8), Some(IpAddr::from(number.to_be_bytes())), 1)
}

#[test]
fn a_burst_without_end_stops_the_writer_and_not_the_memory() {
    let mut routes = Routes::default();
    let mut reader = routes.fib().reader();
    let view = reader.pin();
    let most = 2 * RETIRED_MAX as u32;
    let added = (0..most).take_while(|&n| routes.add(by_gateway(n))).count();
    assert_eq!(added, RETIRED_MAX + 1);
    // Removing routes always works.
    assert_eq!((routes.remove(|_| true), routes.add(by_gateway(0))), (1, false));
    drop(view);
    assert!(routes.add(by_gateway(0)), "records are still held after the end of the burst");
}

#[test]
fn what_a_burst_holds_is_not_used_again_before_its_end() {
    let mut routes = Routes::default();
    let dst: IpAddr = "10.0.0.1".parse().expect("an address");
    routes.add(by_gateway(1));
    let fib = routes.fib();
    let mut reader = fib.reader();
    let view = reader.pin();
    let group = view.lookup(dst, MAIN_TABLE);
    for n in 2..200 {
        routes.add(by_gateway(n));
    }
    let first: IpAddr = "0.0.0.1".parse().expect("an address");
    assert_eq!(view.next_hop(group, dst, 0).map(|hop| hop.neighbour), Some(first));
    let held = format!("{routes:?}");
    assert!(held.contains("groups: 199, retired: 198"), "{held}");
    drop(view);
    for n in 200..400 {
        routes.add(by_gateway(n));
    }
    drop((reader, fib));
    routes.add(by_gateway(1));
    let freed = format!("{routes:?}");
    assert!(freed.contains("groups: 1, retired: 0"), "{freed}");
}
