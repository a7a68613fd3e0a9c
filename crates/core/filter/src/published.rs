//! Rules with what they were compiled to. All shards share it, and it never changes: a reload
//! publishes another one.
//!
//! Called by: the router's configuration and rules on trial, which compile; the firewall.

use std::sync::Arc;

use crate::homes::of_rules::OfRules;
use crate::names::Names;
use crate::program::{Program, TooLarge};
use crate::rules::Rules;
use crate::states::Timeouts;

/// Rules with what they were compiled to, for all shards.
#[derive(Debug)]
pub struct Published {
    /// As the operator wrote them.
    pub rules: Rules,
    /// As packets ask them.
    pub program: Program,
    /// Timeouts of states.
    pub timeouts: Timeouts,
    /// Larger than that of any rules before.
    pub generation: u32,
    /// What pairs rules with those before, whose counters they continue.
    pub(crate) names: Names,
    /// How packets are steered among shards by rules of NAT; `None` without such rules.
    pub(crate) homes: Option<OfRules>,
}

impl Published {
    /// Compile rules; this takes time, so it happens off the packet's path.
    ///
    /// # Errors
    /// As [`Program::compile`].
    pub fn compile(
        rules: Rules,
        timeouts: Timeouts,
        generation: u32,
    ) -> Result<Arc<Published>, TooLarge> {
        let program = Program::compile(&rules)?;
        let (names, homes) = (Names::of(&rules), OfRules::new(&rules));
        Ok(Arc::new(Published { rules, program, timeouts, generation, names, homes }))
    }
}
