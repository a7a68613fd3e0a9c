//! The hooks of a forwarder: which names may be asked, and what answers say.
//!
//! Called by: programs implement [`Policy`]; `forwarder.rs` calls it.

use core::net::IpAddr;

use base::Duration;

use crate::dns::DomainName;

/// A decision of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Pass,
    /// The guest gets REFUSED, with extended error 15, "blocked" (RFC 8914), if it knows EDNS.
    Refuse,
}

/// A question of a guest.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The name.
    pub name: &'a DomainName,
    /// The type of the records, by its number: 1 is A, 28 AAAA, 65 HTTPS.
    pub rtype: u16,
    /// The hosts table answers it: nothing is asked upstream.
    pub is_local: bool,
}

/// An address that an answer has for the name that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The address.
    pub address: IpAddr,
    /// How long it may be used: the least lifetime of its record and of the aliases before it.
    pub ttl: Duration,
    /// It is a hint of an HTTPS or SVCB record (RFC 9460 section 7.3), not an address record.
    pub is_hint: bool,
}

/// A host that an HTTPS or SVCB record names for a service of the name that was asked (TargetName,
/// RFC 9460 section 2.5): a client asks for its addresses next, or for records of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: DomainName,
    /// How long it may be used, as for an address.
    pub ttl: Duration,
}

/// An answer that is about to be passed to the guest.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The question.
    pub asked: Asked<'a>,
    /// The names that the name is an alias of (CNAME), each of the one before it.
    pub aliases: &'a [DomainName],
    /// Addresses of the last of them. Addresses of other names in the answer are not among them.
    pub addresses: &'a [Learned],
    /// Other hosts that carry services of the last of them.
    pub targets: &'a [Target],
}

/// What a gateway decides about names. `()` lets everything pass.
pub trait Policy {
    /// May this be asked? Called for each question before anything else is done with it.
    fn question(&mut self, asked: &Asked<'_>) -> Verdict {
        let _ = asked;
        Verdict::Pass
    }

    /// Called for each answer before the guest gets it, those of the hosts table included: the
    /// place to remember which addresses a guest may have for a name.
    fn answer(&mut self, answer: &Answered<'_>) -> Verdict {
        let _ = answer;
        Verdict::Pass
    }

    /// May the guest learn the keys for Encrypted Client Hello (RFC 9849) that the records of this
    /// name have? Called for each answer that passes. Without them a client shows the name of its
    /// server in the hello, so that it can be judged.
    fn keeps_ech(&mut self, asked: &Asked<'_>) -> bool {
        let _ = asked;
        true
    }
}

impl Policy for () {}
