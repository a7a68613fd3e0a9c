//! What a run of a bench finds out or sets up once, for several rows. Called by `harness.rs`, and
//! by the rows that need it.

use std::cell::OnceCell;
use std::path::PathBuf;

use crate::frr::world::World as Daemons;
use crate::gateway::world::World as Gateways;
use crate::peers::Veth;

/// Chosen settings, and what was built or set up on first use.
#[derive(Default)]
pub struct Learned {
    /// The path of the program that runs gVisor's stack.
    pub gvisor: OnceCell<Result<PathBuf, String>>,
    /// The namespaces, joined by a veth pair, for rows that compare with the kernel.
    pub veth: OnceCell<Result<Veth, String>>,
    /// The network of bench `gateway`.
    pub gateways: OnceCell<Result<Gateways, String>>,
    /// The programs of bench `frr`.
    pub frr: OnceCell<Result<Daemons, String>>,
}
