//! The configuration file of wg-quick: `[Interface]` and `[Peer]` with keys and values.
//!
//! Called by: programs, for their options. Sources: wg-quick(8), wg(8). What belongs to interfaces
//! of the kernel (`Table`, `FwMark`, `SaveConfig`, `PreUp` and the like) is ignored.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::io;
use std::net::ToSocketAddrs;

use base::{Cidr, Mtu};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use boringtun::x25519::{PublicKey, StaticSecret};

/// The MTU without a line about it: what fits into 1,500 bytes over IPv6.
const MTU: Mtu = match Mtu::new(1_420) {
    Some(mtu) => mtu,
    None => Mtu::ETHERNET,
};
/// Peers at most.
const PEERS_MAX: usize = 256;

/// A tunnel as its file says.
#[derive(Clone)]
pub struct TunnelConfig {
    pub(super) private_key: StaticSecret,
    pub(super) addresses: Vec<Cidr>,
    pub(super) listen_port: u16,
    pub(super) mtu: Mtu,
    /// The name servers.
    pub dns: Vec<IpAddr>,
    pub(super) peers: Vec<PeerConfig>,
}

/// A peer.
#[derive(Clone)]
pub(super) struct PeerConfig {
    pub(super) public_key: PublicKey,
    pub(super) preshared_key: Option<[u8; 32]>,
    /// A name or an address, and a port.
    pub(super) endpoint: Option<(String, u16)>,
    pub(super) allowed_ips: Vec<Cidr>,
    pub(super) keepalive: Option<u16>,
}

impl fmt::Debug for TunnelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No log has keys.
        write!(f, "a tunnel with {} peers", self.peers.len())
    }
}

/// A mistake in a file, with its line. It says what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelParseError {
    /// The line, counted from 1.
    pub line: usize,
    why: String,
}

impl fmt::Display for TunnelParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl core::error::Error for TunnelParseError {}

/// What a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Interface,
    Peer,
}

/// A peer of which not all lines were read.
struct Draft {
    line: usize,
    public_key: Option<PublicKey>,
    rest: PeerConfig,
}

impl TunnelConfig {
    /// Read a file.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<TunnelConfig, TunnelParseError> {
        let mut reader = Reader::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let at = |why| TunnelParseError { line: number + 1, why };
            reader.line(line, number + 1).map_err(at)?;
        }
        let last = text.lines().count().max(1);
        reader.end().map_err(|(line, why)| TunnelParseError { line: line.unwrap_or(last), why })
    }

    /// Does it have an address of IPv6?
    pub fn has_v6(&self) -> bool {
        self.addresses.iter().any(|address| address.addr.is_ipv6())
    }

    /// Where the peers are, in the order of the file, by the resolver of the host. It waits.
    ///
    /// # Errors
    /// A name has no address; it is in the message.
    pub fn resolve(&self) -> io::Result<Vec<Option<SocketAddr>>> {
        let of = |peer: &PeerConfig| {
            let Some((host, port)) = &peer.endpoint else { return Ok(None) };
            let why = |why| io::Error::other(format!("the endpoint {host} is not known: {why}"));
            let mut all = (host.as_str(), *port).to_socket_addrs().map_err(why)?;
            all.next().map(Some).ok_or_else(|| why(io::ErrorKind::NotFound.into()))
        };
        self.peers.iter().map(of).collect()
    }
}

struct Reader {
    section: Section,
    private_key: Option<StaticSecret>,
    config: TunnelConfig,
    drafts: Vec<Draft>,
}

impl Reader {
    fn new() -> Reader {
        let config = TunnelConfig {
            private_key: StaticSecret::from([0; 32]),
            addresses: Vec::new(),
            listen_port: 0,
            mtu: MTU,
            dns: Vec::new(),
            peers: Vec::new(),
        };
        Reader { section: Section::None, private_key: None, config, drafts: Vec::new() }
    }

