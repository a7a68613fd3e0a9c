//! What the host's sockets did not do, counted. The engine counts what it is told; these are the
//! events that it does not see.
//!
//! Called by: the rest of the crate. A program that shows them reads [`crate::Host::counts`].

/// How often each event happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sockets that were not opened because all descriptors were in use.
    pub without_descriptor: u64,
    /// Clients of published ports that were reset because all descriptors were in use.
    pub clients_reset: u64,
    /// Datagrams that were gathered and then not sent.
    pub gathered_not_sent: u64,
    /// Calls that sent several datagrams at once.
    pub segmented_sends: u64,
    /// Errors of the network that say nothing to a guest: source quench, for instance.
    pub errors_ignored: u64,
}

impl Counts {
    /// Names and values, in order.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("without_descriptor", self.without_descriptor),
            ("clients_reset", self.clients_reset),
            ("gathered_not_sent", self.gathered_not_sent),
            ("segmented_sends", self.segmented_sends),
            ("errors_ignored", self.errors_ignored),
        ]
        .into_iter()
    }
}
