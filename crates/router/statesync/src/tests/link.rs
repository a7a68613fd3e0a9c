//! What a link may do to datagrams: everything comes once and in order, or all states are asked
//! for.

use proptest::prelude::*;

use super::*;

/// Datagrams on the way to a side, and what becomes of each.
struct Link {
    way: Vec<(usize, Vec<u8>)>,
    fates: Vec<u8>,
    at: usize,
    losses: u64,
}

impl Link {
    fn fate(&mut self) -> u8 {
        self.at += 1;
        let fates = self.fates.len().max(1);
        self.fates.get(self.at % fates).copied().unwrap_or(255)
    }

    fn send(&mut self, to: usize, datagram: Vec<u8>) {
        match self.fate() {
            0..=20 => self.losses += 1,
            21..=40 => self.way.extend([(to, datagram.clone()), (to, datagram)]),
            41..=60 => self.way.insert(0, (to, datagram)),
            61..=70 => {
                let mut broken = datagram;
                let at = self.at % broken.len();
                broken[at] ^= 0x20;
                self.losses += 1;
                self.way.push((to, broken));
            }
            _ => self.way.push((to, datagram)),
        }
    }
}

fn step(pair: &mut Pair, link: &mut Link) {
    pair.now += STEP;
    for side in [0, 1] {
        for datagram in pair.due(side) {
            link.send(1 - side, datagram);
        }
        pair.all(side);
    }
    let keep = if link.fate().is_multiple_of(4) { link.way.len() / 2 } else { 0 };
    for (to, datagram) in link.way.split_off(keep) {
        pair.give(to, &datagram);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn everything_comes_once_and_in_order(
        fates in proptest::collection::vec(any::<u8>(), 20..200),
    ) {
        let mut pair = Pair::up();
        pair.events = [vec![], vec![]];
        let mut link = Link { way: vec![], fates, at: 0, losses: 0 };
        let mut next = 0;
        for _ in 0..60 {
            for _ in 0..12 {
                let (side, now) = (&mut pair.sides[0], pair.now);
                if side.room() > 0 && side.push(&Copy::State(state(next)), now) {
                    next += 1;
                }
            }
            step(&mut pair, &mut link);
        }
        // The link is a good one from now on.
        link.fates = vec![255];
        for _ in 0..500 {
            step(&mut pair, &mut link);
        }
        prop_assert!(pair.sides.iter().all(Session::is_up));
        let states = pair.states(1);
        prop_assert!(states.windows(2).all(|two| two[0] < two[1]), "{states:?}");
        let counts = *pair.sides[1].counts();
        if counts.lost == 0 && pair.sides[1].first_version() == 1 << 48 {
            prop_assert_eq!(states, (0..next).collect::<Vec<_>>());
        } else {
            prop_assert!(counts.bulks_received > 1, "{counts:?}");
        }
    }

    #[test]
    fn any_bytes_are_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        kind in 0_u8..6,
    ) {
        let mut pair = Pair::up();
        let before = *pair.sides[1].counts();
        let mut bytes = bytes;
        if let Some([version, of]) = bytes.first_chunk_mut() {
            (*version, *of) = (1, kind);
        }
        pair.give(1, &bytes);
        let refused = |counts: &crate::Counts| -> u64 {
            Refused::ALL.iter().map(|why| counts.refused(*why)).sum()
        };
        prop_assert_eq!(refused(pair.sides[1].counts()), refused(&before) + 1);
    }
}