    fn line(&mut self, line: &str, number: usize) -> Result<(), String> {
        match line.to_ascii_lowercase().as_str() {
            "" => return Ok(()),
            "[interface]" => {
                self.section = Section::Interface;
                return Ok(());
            }
            "[peer]" if self.drafts.len() == PEERS_MAX => {
                return Err(format!("more than {PEERS_MAX} peers"));
            }
            "[peer]" => {
                self.section = Section::Peer;
                self.drafts.push(Draft::new(number));
                return Ok(());
            }
            _ => {}
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(format!("'{line}' is no KEY = VALUE, [Interface] or [Peer]"));
        };
        let (key, value) = (key.trim(), value.trim());
        match (self.section, self.drafts.last_mut()) {
            (Section::Interface, _) => self.of_interface(key, value),
            (Section::Peer, Some(draft)) => draft.take(key, value),
            _ => Err(format!("'{key}' is before [Interface] and [Peer]")),
        }
    }

    fn of_interface(&mut self, key: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        match key.to_ascii_lowercase().as_str() {
            "privatekey" => self.private_key = Some(StaticSecret::from(self::key(value)?)),
            "address" => config.addresses.extend(networks(value)?),
            // Names among them are search lists.
            "dns" => config.dns.extend(items(value).filter_map(|item| item.parse::<IpAddr>().ok())),
            "mtu" => {
                let mtu = value.parse().ok().and_then(Mtu::new);
                let mtu = mtu.filter(|mtu| (576..=65_000).contains(&mtu.bytes()));
                config.mtu = mtu.ok_or_else(|| format!("'{value}' is no MTU: write 1420"))?;
            }
            "listenport" => config.listen_port = number(value, "a port, such as 51820")?,
            "table" | "fwmark" | "saveconfig" | "preup" | "postup" | "predown" | "postdown" => {}
            _ => return Err(unknown(key, "PrivateKey, Address, DNS, MTU, ListenPort")),
        }
        Ok(())
    }

    fn end(mut self) -> Result<TunnelConfig, (Option<usize>, String)> {
        let missing = |line, what: &str| (line, format!("{what} is missing"));
        let private_key = self.private_key;
        self.config.private_key =
            private_key.ok_or_else(|| missing(None, "PrivateKey of [Interface]"))?;
        if self.config.addresses.is_empty() {
            return Err(missing(None, "Address of [Interface]"));
        }
        if self.drafts.is_empty() {
            return Err(missing(None, "[Peer]"));
        }
        for Draft { line, public_key, rest } in self.drafts {
            let public_key = public_key.ok_or_else(|| missing(Some(line), "PublicKey"))?;
            if self.config.peers.iter().any(|peer| peer.public_key == public_key) {
                return Err((Some(line), "another [Peer] has the same PublicKey".to_owned()));
            }
            self.config.peers.push(PeerConfig { public_key, ..rest });
        }
        Ok(self.config)
    }
}

impl Draft {
    fn new(line: usize) -> Draft {
        let rest = PeerConfig {
            public_key: PublicKey::from([0; 32]),
            preshared_key: None,
            endpoint: None,
            allowed_ips: Vec::new(),
            keepalive: None,
        };
        Draft { line, public_key: None, rest }
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let peer = &mut self.rest;
        match key.to_ascii_lowercase().as_str() {
            "publickey" => self.public_key = Some(PublicKey::from(self::key(value)?)),
            "presharedkey" => peer.preshared_key = Some(self::key(value)?),
            "allowedips" => peer.allowed_ips.extend(networks(value)?),
            "endpoint" => peer.endpoint = Some(endpoint(value)?),
            "persistentkeepalive" if value.eq_ignore_ascii_case("off") => peer.keepalive = None,
            "persistentkeepalive" => {
                let seconds = number(value, "seconds, such as 25, or off")?;
                peer.keepalive = Some(seconds).filter(|&seconds| seconds > 0);
            }
            _ => {
                let known = "PublicKey, PresharedKey, Endpoint, AllowedIPs, PersistentKeepalive";
                return Err(unknown(key, known));
            }
        }
        Ok(())
    }
}

fn unknown(key: &str, known: &str) -> String {
    format!("'{key}' is not known here: {known} are")
}

