//! The values of `-M`.
//!
//! Called by: clap, for `ping` and `ttcp`.

use wirespeed::MtuDiscovery;

/// Path MTU discovery, in the words of iputils' ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Hint {
    /// In fragments
    Want,
    /// Refuse what is larger than the path is known to carry
    Do,
    /// Refuse what is larger than the link
    Probe,
}

impl Hint {
    pub(crate) fn discovery(self) -> MtuDiscovery {
        match self {
            Hint::Want => MtuDiscovery::Want,
            Hint::Do => MtuDiscovery::Do,
            Hint::Probe => MtuDiscovery::Probe,
        }
    }
}
