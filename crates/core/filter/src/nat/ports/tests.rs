//! Ports of shards, and the search for a free one, against plain lists.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn shards() -> impl Strategy<Value = Shards> {
    (1..17_usize, 0..16_usize, prop_oneof![Just(0_u16), Just(64), Just(256), Just(4096)])
        .prop_filter_map("no such shard", |(count, index, block)| {
            Shards::new(index % count, count, block)
        })
}

proptest! {
    #[test]
    fn each_port_is_of_one_shard_and_has_one_number_there(shards in shards(), port: u16) {
        let home = shards.of_outside(protocol::UDP, port);
        for index in 0..usize::from(shards.count) {
            let shard = Shards { index: index as u16, ..shards };
            let local = shard.local(port);
            prop_assert_eq!(local.is_some(), index == home);
            if let Some(local) = local {
                prop_assert_eq!(shard.port(local), port);
                prop_assert!(usize::from(local) < shard.words() * 64);
            }
        }
    }

    #[test]
    fn a_range_has_the_own_ports_of_it(shards in shards(), first: u16, last: u16) {
        let own: Vec<u16> =
            (first..=last).filter_map(|port| shards.local(port)).collect();
        let ends = own.first().copied().zip(own.last().copied());
        prop_assert_eq!(shards.range(first, last), ends);
        let homes = (first..=last).map(|port| shards.of_outside(protocol::TCP, port));
        let homes: BTreeSet<usize> = homes.collect();
        prop_assert_eq!(shards.all_have(first, last), homes.len() == usize::from(shards.count));
    }

    #[test]
    fn a_free_port_is_found_if_and_only_if_there_is_one(
        shards in shards(),
        used in vec(any::<u16>(), 0..100),
        whole_words in vec(0..1024_u16, 0..40),
        skip in vec(0..1024_usize, 0..20),
        (first, len) in (any::<u16>(), 0..300_u16),
        random: u64,
    ) {
        let Some((low, high)) = shards.range(first, first.saturating_add(len)) else {
            return Ok(());
        };
        let mut bitmap = Bitmap::new(&shards);
        used.iter().for_each(|port| bitmap.set(*port, true));
        for word in whole_words {
            (0..64).for_each(|bit| bitmap.set(word * 64 + bit, true));
        }
        let mut words = [0; 16];
        skip.iter().for_each(|word| set_word(&mut words, *word, true));
        let is_open =
            |port: u16| !bitmap.is_used(port) && !has_word(&words, usize::from(port) / 64);
        let found = bitmap.find((low, high), &words, random);
        match found {
            Some(port) => prop_assert!((low..=high).contains(&port) && is_open(port)),
            None => prop_assert!(!(low..=high).any(is_open)),
        }
    }

    #[test]
    fn a_run_of_words_is_found_if_and_only_if_there_is_one(
        taken in vec(0..1024_usize, 0..200),
        bits in 0..7_u32,
        low: u16,
        len in 0..20_000_u16,
    ) {
        let mut words = [0; 16];
        taken.iter().for_each(|word| set_word(&mut words, *word, true));
        let (len_words, high) = (1_usize << bits, low.saturating_add(len));
        let is_run = |first: usize| {
            let ends = (first * 64, (first + len_words) * 64);
            first.is_multiple_of(len_words)
                && ends.0 >= usize::from(low)
                && ends.1 <= usize::from(high) + 1
                && (first..first + len_words).all(|word| !has_word(&words, word))
        };
        let found = find_run(&words, len_words, (low, high));
        prop_assert_eq!(found, (0..1024).find(|first| is_run(*first)));
    }
}

#[test]
fn the_last_free_port_of_an_address_is_found() {
    let mut bitmap = Bitmap::new(&Shards::ALONE);
    (0..=u16::MAX).for_each(|port| bitmap.set(port, true));
    assert_eq!(bitmap.find((1024, 60999), &[0; 16], 99), None);
    bitmap.set(60999, false);
    assert_eq!(bitmap.find((1024, 60999), &[0; 16], 99), Some(60999));
    assert_eq!(bitmap.find((1024, 60998), &[0; 16], 99), None);
}

/// RFC 6888 REQ-15, RFC 7857 9-a.
#[test]
fn ports_are_spread_over_the_range() {
    let mut bitmap = Bitmap::new(&Shards::ALONE);
    let mut seed = 1_u64;
    let mut quarters = [0; 4];
    for _ in 0..4_000 {
        seed = seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let port = bitmap.find((0, u16::MAX), &[0; 16], seed).expect("a port");
        bitmap.set(port, true);
        quarters[usize::from(port >> 14)] += 1;
    }
    assert!(quarters.iter().all(|count| *count > 800), "{quarters:?}");
}

#[test]
fn shards_that_cannot_be_are_refused() {
    assert_eq!(Shards::new(2, 2, 0), None);
    assert_eq!(Shards::new(0, 17, 4_096), None);
    assert_eq!(Shards::new(0, 1, 4_097), None);
    assert!(Shards::new(15, 16, 4_096).is_some());
}
