//! Types that the files of sections share: the description of a key, the change of an entry,
//! networks.
//!
//! Called by: the other files of `config`, which describe keys and entries; `plan.rs`, which
//! compares configurations; `applied.rs`, which carries out the differences.

use core::net::IpAddr;
use std::collections::BTreeMap;

use base::Cidr;
use stack::Stack;

use super::file::Section;

/// The stacks of all shards; the first one represents the router.
pub type Stacks<'a, 'b> = &'a mut [&'b mut Stack];

/// A network, ordered: address without host bits, prefix length.
pub type Prefix = (IpAddr, u8);

/// Everything about a key whose value takes effect by itself. `T` has its value, with the default;
/// `On` identifies the object on which the value takes effect.
pub struct Setting<T: 'static, On: 'static> {
    /// Reads and checks it, if it is there.
    pub(crate) read: fn(&mut T, &Section<'_>),
    /// Have both the same value?
    pub(crate) is_same: fn(&T, &T) -> bool,
    /// Gives the first one the value of the second one.
    pub(crate) copy: fn(&mut T, &T),
    /// The key with its value, in the words of the log.
    pub(crate) words: fn(&T) -> String,
    /// Makes the value take effect in the stacks.
    pub(crate) carry_out: fn(&T, On, Stacks<'_, '_>) -> Result<(), String>,
}

/// The change of an entry; `None`: it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<T> {
    /// The entry in the configuration that runs.
    pub was: Option<T>,
    /// The entry in the new configuration.
    pub now: Option<T>,
}

impl<T: Clone> Change<T> {
    /// Note in the running configuration that it was carried out.
    pub(crate) fn note<K: Ord + Clone>(&self, running: &mut BTreeMap<K, T>, key: &K) {
        match &self.now {
            Some(now) => drop(running.insert(key.clone(), now.clone())),
            None => drop(running.remove(key)),
        }
    }
}

/// The entries of `old` that are not kept, and so have to be removed.
pub(crate) fn removed<K: Clone, T: Clone>(
    old: &BTreeMap<K, T>,
    is_kept: impl Fn(&K, &T) -> bool,
) -> Vec<(K, Change<T>)> {
    let gone = old.iter().filter(|(key, was)| !is_kept(key, was));
    let change = |was: &T| Change { was: Some(was.clone()), now: None };
    gone.map(|(key, was)| (key.clone(), change(was))).collect()
}

/// The entries of `new` that have to be added or changed; `before` returns the present value of
/// each at that point.
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

/// The stack that represents the router.
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

/// A number of things: `1 rule`, `2 rules`.
pub fn count(number: usize, one: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {one}{end}")
}
