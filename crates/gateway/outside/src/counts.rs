//! What the host's sockets did not do, counted. The engine counts what it is told; these are the
//! events that it does not see.
//!
//! Called by: the rest of the crate. A program that shows them reads [`crate::Host::counts`].

base::counts! {
    /// How often each event happened.
    pub struct Counts {
        /// Sockets that were not opened because all descriptors were in use.
        without_descriptor;
        /// Clients of published ports that were reset because all descriptors were in use.
        clients_reset;
        /// Datagrams that were gathered and then not sent.
        gathered_not_sent;
        /// Calls that sent several datagrams at once.
        segmented_sends;
        /// Errors of the network that say nothing to a guest: source quench, for instance.
        errors_ignored;
    }
}
