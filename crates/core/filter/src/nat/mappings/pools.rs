//! The pools of a mapping table.
//!
//! Called by: the reload of rules, which adds the pools of the new rules and then keeps no others.
//! A pool that stays has the same number, so that its mappings stay (RFC 4787 REQ-11). The mappings
//! of a pool that goes end with their flows.

use base::Limit;

use super::super::pool::{Pool, PoolId, PoolUse};
use super::Mappings;

/// A pool and its users.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) pool: Pool,
    /// No rule has it: it makes no mapping any more.
    pub(super) is_retired: bool,
    /// Inside addresses with mappings.
    pub(super) sources: u32,
    pub(super) mappings: u32,
}

/// Why there can be no such pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPool {
    /// The first port is behind the last one, or a shard would have none of them.
    Ports,
    /// A block is no power of two from 64 up to what the shards were made for, or does not fit into
    /// the ports.
    Block,
    /// There are as many pools as [`Limit::FilterRules`] has by default.
    Full,
}

impl Mappings {
    /// The number of this pool, which is added if it is not there.
    ///
    /// # Errors
    /// [`InvalidPool`]; nothing changed then.
    pub fn add_pool(&mut self, pool: Pool) -> Result<PoolId, InvalidPool> {
        self.add_pool_behind(pool, None)
    }

    /// [`Mappings::add_pool`], which looks first behind the pool of the rule before: a reload of
    /// thousands of rules then finds each pool at once.
    pub(crate) fn add_pool_behind(
        &mut self,
        pool: Pool,
        before: Option<PoolId>,
    ) -> Result<PoolId, InvalidPool> {
        if !self.shards.all_have(pool.ports.0, pool.ports.1) {
            return Err(InvalidPool::Ports);
        }
        if pool.block != 0 && !self.admits_block(&pool) {
            return Err(InvalidPool::Block);
        }
        let likely = before.map_or(0, |before| usize::from(before.0) + 1);
        let is_it = |slot: &Slot| slot.pool == pool;
        let likely = self.pools.get(likely).is_some_and(is_it).then_some(likely);
        if let Some(at) = likely.or_else(|| self.pools.iter().position(is_it)) {
            if let Some(slot) = self.pools.get_mut(at) {
                slot.is_retired = false;
            }
            return Ok(PoolId(at as u16));
        }
        let slot = Slot { pool, is_retired: false, sources: 0, mappings: 0 };
        let is_free = |slot: &Slot| slot.is_retired && slot.sources == 0;
        if let Some(at) = self.pools.iter().position(is_free) {
            if let Some(free) = self.pools.get_mut(at) {
                *free = slot;
            }
            return Ok(PoolId(at as u16));
        }
        if self.pools.len() >= Limit::FilterRules.default_value() {
            return Err(InvalidPool::Full);
        }
        self.pools.push(slot);
        Ok(PoolId((self.pools.len() - 1) as u16))
    }

    fn admits_block(&self, pool: &Pool) -> bool {
        let is_size =
            pool.block.is_power_of_two() && (64..=self.shards.run_len()).contains(&pool.block);
        let first = u32::from(pool.ports.0).next_multiple_of(u32::from(pool.block.max(1)));
        is_size && first + u32::from(pool.block) <= u32::from(pool.ports.1) + 1
    }

    /// How much of a pool is in use.
    pub fn pool_use(&self, id: PoolId) -> PoolUse {
        let slot = self.pools.get(usize::from(id.0));
        slot.map_or_else(PoolUse::default, |slot| PoolUse {
            sources: slot.sources,
            mappings: slot.mappings,
        })
    }

    /// Retire all pools but these.
    pub fn keep_pools(&mut self, keep: &[PoolId]) {
        let mut is_kept = vec![false; self.pools.len()];
        for id in keep {
            if let Some(is_kept) = is_kept.get_mut(usize::from(id.0)) {
                *is_kept = true;
            }
        }
        for (slot, is_kept) in self.pools.iter_mut().zip(is_kept) {
            slot.is_retired |= !is_kept;
        }
    }

    /// A pool that makes mappings.
    pub(super) fn open_pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(usize::from(id.0)).filter(|slot| !slot.is_retired).map(|slot| &slot.pool)
    }

    pub(super) fn source_gone(&mut self, pool: u16) {
        if let Some(slot) = self.pools.get_mut(usize::from(pool)) {
            slot.sources = slot.sources.saturating_sub(1);
        }
    }
}
