//! Proxies beyond the host: SOCKS5 and HTTP CONNECT.
//!
//! Called by: programs, for their options; `host.rs`, which connects to the proxy in the place of
//! the destination. `handshake.rs` has what is said then, `relay.rs` datagrams. RFC 1928, RFC 1929,
//! RFC 9110 section 9.3.6.

mod handshake;
mod relay;

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;
use std::io;
use std::net::ToSocketAddrs;

use gateway::Failure;
use stack::Unreachable;

pub(crate) use handshake::Handshake;
pub(crate) use relay::{RELAYS, Relayed, Relays, Turn};

/// What the user has to know.
const NO_PROXY: &str = "the proxy of --via does not answer, or ends connections without an answer: \
                        check its address and port";
const NO_UDP: &str = "UDP or ping is refused, because the proxy of --via carries TCP only";

/// A refusal: what the engine hears of it, and the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) failure: Failure,
    pub(crate) notice: Option<&'static str>,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused { failure, notice: None }
    }
}

/// Datagrams and echoes do not go through a proxy.
pub(crate) const NO_DATAGRAMS: Refused =
    Refused { failure: Failure::Unreachable(Unreachable::Prohibited), notice: Some(NO_UDP) };

/// The proxy itself was not reached: the guest must not believe that its peer has refused.
pub(crate) fn no_proxy(why: Failure) -> Refused {
    match why {
        Failure::Full => why.into(),
        Failure::TimedOut => Refused { failure: why, notice: Some(NO_PROXY) },
        _ => Refused { failure: Failure::Unreachable(Unreachable::Net), notice: Some(NO_PROXY) },
    }
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Socks5,
    Http,
}

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
struct Credentials {
    user: String,
    password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No log has the password.
        write!(f, "{}:...", self.user)
    }
}

/// A proxy: `socks5://[USER:PASSWORD@]HOST:PORT` or `http://[USER:PASSWORD@]HOST:PORT`, with
/// `%40` for an `@` in the credentials.
///
/// ```
/// # use wirespeed_outside as outside;
/// let via: outside::Via = "socks5://me:a%40b@[::1]:1080".parse()?;
/// assert_eq!(via.resolve().unwrap(), "[::1]:1080".parse().unwrap());
/// # Ok::<(), outside::ViaParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    kind: Kind,
    host: String,
    port: u16,
    credentials: Option<Credentials>,
}

/// Why a text is no proxy. Each says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViaParseError {
    /// It begins with something else than `socks5://` or `http://`.
    Scheme,
    /// There is no host, no port, or something behind them.
    Address,
    /// The credentials are not `USER:PASSWORD`, are longer than 255 bytes, or have a `%` that no
    /// two hexadecimal digits follow.
    Credentials,
}

impl fmt::Display for ViaParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ViaParseError::Scheme => {
                "the proxy has to begin with socks5:// or http://: socks5://127.0.0.1:1080"
            }
            ViaParseError::Address => {
                "a host and a port have to follow, and nothing behind them: socks5://127.0.0.1:1080"
            }
            ViaParseError::Credentials => {
                "credentials are USER:PASSWORD@ with at most 255 bytes each, %40 for an @ and %3A \
                 for a colon in the name"
            }
        })
    }
}

impl core::error::Error for ViaParseError {}

impl FromStr for Via {
    type Err = ViaParseError;

    fn from_str(text: &str) -> Result<Via, ViaParseError> {
        let (kind, rest) = match text.split_once("://") {
            Some(("socks5", rest)) => (Kind::Socks5, rest),
            Some(("http", rest)) => (Kind::Http, rest),
            _ => return Err(ViaParseError::Scheme),
        };
        let (credentials, address) = match rest.rsplit_once('@') {
            Some((credentials, address)) => (Some(self::credentials(credentials)?), address),
            None => (None, rest),
        };
        let address = address.strip_suffix('/').unwrap_or(address);
        let (host, port) = address.rsplit_once(':').ok_or(ViaParseError::Address)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match bare {
            Some(v6) => v6.parse::<core::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains(['[', ']', ':', '/']),
        };
        let is_number = port.bytes().all(|b| b.is_ascii_digit());
        let port = port.parse().ok().filter(|&port| is_number && port != 0);
        match port {
            Some(port) if is_host => {
                Ok(Via { kind, host: bare.unwrap_or(host).to_owned(), port, credentials })
            }
            _ => Err(ViaParseError::Address),
        }
    }
}

fn credentials(text: &str) -> Result<Credentials, ViaParseError> {
    let (user, password) = text.split_once(':').ok_or(ViaParseError::Credentials)?;
    let decoded = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push(match byte {
                b'%' => (digit()? << 4 | digit()?) as u8,
                byte => byte,
            });
        }
        String::from_utf8(bytes).ok().filter(|text| text.len() <= 255)
    };
    let user = decoded(user).filter(|user| !user.is_empty());
    match (user, decoded(password)) {
        (Some(user), Some(password)) => Ok(Credentials { user, password }),
        _ => Err(ViaParseError::Credentials),
    }
}

impl Via {
    /// Look up where the proxy is, by the resolver of the host. It waits.
    ///
    /// # Errors
    /// The host has no address.
    pub fn resolve(&self) -> io::Result<SocketAddr> {
        let mut all = (self.host.as_str(), self.port).to_socket_addrs()?;
        all.next().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Can the proxy carry datagrams?
    pub(crate) fn has_datagrams(&self) -> bool {
        self.kind == Kind::Socks5
    }

    /// What is to be said to this proxy, so that it relays datagrams.
    pub(crate) fn association(&self) -> Handshake {
        Handshake::new(self, SocketAddr::from(([0, 0, 0, 0], 0))).of_association()
    }

    /// What is to be said to this proxy, so that it connects to an address.
    pub(crate) fn handshake(&self, to: SocketAddr) -> Handshake {
        Handshake::new(self, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_written_as_a_url() {
        let via = |text: &str| text.parse::<Via>();
        let plain = Via { kind: Kind::Socks5, host: "p".to_owned(), port: 1080, credentials: None };
        assert_eq!(via("socks5://p:1080"), Ok(plain.clone()));
        assert_eq!(via("http://p:1080/"), Ok(Via { kind: Kind::Http, ..plain.clone() }));
        let credentials = Credentials { user: "a:".to_owned(), password: "b@".to_owned() };
        let with = Via { credentials: Some(credentials), ..plain };
        assert_eq!(via("socks5://a%3A:b%40@p:1080"), Ok(with.clone()));
        assert!(!format!("{with:?}").contains("b@"));
        for (text, error) in [
            ("", ViaParseError::Scheme),
            ("socks4://p:1", ViaParseError::Scheme),
            ("socks5://p", ViaParseError::Address),
            ("socks5://p:0", ViaParseError::Address),
            ("socks5://p:+1", ViaParseError::Address),
            ("socks5://:1", ViaParseError::Address),
            ("socks5://::1:1080", ViaParseError::Address),
            ("socks5://[p]:1080", ViaParseError::Address),
            ("http://p:80/path", ViaParseError::Address),
            ("socks5://a@p:1", ViaParseError::Credentials),
            ("socks5://:b@p:1", ViaParseError::Credentials),
            ("socks5://a:%4@p:1", ViaParseError::Credentials),
            ("socks5://a:%ff@p:1", ViaParseError::Credentials),
        ] {
            assert_eq!(via(text), Err(error), "{text}");
        }
        let long = format!("socks5://a:{}@p:1", "b".repeat(256));
        assert_eq!(via(&long), Err(ViaParseError::Credentials));
    }
}