fn items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Networks, or addresses with or without a prefix length.
fn networks(value: &str) -> Result<Vec<Cidr>, String> {
    let of = |item: &str| {
        let network = item.parse().ok().or_else(|| {
            let addr: IpAddr = item.parse().ok()?;
            Some(Cidr { addr, prefix_len: if addr.is_ipv4() { 32 } else { 128 } })
        });
        network.ok_or_else(|| format!("'{item}' is no network: write 10.0.0.2/32 or fd00::2/128"))
    };
    items(value).map(of).collect()
}

fn number(value: &str, expected: &str) -> Result<u16, String> {
    value.parse().map_err(|_| format!("'{value}' is no number: write {expected}"))
}

/// A key; no message has it.
fn key(value: &str) -> Result<[u8; 32], String> {
    let bytes = STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "this is no key of 32 bytes in base64, as wg genkey prints it".to_owned())
}

fn endpoint(value: &str) -> Result<(String, u16), String> {
    let split = value.rsplit_once(':').and_then(|(host, port)| {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = bare.is_some() || !host.is_empty() && !host.contains(':');
        let port = port.parse().ok().filter(|&port: &u16| port != 0);
        Some((bare.unwrap_or(host).to_owned(), port.filter(|_| is_host)?))
    });
    split.ok_or_else(|| {
        format!("'{value}' is no endpoint: write vpn.example.org:51820 or [2001:db8::1]:51820")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn text(more: &str) -> String {
        format!(
            "# a comment\n[Interface]\nPrivateKey = {KEY}\nAddress = 10.9.0.2/24, fd09::2/64\n\
             DNS = 10.9.0.1, example.org\nMTU=1400\nPostUp = iptables -A x\n\n[Peer]\n\
             PublicKey={KEY}\nPresharedKey={KEY}\nAllowedIPs = 0.0.0.0/0, ::/0,192.0.2.1\n\
             Endpoint = vpn.example.org:51820 # where\nPersistentKeepalive = 25\n{more}"
        )
    }

    #[test]
    fn a_file_of_wg_quick_is_read() {
        let config = TunnelConfig::parse(&text("")).expect("it is right");
        assert_eq!((config.mtu.bytes(), config.listen_port), (1_400, 0));
        assert_eq!(config.dns, ["10.9.0.1".parse::<IpAddr>().expect("one")]);
        assert_eq!(config.addresses.len(), 2);
        let peer = &config.peers[0];
        assert_eq!(peer.endpoint, Some(("vpn.example.org".to_owned(), 51_820)));
        assert_eq!((peer.allowed_ips.len(), peer.keepalive), (3, Some(25)));
        assert_eq!(peer.allowed_ips[2].prefix_len, 32);
        assert!(!format!("{config:?}").contains("AAEC"));
    }

    #[test]
    fn mistakes_have_a_line_and_say_what_to_write() {
        for (more, line, says) in [
            ("Endpoint = ::1:51820", 15, "[2001:db8::1]:51820"),
            ("Endpoint = vpn", 15, "vpn.example.org:51820"),
            ("AllowedIPs = 10.0.0.0/33", 15, "10.0.0.2/32"),
            ("PersistentKeepalive = often", 15, "off"),
            ("Adress = 1.1.1.1", 15, "not known here"),
            ("nonsense", 15, "KEY = VALUE"),
            ("[Peer]\nAllowedIPs = ::/0", 15, "PublicKey is missing"),
        ] {
            let why = TunnelConfig::parse(&text(more)).expect_err(more);
            assert_eq!(why.line, line, "{why}");
            assert!(why.to_string().contains(says), "{why}");
        }
        let again = format!("[Peer]\nPublicKey={KEY}");
        let why = TunnelConfig::parse(&text(&again)).expect_err("twice");
        assert!(why.to_string().contains("the same PublicKey"));
        let wrong = text("").replace(KEY, "secret");
        let why = TunnelConfig::parse(&wrong).expect_err("no key");
        assert!(why.line == 3 && !why.to_string().contains("secret"), "{why}");
        for (text, says) in [("", "PrivateKey"), ("DNS = 1.1.1.1", "before [Interface]")] {
            let why = TunnelConfig::parse(text).expect_err("nothing");
            assert!(why.to_string().contains(says), "{why}");
        }
    }
}
