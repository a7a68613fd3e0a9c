//! Routes, with whom they are for, and the groups and rules that say so.
//!
//! Called by: `live.rs`, for the first shard, whose routes are those of all.
//! docs/decisions/0084.

use std::collections::BTreeSet;
use std::sync::Arc;

use stack::Stack;
use stack::route::{self, Access, Route, RuleError};

use super::Live;
use crate::config::{For, RouteKey, RouteTo, Rule, cidr};

impl Live {
    pub(super) fn route(&self, key: &RouteKey, to: &RouteTo) -> Result<Route, String> {
        let port = self.port(&key.port)?.id;
        let numbers = |names: &BTreeSet<String>| -> Result<Arc<[u32]>, String> {
            names.iter().map(|name| self.group(name)).collect()
        };
        let access = match &to.users {
            None => None,
            Some(For::Include(names)) => Some(Arc::new(Access::Include(numbers(names)?))),
            Some(For::Exclude(names)) => Some(Arc::new(Access::Exclude(numbers(names)?))),
        };
        Ok(Route {
            mtu: to.mtu,
            weight: to.weight,
            metric: to.metric,
            table: key.table,
            access,
            no_forward: to.no_forward,
            ..Route::new(cidr(key.to), key.via, port.0)
        })
    }

    pub(super) fn add_route(
        &self,
        stack: &mut Stack,
        key: &RouteKey,
        to: &RouteTo,
    ) -> Result<(), String> {
        let is_added = stack.add_route(self.route(key, to)?);
        is_added.then_some(()).ok_or_else(|| "the table is full: raise limit routes".to_owned())
    }

    pub(super) fn group(&self, name: &str) -> Result<u32, String> {
        let missing = || format!("group '{name}' is not there: see why it was not added");
        self.users.number(name).ok_or_else(missing)
    }

    pub(super) fn add_rule(
        &self,
        stack: &mut Stack,
        priority: u32,
        rule: &Rule,
    ) -> Result<(), String> {
        match stack.add_rule(self.rule(priority, rule)?) {
            // Somebody added it by the control socket.
            Ok(()) | Err(RuleError::Exists) => Ok(()),
            Err(why) => Err(why.to_string()),
        }
    }

    pub(super) fn rule(&self, priority: u32, rule: &Rule) -> Result<route::Rule, String> {
        let in_port = rule.in_port.as_ref().map(|name| Ok::<_, String>(self.port(name)?.id.0));
        Ok(route::Rule {
            from: rule.from.map(cidr),
            to: rule.to.map(cidr),
            in_port: in_port.transpose()?,
            mark: rule.mark,
            group: rule.group.as_ref().map(|name| self.group(name)).transpose()?,
            not: rule.not,
            ..route::Rule::new(priority, rule.action)
        })
    }
}
