//! Ports that are published as soon as something listens at them in the program's network, and
//! closed after it: the tables of that network's sockets are read once a second.
//!
//! Called by: `publishing.rs`, if a drop-in asked for it. An open table (/proc/net/tcp, proc(5))
//! shows the network namespace in which it was opened, whoever reads it. A gateway without this
//! does not tick.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use base::{Duration, Instant};

use super::settings::Auto;

/// How often.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a table that are read: some thousand sockets.
const TABLE_BYTES_MAX: usize = 1 << 20;
/// Ports at most.
const PORTS_MAX: usize = 1_024;

/// The states of sockets that wait for clients (Linux `net/tcp_states.h`).
const TCP_LISTEN: &str = "0A";
const UDP_OPEN: &str = "07";

/// What listens, and is published.
#[derive(Debug)]
pub(super) struct Listening {
    /// Tables of TCP, then of UDP; one of each version.
    tables: Vec<File>,
    auto: Auto,
    pub(super) next: Instant,
    /// A port and whether it is of UDP, with the number of its sockets; 0 if it could not be had.
    pub(super) open: Vec<((u16, bool), u64)>,
}

impl Listening {
    pub(super) fn new(tables: Vec<OwnedFd>, auto: Auto) -> Listening {
        let next = if tables.is_empty() { Instant::NEVER } else { Instant::ZERO };
        Listening {
            tables: tables.into_iter().map(File::from).collect(),
            auto,
            next,
            open: Vec::new(),
        }
    }

    pub(super) fn next_deadline(&self) -> Instant {
        self.next
    }

    /// The ports at which others can reach something, and whether each is of UDP.
    pub(super) fn found(&self, reaches: &dyn Fn(IpAddr) -> bool) -> BTreeSet<(u16, bool)> {
        let mut all = BTreeSet::new();
        for (number, table) in self.tables.iter().enumerate() {
            let is_udp = number >= 2;
            if if is_udp { self.auto.udp } else { self.auto.tcp } {
                let state = if is_udp { UDP_OPEN } else { TCP_LISTEN };
                let text = read(table);
                let at = text.lines().filter_map(|line| listener(line, state));
                let ports = at.filter(|at| reaches(at.ip())).map(|at| (at.port(), is_udp));
                all.extend(ports.take(PORTS_MAX.saturating_sub(all.len())));
            }
        }
        all
    }
}

/// The text of a table now.
fn read(table: &File) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4_096];
    while bytes.len() < TABLE_BYTES_MAX {
        match table.read_at(&mut chunk, bytes.len() as u64) {
            Ok(count @ 1..) => bytes.extend(&chunk[..count]),
            Ok(0) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The address of a socket in this state, without a peer. Fields of a line: number, address, peer,
/// state.
fn listener(line: &str, state: &str) -> Option<SocketAddr> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (own, peer) = (address(fields.next()?)?, address(fields.next()?)?);
    (fields.next()? == state && peer.port() == 0 && own.port() != 0).then_some(own)
}

/// An address of the table: words in the host's byte order, in hexadecimal digits, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| {
        let digits = ip.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found_in_the_table() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        let found = listener(line, TCP_LISTEN);
        assert_eq!(found, Some("127.0.0.1:8080".parse().expect("an address")));
        assert_eq!(listener(line, UDP_OPEN), None);
        let header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt";
        assert_eq!(listener(header, TCP_LISTEN), None);
        let six = " 0: 00000000000000000000000000000000:0050 \
                   00000000000000000000000000000000:0000 0A";
        assert_eq!(listener(six, TCP_LISTEN), Some("[::]:80".parse().expect("an address")));
        for text in ["", "0:", "0: é0000000:0 0:0 0A", "0: 0100007F:1F90 00000000:0000"] {
            assert_eq!(listener(text, TCP_LISTEN), None, "{text}");
        }
    }

    #[test]
    fn a_table_of_this_machine_can_be_read_again() {
        let table = File::open("/proc/net/tcp").expect("it is there");
        let own = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = own.local_addr().expect("an address");
        let has = |table: &File| read(table).lines().any(|l| listener(l, TCP_LISTEN) == Some(at));
        assert!(has(&table));
        drop(own);
        assert!(!has(&table));
    }
}
