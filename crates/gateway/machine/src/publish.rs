//! `-p`: ports of the host that lead to ports of a guest.
//!
//! Called by: `running.rs` and tools, which make the sockets, because a gateway without privileges
//! cannot bind them to an interface; `machine.rs`, which accepts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::str::FromStr;

use anyhow::{Context, Result};
use base::Cidr;
use outside::{Bound, Listen};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The ports of one `-p` at most: each has a socket.
const PORTS_MAX: u16 = 64;

/// Published ports: `[ADDR[%IF]/]H[-H2][:[GUEST:]G[-G2]][/udp]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// Where to listen, with the first port of the host.
    listen: Listen,
    /// The first port of the program, and how many follow.
    program: u16,
    more: u16,
    udp: bool,
    /// The guest, if it is not the first one.
    guest: Option<IpAddr>,
    /// The networks of clients that may connect; empty means all.
    from: Vec<(IpAddr, u8)>,
}

impl From<&policy::rules::Publish> for Publish {
    /// A published port of a file of rules.
    fn from(rule: &policy::rules::Publish) -> Publish {
        let (first, last) = rule.host;
        let (address, interface) = (rule.address, rule.interface.clone());
        Publish {
            listen: Listen { address, interface, port: first },
            program: rule.guest,
            more: last.saturating_sub(first),
            udp: rule.is_udp,
            guest: None,
            from: rule.from.iter().map(|network| (network.addr, network.prefix_len)).collect(),
        }
    }
}

impl FromStr for Publish {
    type Err = String;

    fn from_str(text: &str) -> Result<Publish, String> {
        let (rest, udp) = match text.rsplit_once('/') {
            Some((rest, "udp")) => (rest, true),
            Some((rest, "tcp")) => (rest, false),
            _ => (text, false),
        };
        let (place, ports) = match rest.rsplit_once('/') {
            Some((place, ports)) => (format!("{place}/"), ports),
            None => (String::new(), rest),
        };
        let (host, program) = ports.split_once(':').unwrap_or((ports, ports));
        let (guest, program) = match program.rsplit_once(':') {
            None => (None, program),
            Some((guest, port)) => (Some(address(guest)?), port),
        };
        let ((host, more), (program, as_many)) = (range(host)?, range(program)?);
        if more != as_many {
            return Err(format!("'{ports}': both ranges have to have as many ports"));
        }
        if more >= PORTS_MAX {
            return Err(format!("'{ports}': give {PORTS_MAX} ports at most"));
        }
        let listen = format!("{place}{host}").parse::<Listen>().map_err(|why| why.to_string())?;
        Ok(Publish { listen, program, more, udp, guest, from: Vec::new() })
    }
}

/// The address of a guest.
fn address(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let why = || format!("'{text}' is no address of a guest: write 8080:80 or 8080:10.0.2.101:80");
    bare.parse().map_err(|_| why())
}

/// The first port of a range, and how many follow.
fn range(text: &str) -> Result<(u16, u16), String> {
    let port = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err(format!("'{text}' is no port: write 8080:80, or 8000-8010:80-90")),
        Ok(port) => Ok(port),
    };
    let Some((first, last)) = text.split_once('-') else { return Ok((port(text)?, 0)) };
    let (first, last): (u16, u16) = (port(first)?, port(last)?);
    let more = last.checked_sub(first);
    Ok((first, more.ok_or_else(|| format!("'{text}': the last port is before the first"))?))
}

/// A socket of a published port, as the gateway's process gets it beside its descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The program's port.
    pub to: u16,
    /// Is it a port of UDP?
    pub udp: bool,
    /// The guest, if it is not the first one.
    pub(super) guest: Option<IpAddr>,
    /// The networks of clients that may connect; empty means all.
    pub(super) from: Vec<(IpAddr, u8)>,
}

impl Published {
    /// The networks from which clients may come; empty means all.
    pub(super) fn networks(&self) -> Vec<Cidr> {
        let of = |&(addr, prefix_len): &(IpAddr, u8)| Cidr { addr, prefix_len };
        self.from.iter().map(of).collect()
    }

    /// May this client connect?
    pub(super) fn admits(&self, client: IpAddr) -> bool {
        let has = |&(addr, prefix_len): &(IpAddr, u8)| {
            Cidr { addr, prefix_len }.contains(client.to_canonical())
        };
        self.from.is_empty() || self.from.iter().any(has)
    }
}

impl Publish {
    /// Make the sockets, one for each port; without an address one of each version for datagrams,
    /// which lead to the program's address of that version.
    ///
    /// # Errors
    /// The port is taken, or this user may not have it.
    pub fn sockets(&self) -> Result<Vec<(Published, OwnedFd)>> {
        let mut all = Vec::new();
        for (listen, what) in self.parts() {
            let made = match (self.udp, listen.address) {
                (false, _) => vec![Bound::tcp(&listen)],
                (true, Some(_)) => vec![Bound::udp(&listen)],
                (true, None) => of_each_version(&listen),
            };
            for bound in made {
                all.push((what.clone(), bound.with_context(|| cannot(listen.port))?.into_fd()));
            }
        }
        Ok(all)
    }

