//! A connection goes on at the partner, whose copy of its windows is old.

use super::*;
use crate::states::Phase;

const ACK: Flags = Flags::ACK;
const SYN: Flags = Flags::SYN;
const FIN: Flags = Flags::FIN;

/// A connection: its ends, the outside endpoint, and the next number of each side.
struct Connection {
    from: End,
    outside: End,
    to: End,
    next: [u32; 2],
}

impl Connection {
    fn open(a: &mut Router, port: u16) -> Connection {
        let (from, to, next) = ((inside(2), port), (REMOTE, 443), [1_000, 90_000]);
        let out = a.cross(LAN, tcp((from, to), SYN, [next[0], 0], 0)).expect("the SYN");
        let outside = ends(&out)[0];
        let mut it = Connection { from, outside, to, next: [1_001, 90_001] };
        assert!(a.cross(WAN, tcp((to, outside), SYN | ACK, [next[1], it.next[0]], 0)).is_some());
        assert!(it.send(a, 0, 0));
        it.talk(a, 2);
        it
    }

    /// A segment of `side` with `data` bytes, from where the side is.
    fn send(&mut self, router: &mut Router, side: usize, data: usize) -> bool {
        let numbers = [self.next[side], self.next[1 - side]];
        self.next[side] = self.next[side].wrapping_add(data as u32);
        self.segment(router, side, ACK, numbers, data)
    }

    fn segment(
        &self,
        router: &mut Router,
        side: usize,
        flags: Flags,
        numbers: [u32; 2],
        data: usize,
    ) -> bool {
        match side {
            0 => router.cross(LAN, tcp((self.from, self.to), flags, numbers, data)).is_some(),
            _ => router.cross(WAN, tcp((self.to, self.outside), flags, numbers, data)).is_some(),
        }
    }

    /// Each side sends, and the other one acknowledges.
    fn talk(&mut self, router: &mut Router, times: usize) {
        for _ in 0..times {
            for side in [0, 1] {
                assert!(self.send(router, side, 1_000), "data of side {side}");
                assert!(self.send(router, 1 - side, 0), "the ACK for it");
            }
        }
    }

    fn phase(router: &Router) -> (Phase, bool) {
        let mut found = Vec::new();
        router.firewall.states().page(Cursor::default(), 100, router.now, |_, state| {
            found.push((state.phase, state.loose));
        });
        found[0]
    }
}

fn switched(moves: u32) -> (Router, Router, Connection) {
    let (mut a, mut b) = (Router::new(RULES, POOL, 5), Router::new(RULES, POOL, 900));
    let mut it = Connection::open(&mut a, 4_000);
    assert_eq!(copy(&mut a, &mut b, 1), 1);
    it.next = it.next.map(|next| next.wrapping_add(moves));
    (a, b, it)
}

#[test]
fn windows_are_picked_up_wherever_the_connection_is_and_checked_then() {
    for moves in [0, 40_000, 1 << 30, 1 << 31, u32::MAX - 90_000] {
        let (_, mut b, mut it) = switched(moves);
        assert_eq!(Connection::phase(&b), (Phase::TcpEstablished, true));
        it.talk(&mut b, 1);
        assert_eq!(Connection::phase(&b), (Phase::TcpEstablished, false), "{moves}");
        let [seq, ack] = it.next;
        for (numbers, flags) in [
            ([seq.wrapping_add(1 << 20), ack], ACK),
            ([seq, ack.wrapping_add(1 << 20)], ACK),
            ([seq.wrapping_sub(1 << 20), ack], ACK),
            ([seq.wrapping_add(1 << 20), ack], Flags::RST),
        ] {
            assert!(!it.segment(&mut b, 0, flags, numbers, 10), "{moves} {numbers:?}");
        }
        it.talk(&mut b, 200);
        assert!(it.segment(&mut b, 0, FIN | ACK, it.next, 0));
        assert_eq!(Connection::phase(&b).0, Phase::TcpHalfClosed);
    }
}

/// All of a window passed the first router but its first segment, which comes again.
#[test]
fn an_ack_for_what_the_first_router_has_seen_passes() {
    let (_, mut b, mut it) = switched(500_000);
    let lost = it.next[0];
    assert!(it.segment(&mut b, 0, ACK, [lost, it.next[1]], 1_000), "sent again");
    it.next[0] = lost.wrapping_add(1_000);
    assert!(it.send(&mut b, 1, 0), "it is acknowledged");
    assert!(!Connection::phase(&b).1, "the windows are known");
    it.next[0] = lost.wrapping_add(32_000);
    assert!(it.send(&mut b, 1, 0), "and all that was behind it");
    it.talk(&mut b, 100);
}

#[test]
fn segments_that_fit_nothing_do_not_settle_the_windows() {
    let (_, mut b, mut it) = switched(7_000_000);
    // A host that does not see the connection guesses numbers, in both directions.
    for side in [0, 1, 0, 1] {
        let forged = [0x1234_5678_u32.wrapping_mul(side as u32 + 3), 0x7bcd_ef01];
        it.segment(&mut b, side, ACK, forged, 10);
    }
    assert!(Connection::phase(&b).1);
    it.segment(&mut b, 0, Flags::RST, [77, 0], 0);
    assert_eq!(Connection::phase(&b).0, Phase::TcpReset);
    it.talk(&mut b, 2);
    assert_eq!(Connection::phase(&b), (Phase::TcpEstablished, false));
}

#[test]
fn an_end_at_the_partner_is_an_end() {
    let (_, mut b, it) = switched(3_000);
    let [seq, ack] = it.next;
    assert!(it.segment(&mut b, 0, FIN | ACK, [seq, ack], 0));
    assert!(it.segment(&mut b, 1, FIN | ACK, [ack, seq + 1], 0));
    assert!(it.segment(&mut b, 0, ACK, [seq + 1, ack + 1], 0));
    let (phase, _) = Connection::phase(&b);
    assert!(matches!(phase, Phase::TcpClosing | Phase::TcpTimeWait), "{phase:?}");
}

#[test]
fn a_connection_that_is_over_is_copied_and_gives_way() {
    let (mut a, mut b, it) = switched(0);
    let [seq, _] = it.next;
    assert!(it.segment(&mut a, 0, Flags::RST, [seq, 0], 0));
    assert_eq!(copy(&mut a, &mut b, 2), 0);
    assert_eq!(Connection::phase(&b), (Phase::TcpReset, false));
    assert!(b.cross(LAN, tcp((it.from, it.to), SYN, [1, 0], 0)).is_some(), "a new one");
    assert_eq!(Connection::phase(&b).0, Phase::TcpSynSent);
}

#[test]
fn a_connection_goes_back_to_the_first_router() {
    let (mut a, mut b, mut it) = switched(5_000_000);
    it.talk(&mut b, 3);
    let back = b.all(Which::Changed);
    // The first router has begun anew.
    let mut anew = Router::new(RULES, POOL, 4_000);
    assert_eq!(anew.take(&back[0], 1), Ok(Imported::New));
    it.talk(&mut anew, 3);
    assert!(!Connection::phase(&anew).1);
    // The old one has had no packet for some seconds.
    a.wait(Duration::from_secs(4));
    assert_eq!(a.take(&back[0], 1), Ok(Imported::Updated));
    it.talk(&mut a, 3);
    assert!(!Connection::phase(&a).1);
}
