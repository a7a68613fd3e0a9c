//! The containers against those of the standard library.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

proptest! {
    /// Hashes of few bits, so that runs of slots are long and wrap around.
    #[test]
    fn an_index_and_a_slab_do_what_a_map_does(
        steps in vec((any::<bool>(), 0..60_u32), 0..300),
    ) {
        let (mut index, mut slab) = (Index::default(), Slab::default());
        let mut map: BTreeMap<u32, u32> = BTreeMap::new();
        let hash_of = |key: u32| u64::from(key % 13 * 5);
        for (is_insert, key) in steps {
            let hash = hash_of(key);
            let found = index.find(hash, |at| slab.get(at) == Some(&key));
            prop_assert_eq!(found, map.get(&key).copied());
            match (is_insert, found) {
                (true, None) => {
                    let at = slab.insert(key).expect("room");
                    index.insert(hash, at);
                    map.insert(key, at);
                }
                (false, Some(at)) => {
                    index.remove(hash, at);
                    prop_assert_eq!(slab.remove(at), Some(key));
                    prop_assert_eq!(slab.remove(at), None);
                    map.remove(&key);
                }
                _ => {}
            }
            prop_assert_eq!(slab.len(), map.len());
            for (key, at) in &map {
                let found = index.find(hash_of(*key), |at| slab.get(at) == Some(key));
                prop_assert_eq!(found, Some(*at));
            }
        }
    }
}

#[test]
fn an_empty_index_finds_nothing() {
    assert_eq!(Index::default().find(0, |_| true), None);
    assert_eq!(Index::with_capacity(0).find(7, |_| true), None);
}
