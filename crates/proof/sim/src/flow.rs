//! A connection between two applications of a world: its number, its ends, and its settings.
//!
//! Called by: `world`, scenarios, the oracles.

use base::{Instant, IpVersion};

use crate::app::Script;

/// One connection between two applications.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The number of the flow, from 0.
    pub number: usize,
    /// The number of the end that connects.
    pub client: usize,
    /// The number of the end that accepts.
    pub server: usize,
    /// Do both ends close gracefully? Then every byte has to arrive.
    pub is_graceful: bool,
}

/// The settings of a flow.
#[derive(Clone, Debug)]
pub struct FlowSettings {
    /// The hosts that connect and accept.
    pub hosts: (usize, usize),
    /// The number of the network on which the accepting host is.
    pub network: u8,
    /// The version of IP.
    pub version: IpVersion,
    /// The settings of the connection at the end that connects, and at the end that accepts.
    pub config: (tcp::Config, tcp::Config),
    /// The scripts of the two ends.
    pub scripts: (Script, Script),
    /// When the flow begins.
    pub at: Instant,
}
