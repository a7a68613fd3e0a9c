//! Where the page is served: at an address of the system, or at the stack's own.
//!
//! Called by: the command lines of programs that serve the page; `lib.rs`.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The port if none is given.
const PORT: u16 = 8080;

/// Where the page is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// At an address of this machine.
    System(SocketAddr),
    /// At the stack's own addresses, at this port.
    Stack(u16),
}

impl Http {
    /// Does access need a token? On loopback it does not, because only programs of this machine
    /// reach it.
    pub(crate) fn needs_token(self) -> bool {
        match self {
            Http::System(at) => !at.ip().to_canonical().is_loopback(),
            Http::Stack(_) => true,
        }
    }

    /// Parse `ADDR`, `ADDR:PORT`, `:PORT`, `localhost` with or without a port, or `stack:PORT`.
    ///
    /// # Errors
    /// The text is none of these; the error says what is expected.
    pub fn parse(text: &str) -> Result<Http, String> {
        let expected = || {
            "expected an address as 127.0.0.1, 127.0.0.1:8080, [::1]:8080 or localhost, or \
             stack:8080"
                .to_owned()
        };
        if let Some(port) = text.strip_prefix("stack:") {
            return match port.parse() {
                Ok(port @ 1..) => Ok(Http::Stack(port)),
                _ => Err("stack: needs a port from 1 to 65535".to_owned()),
            };
        }
        let local = text.strip_prefix("localhost").map(|rest| format!("127.0.0.1{rest}"));
        let text = local.as_deref().unwrap_or(text);
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Http::System(SocketAddr::new(address, PORT)));
        }
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| expected())?;
            return Ok(Http::System(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)));
        }
        text.parse().map(Http::System).map_err(|_| expected())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_port_and_a_stack_needs_one() {
        let at = |text: &str| Http::parse(text).expect("valid");
        let system = |text: &str| Http::System(text.parse().expect("an address"));
        assert_eq!(at("127.0.0.1"), system("127.0.0.1:8080"));
        assert_eq!(at("localhost"), system("127.0.0.1:8080"));
        assert_eq!(at("localhost:99"), system("127.0.0.1:99"));
        assert_eq!(at(":99"), system("127.0.0.1:99"));
        assert_eq!(at("0.0.0.0:80"), system("0.0.0.0:80"));
        assert_eq!(at("::1"), system("[::1]:8080"));
        assert_eq!(at("[::1]"), system("[::1]:8080"));
        assert_eq!(at("[::1]:1"), system("[::1]:1"));
        assert_eq!(at("stack:80"), Http::Stack(80));
        for wrong in ["", "stack", "stack:", "stack:0", "stack:70000", "example.org", ":", "1:2:3"]
        {
            assert!(Http::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_loopback_needs_no_token() {
        for (text, needs) in [
            ("127.0.0.1", false),
            ("127.9.9.9:1", false),
            ("::1", false),
            ("[::ffff:127.0.0.1]:80", false),
            ("0.0.0.0", true),
            ("::", true),
            ("192.0.2.1", true),
            ("stack:80", true),
        ] {
            assert_eq!(Http::parse(text).expect("valid").needs_token(), needs, "{text}");
        }
    }
}
