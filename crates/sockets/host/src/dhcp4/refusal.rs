//! Why an answer of a server was of no use, in words for the people who run the server.
//!
//! Called by: `client.rs` and `lease.rs`; programs print it. The server's own words are shown only
//! as plain text. RFC 2131 section 3.1, RFC 2132 section 9.9 (the text of a DHCPNAK).

use core::fmt;
use core::net::Ipv4Addr;

use base::DropReason;

use super::message::code;

/// Characters that are kept of a server's text.
const TEXT_MAX: usize = 120;

/// Why an answer was refused, or that the server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The answer is no DHCP message, or its options do not fit into it.
    Malformed,
    /// An option that every such answer has is absent.
    Missing(u8),
    /// An option has fewer bytes than its value takes.
    Short {
        /// The option.
        code: u8,
        /// Its bytes.
        bytes: usize,
    },
    /// No host of the network can have the address that the answer gives.
    Address(Ipv4Addr),
    /// No host can have the server's address, as option 54 says it.
    Server(Ipv4Addr),
    /// The value of option 1 is not a mask.
    Mask(Ipv4Addr),
    /// The lease is too short to be kept, in seconds.
    LeaseTime(u32),
    /// The answer gives another address than was asked for.
    OtherAddress(Ipv4Addr),
    /// The server says that the address which was asked for cannot be had (DHCPNAK).
    Nak {
        /// The server.
        server: Ipv4Addr,
        /// The server's reason; empty if it gives none.
        text: String,
    },
}

impl Refusal {
    /// A DHCPNAK, with the text of its option 56.
    pub(super) fn nak(server: Ipv4Addr, text: &[u8]) -> Refusal {
        let is_shown = |c: char| c.is_ascii_graphic() || c == ' ';
        let text = text.iter().map(|&b| char::from(b)).take(TEXT_MAX);
        let text: String = text.map(|c| if is_shown(c) { c } else { '?' }).collect();
        Refusal::Nak { server, text: text.trim().to_owned() }
    }

    /// The drop that it is counted as.
    pub(super) fn drop_reason(&self) -> DropReason {
        match self {
            Refusal::Malformed => DropReason::DhcpMalformed,
            _ => DropReason::DhcpUnusable,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed => {
                f.write_str("an answer is no DHCP message, or its options do not fit into it")
            }
            Refusal::Missing(code) => write!(f, "an answer has no option {}", Named(*code)),
            Refusal::Short { code, bytes } => {
                let s = if *bytes == 1 { "" } else { "s" };
                write!(f, "option {} of an answer has {bytes} byte{s}", Named(*code))
            }
            Refusal::Address(address) => {
                write!(f, "an answer gives {address}, which no host of its network can have")
            }
            Refusal::Server(address) => {
                write!(f, "an answer says that its server is {address}, which no host can be")
            }
            Refusal::Mask(mask) => write!(f, "option 1 of an answer is {mask}, which is no mask"),
            Refusal::LeaseTime(seconds) => {
                write!(f, "an answer gives a lease of {seconds} s, and 10 s is the least")
            }
            Refusal::OtherAddress(address) => {
                write!(f, "an answer gives {address}, which is not what was asked for")
            }
            Refusal::Nak { server, text } if text.is_empty() => {
                write!(f, "the server {server} refuses (DHCPNAK) and does not say why")
            }
            Refusal::Nak { server, text } => {
                write!(f, "the server {server} refuses (DHCPNAK): \"{text}\"")
            }
        }
    }
}

/// An option by its number and its name.
struct Named(u8);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            code::SUBNET_MASK => "the mask",
            code::LEASE_TIME => "the lease time",
            code::SERVER_ID => "the server's address",
            code::MESSAGE_TYPE => "the message type",
            _ => return write!(f, "{}", self.0),
        };
        write!(f, "{} ({name})", self.0)
    }
}
