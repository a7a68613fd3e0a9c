//! `-p`: ports of the host that lead to ports of the program.
//!
//! Called by: clap; `launch.rs`, which makes the sockets, because the gateway's process may not
//! listen; `gateway.rs`, which accepts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::str::FromStr;

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, sockopt};
use serde::{Deserialize, Serialize};

/// Connections that the kernel keeps until the gateway takes them.
const BACKLOG: i32 = 128;

/// The ports of one `-p` at most: each has a socket or two.
const PORTS_MAX: u16 = 64;

/// Published ports: `[ADDR[%IF]/]H[-H2][:G[-G2]][/udp]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Publish {
    /// Where to listen; `None` is every address of both versions.
    addr: Option<IpAddr>,
    interface: Option<String>,
    /// The first port of the host, the first port of the program, and how many follow.
    host: u16,
    program: u16,
    more: u16,
    udp: bool,
}

impl FromStr for Publish {
    type Err = String;

    fn from_str(text: &str) -> Result<Publish, String> {
        let (rest, udp) = match text.rsplit_once('/') {
            Some((rest, "udp")) => (rest, true),
            Some((rest, "tcp")) => (rest, false),
            _ => (text, false),
        };
        let (place, ports) = match rest.split_once('/') {
            Some((place, ports)) => (Some(place), ports),
            None => (None, rest),
        };
        let (addr, interface) = place.map_or(Ok((None, None)), where_to_listen)?;
        let (host, program) = ports.split_once(':').unwrap_or((ports, ports));
        let ((host, more), (program, as_many)) = (range(host)?, range(program)?);
        if more != as_many {
            return Err(format!("'{ports}': both ranges have to have as many ports"));
        }
        if more >= PORTS_MAX {
            return Err(format!("'{ports}': give {PORTS_MAX} ports at most"));
        }
        Ok(Publish { addr, interface, host, program, more, udp })
    }
}

fn where_to_listen(text: &str) -> Result<(Option<IpAddr>, Option<String>), String> {
    let (addr, interface) = match text.split_once('%') {
        Some((_, "")) => return Err("the % wants the name of an interface behind it".to_owned()),
        Some((addr, interface)) => (addr, Some(interface.to_owned())),
        None => (text, None),
    };
    let bare = addr.trim_start_matches('[').trim_end_matches(']');
    match bare {
        "" | "*" => Ok((None, interface)),
        _ => match bare.parse() {
            Ok(addr) => Ok((Some(addr), interface)),
            Err(_) => Err(format!("'{addr}' is no address: write 127.0.0.1/8080:80")),
        },
    }
}

/// The first port of a range, and how many follow.
fn range(text: &str) -> Result<(u16, u16), String> {
    let port = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err(format!("'{text}' is no port: write 8080:80, or 8000-8010:80-90")),
        Ok(port) => Ok(port),
    };
    let Some((first, last)) = text.split_once('-') else { return Ok((port(text)?, 0)) };
    let (first, last): (u16, u16) = (port(first)?, port(last)?);
    last.checked_sub(first)
        .map(|more| (first, more))
        .ok_or_else(|| format!("'{text}': the last port is before the first"))
}

/// A socket of a published port, as the gateway's process gets it beside its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Published {
    /// The program's port.
    pub(super) to: u16,
    pub(super) udp: bool,
}

impl Publish {
    /// Make the sockets: one for each port and version.
    ///
    /// # Errors
    /// The port is taken, or this user may not have it.
    pub(super) fn sockets(&self) -> Result<Vec<(Published, OwnedFd)>> {
        let mut made = Vec::new();
        for number in 0..=self.more {
            let (host, to) = (self.host + number, self.program + number);
            let addresses = match self.addr {
                Some(addr) => vec![addr],
                None => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            };
            for addr in addresses {
                let at = SocketAddr::new(addr, host);
                match self.socket(at) {
                    Ok(fd) => made.push((Published { to, udp: self.udp }, fd)),
                    // A host may be without IPv6.
                    Err(_) if self.addr.is_none() && addr.is_ipv6() => {}
                    Err(why) => return Err(why).with_context(|| cannot(at)),
                }
            }
        }
        Ok(made)
    }

    fn socket(&self, at: SocketAddr) -> io::Result<OwnedFd> {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let (kind, protocol) = match self.udp {
            true => (SocketType::DGRAM, ipproto::UDP),
            false => (SocketType::STREAM, ipproto::TCP),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(family, kind, flags, Some(protocol))?;
        if at.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        if let Some(interface) = &self.interface {
            sockopt::set_socket_bindtodevice(&fd, interface)?;
        }
        if !self.udp {
            sockopt::set_socket_reuseaddr(&fd, true)?;
        }
        bind(&fd, &at)?;
        if !self.udp {
            listen(&fd, BACKLOG)?;
        }
        Ok(fd)
    }
}

fn cannot(at: SocketAddr) -> String {
    format!("{at} cannot be published: give another port, above 1023 for an ordinary user")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Publish {
        text.parse().expect("the port is valid")
    }

    #[test]
    fn ports_are_written_as_for_pasta() {
        let plain = Publish {
            addr: None,
            interface: None,
            host: 8080,
            program: 8080,
            more: 0,
            udp: false,
        };
        assert_eq!(parsed("8080"), plain);
        assert_eq!(parsed("8080:80"), Publish { program: 80, ..plain.clone() });
        assert_eq!(parsed("8080/udp"), Publish { udp: true, ..plain.clone() });
        let addr = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(parsed("127.0.0.1/8080"), Publish { addr, ..plain.clone() });
        let addr = Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
        assert_eq!(parsed("[::1]/8080:80/tcp"), Publish { addr, program: 80, ..plain.clone() });
        let interface = Some("eth0".to_owned());
        assert_eq!(parsed("%eth0/8080"), Publish { interface, ..plain.clone() });
        assert_eq!(parsed("8080-8082:80-82"), Publish { program: 80, more: 2, ..plain });
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, says) in [
            ("", "no port"),
            ("0", "no port"),
            ("web:80", "no port"),
            ("80-70", "before the first"),
            ("80-81:80", "as many ports"),
            ("8000-9000", "64 ports"),
            ("localhost/80", "no address"),
            ("127.0.0.1%/80", "name of an interface"),
        ] {
            let why = text.parse::<Publish>().expect_err("the port is not valid");
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn a_port_that_is_taken_is_an_error() {
        let one = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = one.local_addr().expect("an address").port();
        let why = parsed(&format!("127.0.0.1/{port}")).sockets().expect_err("it is taken");
        assert!(format!("{why:#}").contains("another port"), "{why:#}");
    }
}
