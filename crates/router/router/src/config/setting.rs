//! What the files of sections share: the description of a key, the change of an entry, networks.
//!
//! Called by: the other files of `config`, which describe keys and entries; `plan.rs` compares
//! configurations by it, `applied.rs` carries out what differs.

use core::net::IpAddr;
use std::collections::BTreeMap;

use base::Cidr;
use stack::Stack;

use super::file::Section;

/// The stacks of all shards; the first one speaks for the router.
pub type Stacks<'a, 'b> = &'a mut [&'b mut Stack];

/// A network, ordered: address without host bits, prefix length.
pub type Prefix = (IpAddr, u8);

/// A key whose value takes effect by itself: all that there is to say about it. `T` has its value,
/// with the default; `On` is what the value takes effect on.
pub struct Setting<T: 'static, On: 'static> {
    /// Reads and checks it, if it is there.
    pub(crate) read: fn(&mut T, &Section<'_>),
    /// Have both the same value?
    pub(crate) is_same: fn(&T, &T) -> bool,
    /// Gives the first one the value of the second one.
    pub(crate) copy: fn(&mut T, &T),
    /// The key with its value, as the log has it.
    pub(crate) words: fn(&T) -> String,
    /// Makes the stacks so.
    pub(crate) carry_out: fn(&T, On, Stacks<'_, '_>) -> Result<(), String>,
}

/// What becomes of an entry; `None`: it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<T> {
    /// In the configuration that runs.
    pub was: Option<T>,
    /// In the other one.
    pub now: Option<T>,
}

impl<T: Clone> Change<T> {
    /// Note in what runs that it was carried out.
    pub(crate) fn note<K: Ord + Clone>(&self, running: &mut BTreeMap<K, T>, key: &K) {
        match &self.now {
            Some(now) => drop(running.insert(key.clone(), now.clone())),
            None => drop(running.remove(key)),
        }
    }
}

/// Entries of `old` that have to go, because they are not to be kept.
pub(crate) fn removed<K: Clone, T: Clone>(
    old: &BTreeMap<K, T>,
    is_kept: impl Fn(&K, &T) -> bool,
) -> Vec<(K, Change<T>)> {
    let gone = old.iter().filter(|(key, was)| !is_kept(key, was));
    let change = |was: &T| Change { was: Some(was.clone()), now: None };
    gone.map(|(key, was)| (key.clone(), change(was))).collect()
}

/// Entries of `new` that are to be added or changed; `before` has what there is of each by then.
pub(crate) fn set<'a, K: Clone, T: Clone + PartialEq + 'a>(
    new: &BTreeMap<K, T>,
    before: impl Fn(&K) -> Option<&'a T>,
) -> Vec<(K, Change<T>)> {
    let change = |(key, now): (&K, &T)| {
        let was = before(key);
        let change = || Change { was: was.cloned(), now: Some(now.clone()) };
        (was != Some(now)).then(|| (key.clone(), change()))
    };
    new.iter().filter_map(change).collect()
}

/// The stack that speaks for the router.
pub(crate) fn first<'a>(stacks: Stacks<'a, '_>) -> &'a mut Stack {
    stacks.first_mut().expect("a router has at least one shard")
}

/// The network of an address.
pub fn prefix(cidr: Cidr) -> Prefix {
    let network = cidr.network();
    (network.addr, network.prefix_len)
}

/// The same as an address with a length.
pub fn cidr((addr, prefix_len): Prefix) -> Cidr {
    Cidr { addr, prefix_len }
}