    /// Each port of the host, and where it leads.
    fn parts(&self) -> impl Iterator<Item = (Listen, Published)> {
        (0..=self.more).map(|number| {
            let port = self.listen.port.saturating_add(number);
            let (to, from) = (self.program.saturating_add(number), self.from.clone());
            let what = Published { to, udp: self.udp, guest: self.guest, from };
            (Listen { port, ..self.listen.clone() }, what)
        })
    }

    /// One port.
    pub(super) fn one(listen: Listen, guest: Option<IpAddr>, program: u16, udp: bool) -> Publish {
        Publish { listen, program, more: 0, udp, guest, from: Vec::new() }
    }

    /// Is the socket at this address, which leads there, one of these ports?
    pub(super) fn is_of(&self, at: SocketAddr, what: &Published) -> bool {
        let is_at = |listen: &Listen| {
            let is_it = match listen.address {
                Some(address) => address == at.ip(),
                None => at.ip().is_unspecified(),
            };
            is_it && listen.port == at.port()
        };
        self.parts().any(|(listen, part)| {
            is_at(&listen) && (part.to, part.udp, part.guest) == (what.to, what.udp, what.guest)
        })
    }
}

/// Sockets for datagrams at all addresses; of IPv6 only where the host has it.
fn of_each_version(listen: &Listen) -> Vec<io::Result<Bound>> {
    let at = |ip: IpAddr| Bound::udp(&Listen { address: Some(ip), ..listen.clone() });
    let v6 = at(Ipv6Addr::UNSPECIFIED.into());
    let is_without = |why: &io::Error| {
        matches!(Errno::from_io_error(why), Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
    };
    let v6 = Some(v6).filter(|made| !made.as_ref().is_err_and(is_without));
    [at(Ipv4Addr::UNSPECIFIED.into())].into_iter().chain(v6).collect()
}

fn cannot(port: u16) -> String {
    format!("port {port} cannot be published: give another one, above 1023 for an ordinary user")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Publish {
        text.parse().expect("the port is valid")
    }

    #[test]
    fn ports_are_written_as_for_pasta() {
        let listen = |text: &str| text.parse::<Listen>().expect("a listener");
        let plain = Publish {
            listen: listen("8080"),
            program: 8080,
            more: 0,
            udp: false,
            guest: None,
            from: Vec::new(),
        };
        assert_eq!(parsed("8080"), plain);
        assert_eq!(parsed("8080:80"), Publish { program: 80, ..plain.clone() });
        assert_eq!(parsed("8080/udp"), Publish { udp: true, ..plain.clone() });
        assert_eq!(
            parsed("::1/8080:80/tcp"),
            Publish { listen: listen("::1/8080"), program: 80, ..plain.clone() }
        );
        let guest = Some("10.0.2.101".parse().expect("an address"));
        let other = Publish { program: 80, guest, ..plain.clone() };
        assert_eq!(parsed("8080:10.0.2.101:80"), other);
        let listen = listen("%eth0/8080");
        assert_eq!(parsed("%eth0/8080"), Publish { listen, ..plain.clone() });
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
            ("80:guest:80", "address of a guest"),
            ("localhost/80", "address of the host"),
            ("127.0.0.1%/80", "name of an interface"),
        ] {
            let why = text.parse::<Publish>().expect_err("the port is not valid");
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn clients_are_admitted_by_their_networks() {
        let network = (IpAddr::from([192, 0, 2, 0]), 24);
        let mut port = Published { to: 80, udp: false, guest: None, from: vec![network] };
        let client = |text: &str| text.parse().expect("an address");
        assert!(port.admits(client("192.0.2.9")) && port.admits(client("::ffff:192.0.2.9")));
        assert!(!port.admits(client("198.51.100.9")) && !port.admits(client("2001:db8::1")));
        port.from.clear();
        assert!(port.admits(client("2001:db8::1")));
    }

    #[test]
    fn a_port_that_is_taken_is_an_error() {
        let one = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = one.local_addr().expect("an address").port();
        let why = parsed(&format!("127.0.0.1/{port}")).sockets().expect_err("it is taken");
        assert!(format!("{why:#}").contains("another one"), "{why:#}");
        // Another protocol has ports of its own.
        let made = parsed(&format!("127.0.0.1/{port}/udp")).sockets().expect("it is free");
        assert_eq!(made.len(), 1);
        drop(made);
        let made = parsed(&format!("{port}/udp")).sockets().expect("it is free");
        let has_v6 = std::path::Path::new("/proc/net/if_inet6").exists();
        assert_eq!(made.len(), 1 + usize::from(has_v6));
    }
}
