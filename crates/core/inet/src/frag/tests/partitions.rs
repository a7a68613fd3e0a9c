//! Any partition, any order, duplicates, and forged fragments in between.

use proptest::prelude::*;

use super::{Cut, Host, NOW, cut_at, data_of, packet, pattern};
use base::DropReason;

/// Places at which to cut `len` bytes: multiples of 8, in order, each once.
fn places(len: usize, drawn: &[u16]) -> Vec<usize> {
    let mut places: Vec<usize> =
        drawn.iter().map(|&at| usize::from(at) % len / 8 * 8).filter(|&at| at >= 8).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// The same cuts in another order: a Fisher-Yates shuffle by `draws`.
fn shuffle<T>(items: &mut [T], mut draw: u64) {
    for i in (1..items.len()).rev() {
        draw = draw.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        items.swap(i, (draw >> 33) as usize % (i + 1));
    }
}

proptest! {
    /// RFC 791 section 3.2, RFC 8200 4.5-b.
    #[test]
    fn any_partition_in_any_order_with_duplicates_gives_the_datagram_back(
        v6: bool,
        len in 17_usize..65_516,
        drawn in prop::collection::vec(any::<u16>(), 1..60),
        twice in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        draw: u64,
    ) {
        let data = pattern(len);
        let places = places(len, &drawn);
        prop_assume!(!places.is_empty());
        let mut cuts = cut_at(&data, &places);
        let again: Vec<Cut> = twice.iter().map(|i| i.get(&cuts).clone()).collect();
        let count = cuts.len();
        cuts.extend(again);
        shuffle(&mut cuts, draw);
        let mut host = Host::new();
        let mut given = Vec::new();
        let mut whole = None;
        for cut in &cuts {
            let seen = given.contains(&cut.begin);
            match host.give(&packet(v6, 7, cut), NOW) {
                Ok(Some(datagram)) => {
                    prop_assert_eq!(&data_of(&datagram), &data);
                    whole = Some(given.len());
                    break;
                }
                Ok(None) => prop_assert!(!seen),
                Err((reason, problem)) => {
                    prop_assert_eq!((reason, problem), (DropReason::FragmentDuplicate, None));
                    prop_assert!(seen);
                }
            }
            if !seen {
                given.push(cut.begin);
            }
        }
        prop_assert_eq!(whole, Some(count - 1), "it was not complete with the last fragment");
        prop_assert!(host.frags.is_empty() && host.frags.bytes() == 0);
    }

    /// RFC 5722 4-a: a forged fragment that overlaps the sender's fragments never becomes part of a
    /// datagram. At least one end of it is inside one of the sender's fragments.
    #[test]
    fn a_forged_fragment_that_overlaps_gives_the_datagram_or_nothing(
        v6: bool,
        len in 64_usize..4_000,
        drawn in prop::collection::vec(any::<u16>(), 1..12),
        forged_at: u16,
        forged_len in 1_usize..600,
        draw: u64,
        sends_again: bool,
    ) {
        let data = pattern(len);
        let places = places(len, &drawn);
        prop_assume!(!places.is_empty());
        let begin = usize::from(forged_at) % len / 8 * 8;
        let (end, more) = match begin + forged_len.div_ceil(8) * 8 {
            end if end >= len => (begin + forged_len, false),
            end => (end, true),
        };
        let is_inside = |at: usize| at > 0 && at < len && !places.contains(&at);
        prop_assume!(is_inside(begin) || is_inside(end));
        prop_assume!(begin > 0 || more, "what begins and ends the datagram is no fragment");
        let forged = Cut { begin, more, data: vec![0xee; end - begin] };
        prop_assume!(begin > 0 || forged.data.len() >= 8);
        let mut cuts = cut_at(&data, &places);
        let again = if sends_again { cuts.clone() } else { Vec::new() };
        cuts.push(forged);
        shuffle(&mut cuts, draw);
        cuts.extend(again);
        let mut host = Host::new();
        for cut in &cuts {
            if let Ok(Some(datagram)) = host.give(&packet(v6, 7, cut), NOW) {
                prop_assert_eq!(&data_of(&datagram), &data);
            }
        }
    }

    /// Fragments of one datagram at any offset and of any length: each byte of the result is the
    /// one of its offset, up to the end of a last fragment.
    #[test]
    fn any_fragments_give_bytes_of_their_places_or_nothing(
        v6: bool,
        drawn in prop::collection::vec((0_usize..40, 1_usize..120, any::<bool>()), 1..60),
    ) {
        let data = pattern(1_000);
        let mut host = Host::new();
        for &(at, len, more) in &drawn {
            let begin = at * 8;
            let end = (begin + if more { len.div_ceil(8) * 8 } else { len }).min(data.len());
            let cut = Cut { begin, more, data: data[begin..end].to_vec() };
            if !more && begin == 0 {
                // This cut is no fragment.
                continue;
            }
            if let Ok(Some(datagram)) = host.give(&packet(v6, 7, &cut), NOW) {
                let joined = data_of(&datagram);
                prop_assert!(joined == data[..joined.len()]);
                let is_an_end = |&(at, len, more): &(usize, usize, bool)| {
                    !more && at * 8 + len == joined.len()
                };
                prop_assert!(drawn.iter().any(is_an_end));
            }
        }
    }
}
