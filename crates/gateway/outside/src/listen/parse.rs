//! How a listener is written: `[ADDR[%IF]/]PORT`, as pasta's `-t` has it.
//!
//! Called by: programs, for their options.

use core::fmt;
use core::str::FromStr;

use super::Listen;

/// Why a text is no listener. Each says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenParseError {
    /// The part before the `/` is no address.
    Address,
    /// There is nothing behind the `%`.
    Interface,
    /// The port is no number from 0 to 65,535.
    Port,
}

impl fmt::Display for ListenParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ListenParseError::Address => {
                "the part before the '/' has to be an address of the host: 127.0.0.1/8080"
            }
            ListenParseError::Interface => {
                "the name of an interface has to follow the '%': %eth0/8080"
            }
            ListenParseError::Port => "the port has to be a number up to 65535: 127.0.0.1/8080",
        })
    }
}

impl core::error::Error for ListenParseError {}

impl FromStr for Listen {
    type Err = ListenParseError;

    fn from_str(text: &str) -> Result<Listen, ListenParseError> {
        let (place, port) = match text.rsplit_once('/') {
            Some((place, port)) => (Some(place), port),
            None => (None, text),
        };
        // `u16` would take a sign.
        let is_number = port.bytes().all(|b| b.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_number).ok_or(ListenParseError::Port)?;
        let Some(place) = place else {
            return Ok(Listen { address: None, interface: None, port });
        };
        let (address, interface) = match place.split_once('%') {
            Some((_, "")) => return Err(ListenParseError::Interface),
            Some((address, interface)) => (address, Some(interface.to_owned())),
            None => (place, None),
        };
        let address = match address {
            "" if interface.is_some() => None,
            text => Some(text.parse().map_err(|_| ListenParseError::Address)?),
        };
        Ok(Listen { address, interface, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_written_with_or_without_its_address() {
        let listen = |address: Option<&str>, interface: Option<&str>, port| {
            let address = address.map(|text| text.parse().expect("an address"));
            Ok(Listen { address, interface: interface.map(str::to_owned), port })
        };
        assert_eq!("80".parse(), listen(None, None, 80));
        assert_eq!("127.0.0.1/80".parse(), listen(Some("127.0.0.1"), None, 80));
        assert_eq!("fe80::1%eth0/80".parse(), listen(Some("fe80::1"), Some("eth0"), 80));
        assert_eq!("%eth0/0".parse(), listen(None, Some("eth0"), 0));
        for (text, error) in [
            ("", ListenParseError::Port),
            ("+80", ListenParseError::Port),
            ("65536", ListenParseError::Port),
            ("/80", ListenParseError::Address),
            ("localhost/80", ListenParseError::Address),
            ("1.2.3.4%/80", ListenParseError::Interface),
        ] {
            assert_eq!(text.parse::<Listen>(), Err(error), "{text}");
        }
    }
}
