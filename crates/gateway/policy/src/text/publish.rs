//! Published ports: `[ADDRESS[%INTERFACE]/]PORT[-LAST][:GUEST][/udp]`.
//!
//! Called by: `file`; also for the option `-p`.

use core::net::IpAddr;

use filter::text::parts;

use crate::rules::Publish;

/// What is written, in errors.
const FORM: &str = "[ADDRESS[%INTERFACE]/]PORT[-LAST][:GUEST][/udp], as 127.0.0.1/8080:80";

/// Read a published port.
///
/// # Errors
/// It is none; the text says what to write.
pub fn publish(text: &str) -> Result<Publish, String> {
    let wrong = || format!("`{text}` is no published port: write {FORM}");
    let (rest, is_udp) = match text.strip_suffix("/udp") {
        Some(rest) => (rest, true),
        None => (text.strip_suffix("/tcp").unwrap_or(text), false),
    };
    let (place, ports) = match rest.split_once('/') {
        Some((place, ports)) => (place, ports),
        None => ("", rest),
    };
    let (address, interface) = match place.split_once('%') {
        Some((address, interface)) => (address, Some(interface)),
        None => (place, None),
    };
    let address = address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
    let address = match address {
        "" => None,
        address => Some(address.parse::<IpAddr>().map_err(|_| wrong())?),
    };
    let (host, guest) = match ports.split_once(':') {
        Some((host, guest)) => (host, Some(guest)),
        None => (ports, None),
    };
    let host = parts::ports(host).map_err(|_| wrong())?;
    let guest = match guest.map(parts::ports) {
        None => host,
        Some(guest) => guest.map_err(|_| wrong())?,
    };
    let spans = [host, guest].map(|(first, last)| last - first);
    if spans[1] != 0 && spans[0] != spans[1] {
        return Err(format!(
            "`{text}`: the guest needs as many ports as the host: leave out the last"
        ));
    }
    if host.0 == 0 || guest.0 == 0 || guest.0.checked_add(spans[0]).is_none() {
        return Err(format!("`{text}`: ports are numbers from 1 to 65535"));
    }
    let interface = interface.map(str::to_owned);
    Ok(Publish { address, interface, host, guest: guest.0, is_udp, from: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        let plain = Publish {
            address: None,
            interface: None,
            host: (80, 80),
            guest: 80,
            is_udp: false,
            from: Vec::new(),
        };
        let local = Some("127.0.0.1".parse().expect("an address"));
        for (text, expected) in [
            ("80", plain.clone()),
            ("80/tcp", plain.clone()),
            ("80/udp", Publish { is_udp: true, ..plain.clone() }),
            ("8080:80", Publish { host: (8080, 8080), ..plain.clone() }),
            ("127.0.0.1/80", Publish { address: local, ..plain.clone() }),
            (
                "127.0.0.1%lo/90-95:80/udp",
                Publish {
                    address: local,
                    interface: Some("lo".to_owned()),
                    host: (90, 95),
                    is_udp: true,
                    ..plain.clone()
                },
            ),
            (
                "[::1]/1000-1001:80-81",
                Publish {
                    address: Some("::1".parse().expect("an address")),
                    host: (1000, 1001),
                    ..plain
                },
            ),
        ] {
            assert_eq!(publish(text), Ok(expected), "{text}");
        }
        for text in ["", "x", "0", "80:", "1-2:80-90", "65530-65535:65535", "1.2.3/80", "2-1"] {
            assert!(publish(text).is_err(), "{text}");
        }
    }
}
