//! What a client of the proxy and we say to each other before bytes pass: bytes in, bytes out.
//!
//! Called by: `greet.rs`. The first byte tells what a client speaks: `socks.rs` has SOCKS5,
//! `http.rs` CONNECT and requests for whole URLs.

mod http;
mod socks;

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use host::dns::DomainName;
use stack::Unreachable;

use crate::outside::Failure;

/// Bytes of a client's request at most.
pub(super) const REQUEST_MAX: usize = 16 * 1024;

/// A name and a password that clients need.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No log has the password.
        write!(f, "{}:...", self.user)
    }
}

impl Credentials {
    /// Are they these? The time that it takes does not depend on where they differ.
    fn are(&self, user: &[u8], password: &[u8]) -> bool {
        let same = |own: &str, given: &[u8]| {
            let differing = own.bytes().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
            (differing == 0) & (own.len() == given.len())
        };
        same(&self.user, user) & same(&self.password, password)
    }
}

/// Where a client wants to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Address(SocketAddr),
    Name(DomainName, u16),
}

impl Target {
    /// The target of a host as text and a port; `None` if it is neither a name nor an address.
    fn of(host: &str, port: u16) -> Option<Target> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match bare.parse::<IpAddr>() {
            Ok(ip) => Some(Target::Address(SocketAddr::new(ip.to_canonical(), port))),
            Err(_) => Some(Target::Name(DomainName::parse(host).ok()?, port)),
        }
    }
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Connect(Target),
    /// A relay for datagrams, which come from this port if it is not 0.
    Associate(u16),
}

/// How a client wants its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Socks,
    HttpConnect,
    /// The answer is the server's.
    HttpPlain,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) wish: Wish,
    pub(super) speaks: Speaks,
    /// What the server gets first.
    pub(super) first: Vec<u8>,
}

/// Why a client does not get what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum No {
    Rules,
    /// The name has no address.
    Name,
    /// No room, no descriptor.
    Full,
    Failed(Failure),
}

/// Why a client's bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Malformed,
    Unauthorized,
}

/// A handshake that is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Handshake {
    /// Nothing has come yet.
    #[default]
    Begins,
    Socks(socks::Step),
    Http,
}

impl Handshake {
    /// Take what a client has sent out of `input`, and add what it gets to `output`; returns the
    /// request once it is whole.
    ///
    /// # Errors
    /// It is none, or the client may not make it; `output` says so, if the client understands that.
    pub(super) fn take(
        &mut self,
        input: &mut Vec<u8>,
        output: &mut Vec<u8>,
        credentials: Option<&Credentials>,
    ) -> Result<Option<Request>, Wrong> {
        if *self == Handshake::Begins {
            *self = match input.first() {
                None => return Ok(None),
                Some(&socks::VERSION) => Handshake::Socks(socks::Step::Methods),
                Some(b'A'..=b'Z') => Handshake::Http,
                Some(_) => return Err(Wrong::Malformed),
            };
        }
        let request = match self {
            Handshake::Socks(step) => socks::take(step, input, output, credentials),
            Handshake::Http | Handshake::Begins => http::take(input, output, credentials),
        };
        match request {
            Ok(None) if input.len() > REQUEST_MAX => Err(Wrong::Malformed),
            request => request,
        }
    }
}

impl Speaks {
    /// What a client hears once its connection is open; `at`: where its datagrams are relayed.
    pub(super) fn yes(self, at: Option<SocketAddr>) -> Vec<u8> {
        match self {
            Speaks::Socks => socks::reply(0, at),
            Speaks::HttpConnect => b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
            Speaks::HttpPlain => Vec::new(),
        }
    }

    /// What a client hears of a refusal.
    pub(super) fn no(self, why: No) -> Vec<u8> {
        match self {
            Speaks::Socks => socks::reply(socks::code(why), None),
            Speaks::HttpConnect | Speaks::HttpPlain => http::no(why),
        }
    }
}

impl From<Failure> for No {
    fn from(why: Failure) -> No {
        match why {
            Failure::Full => No::Full,
            why => No::Failed(why),
        }
    }
}

/// Is it something that rules, or a firewall on the way, have refused?
fn is_prohibited(why: No) -> bool {
    matches!(why, No::Rules | No::Failed(Failure::Unreachable(Unreachable::Prohibited)))
}

pub(super) use socks::datagram;
pub use socks::{datagram_from, header};

#[cfg(test)]
mod tests;
