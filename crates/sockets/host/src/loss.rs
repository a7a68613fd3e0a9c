//! How a lease ends.
//!
//! Called by: `dhcp4` and `dhcp6`, which report the reason to their callers. RFC 2131, RFC 8415.

/// Why an address is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// No server extended the lease in time.
    Expired,
    /// A server ended the lease (DHCPNAK), or said that the address does not belong to the link.
    Refused,
    /// Another host has the address.
    Conflict,
    /// The client was stopped, and gave it back.
    Released,
}

impl core::fmt::Display for LossReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            LossReason::Expired => "no server extended the lease in time",
            LossReason::Refused => "a server ended the lease",
            LossReason::Conflict => "another host has it",
            LossReason::Released => "it was given back",
        })
    }
}
