//! What the command line names for the rows of a bench. Called by `main.rs`, which reads it, and by
//! the networks in which rows run.

use std::path::PathBuf;

/// Programs that rows start, by the command line.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// The `wirespeed` that is measured.
    pub wirespeed: Option<PathBuf>,
    /// A tree of Debian sid with the peers of bench `gateway`.
    pub peers: Option<PathBuf>,
}
