//! The data that the writer of a FIB and its readers share: the tables, and the records that their
//! slots lead to.
//!
//! Called by: `fib.rs` writes, `view.rs` reads. Sources: docs/decisions/0075.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use super::epoch::Epochs;
use super::group::Groups;
use super::trie::{Nodes, Trie};
use super::{MAIN_TABLE, TABLES_MAX};

/// The key of an address: its bits, left-aligned in 128.
#[inline(always)]
pub(super) fn key_of(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(addr) => key_v4(addr),
        IpAddr::V6(addr) => addr.to_bits(),
    }
}

/// The address of a key.
pub(super) fn addr_of(key: u128, is_v6: bool) -> IpAddr {
    if is_v6 {
        Ipv6Addr::from_bits(key).into()
    } else {
        Ipv4Addr::from_bits((key >> 96) as u32).into()
    }
}

#[inline(always)]
pub(super) fn key_v4(addr: Ipv4Addr) -> u128 {
    u128::from(addr.to_bits()) << 96
}

/// The tries of one table, for both IP versions.
#[derive(Default)]
pub(super) struct Table {
    pub(super) v4: Trie,
    pub(super) v6: Trie,
}

impl Table {
    pub(super) fn trie(&self, is_v6: bool) -> &Trie {
        if is_v6 { &self.v6 } else { &self.v4 }
    }
}

/// The data that writer and readers share.
pub(super) struct Shared {
    pub(super) main: Table,
    others: [OnceLock<Box<(u32, Table)>>; TABLES_MAX - 1],
    pub(super) nodes: Nodes,
    pub(super) groups: Groups,
    pub(super) epochs: Epochs,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            main: Table::default(),
            others: [const { OnceLock::new() }; TABLES_MAX - 1],
            nodes: Nodes::default(),
            groups: Groups::default(),
            epochs: Epochs::default(),
        }
    }
}

impl Shared {
    #[inline]
    pub(super) fn table(&self, table: u32) -> Option<&Table> {
        if table == MAIN_TABLE {
            return Some(&self.main);
        }
        let made = self.others.iter().map_while(OnceLock::get);
        made.map(|other| &**other).find(|(id, _)| *id == table).map(|(_, found)| found)
    }

    /// The table with this number. It is created if there is room for it.
    pub(super) fn make_table(&self, table: u32) -> Option<&Table> {
        if self.table(table).is_none() {
            let room = self.others.iter().find(|other| other.get().is_none())?;
            room.get_or_init(|| Box::new((table, Table::default())));
        }
        self.table(table)
    }
}
