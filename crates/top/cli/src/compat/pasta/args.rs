//! The command line of pasta(1), as of 2026.
//!
//! Called by: `pasta.rs`. `help.rs` has the text of `--help`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use machine::parts::Learn;
use wirespeed::MacAddr;

use super::super::getopt::{Known, Line, Order, parse};
use super::super::ports::{self, Spec};

/// All options. Those of ours come last.
pub(in crate::compat) const KNOWN: &[Known] = &[
    Known::flag(Some('h'), "help"),
    Known::flag(None, "version"),
    Known::flag(Some('d'), "debug"),
    Known::flag(None, "trace"),
    Known::with(None, "stats"),
    Known::flag(Some('q'), "quiet"),
    Known::flag(Some('f'), "foreground"),
    Known::flag(Some('e'), "stderr"),
    Known::with(Some('l'), "log-file"),
    Known::with(None, "log-size"),
    Known::with(None, "runas"),
    Known::with(Some('c'), "conf-path"),
    Known::with(Some('I'), "ns-ifname"),
    Known::with(Some('p'), "pcap"),
    Known::with(Some('P'), "pid"),
    Known::with(Some('m'), "mtu"),
    Known::with(Some('a'), "address"),
    Known::with(Some('n'), "netmask"),
    Known::with(Some('M'), "mac-addr"),
    Known::with(Some('g'), "gateway"),
    Known::with(Some('i'), "interface"),
    Known::with(Some('o'), "outbound"),
    Known::with(None, "outbound-if4"),
    Known::with(None, "outbound-if6"),
    Known::with(Some('D'), "dns"),
    Known::with(Some('S'), "search"),
    Known::with(Some('H'), "hostname"),
    Known::with(None, "fqdn"),
    Known::flag(None, "dhcp-dns"),
    Known::flag(None, "no-dhcp-dns"),
    Known::flag(None, "dhcp-search"),
    Known::flag(None, "no-dhcp-search"),
    Known::with(None, "map-host-loopback"),
    Known::with(None, "map-guest-addr"),
    Known::with(None, "dns-forward"),
    Known::with(None, "dns-host"),
    Known::flag(None, "no-tcp"),
    Known::flag(None, "no-udp"),
    Known::flag(None, "no-icmp"),
    Known::flag(None, "no-dhcp"),
    Known::flag(None, "no-ndp"),
    Known::flag(None, "no-dhcpv6"),
    Known::flag(None, "no-ra"),
    Known::flag(None, "freebind"),
    Known::flag(None, "no-map-gw"),
    Known::flag(None, "chroot-fallback"),
    Known::flag(Some('4'), "ipv4-only"),
    Known::flag(Some('6'), "ipv6-only"),
    Known::with(Some('t'), "tcp-ports"),
    Known::with(Some('u'), "udp-ports"),
    Known::with(Some('T'), "tcp-ns"),
    Known::with(Some('U'), "udp-ns"),
    Known::flag(None, "host-lo-to-ns-lo"),
    Known::with(None, "userns"),
    Known::with(None, "netns"),
    Known::flag(None, "netns-only"),
    Known::flag(None, "no-netns-quit"),
    Known::flag(None, "no-pidns"),
    Known::flag(None, "config-net"),
    Known::flag(None, "no-copy-routes"),
    Known::flag(None, "no-copy-addrs"),
    Known::with(None, "ns-mac-addr"),
    Known::flag(None, "no-splice"),
    Known::flag(None, "splice-only"),
    Known::with(None, "link"),
    Known::with(None, "policy"),
    Known::with(None, "allow"),
    Known::with(None, "deny"),
    Known::with(None, "default"),
    Known::with(None, "via"),
    Known::with(None, "log"),
    Known::with(None, "http"),
];

/// Options of ours, which netns(1) has as well: their values are passed on.
const OURS: &[&str] = &["link", "policy", "allow", "deny", "default", "via", "log", "http"];

/// What to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::compat) enum Target {
    /// The network of a process.
    Pid(u32),
    /// A network namespace that has a path.
    Path(PathBuf),
    /// A command in a new network; empty means a shell.
    Command(Vec<OsString>),
}

/// The command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::compat) struct Args {
    pub(in crate::compat) target: Target,
    /// The user namespace to enter.
    pub(in crate::compat) userns: Option<PathBuf>,
    /// Enter none.
    pub(in crate::compat) netns_only: bool,
    pub(in crate::compat) quits: bool,
    pub(in crate::compat) is_configured: bool,
    pub(in crate::compat) foreground: bool,
    pub(in crate::compat) quiet: bool,
    pub(in crate::compat) log_file: Option<PathBuf>,
    pub(in crate::compat) pid_file: Option<PathBuf>,
    pub(in crate::compat) interface: Option<String>,
    pub(in crate::compat) mac: Option<MacAddr>,
    pub(in crate::compat) versions: Versions,
    pub(in crate::compat) addresses: Vec<(IpAddr, Option<u8>)>,
    pub(in crate::compat) prefix_len: Option<u8>,
    pub(in crate::compat) gateways: Vec<IpAddr>,
    pub(in crate::compat) dns_forward: Vec<IpAddr>,
    /// Addresses that stand for the host's loopback address; `None`: the gateway's.
    pub(in crate::compat) loopback: Option<Vec<IpAddr>>,
    /// Addresses that stand for the host's address towards others.
    pub(in crate::compat) own_address: Vec<IpAddr>,
    pub(in crate::compat) serves: Serves,
    pub(in crate::compat) tcp: Vec<Spec>,
    pub(in crate::compat) udp: Vec<Spec>,
    pub(in crate::compat) tcp_ns: Vec<Spec>,
    /// Words for the options that all gateways have.
    pub(in crate::compat) words: Vec<String>,
    /// What is not done, for the user.
    pub(in crate::compat) notes: Vec<String>,
}

/// IP versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compat) struct Versions {
    pub(in crate::compat) v4: bool,
    pub(in crate::compat) v6: bool,
}

/// What an interface without addresses can learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compat) struct Serves {
    pub(in crate::compat) dhcp4: bool,
    pub(in crate::compat) ra: bool,
    pub(in crate::compat) dhcp6: bool,
    pub(in crate::compat) dns: bool,
}

impl Serves {
    /// What guests learn then.
    pub(in crate::compat) fn of(self, learn: Learn) -> Learn {
        let Serves { dhcp4, ra, dhcp6, dns } = self;
        Learn { has_names: dns, dhcp4, ra, dhcp6, ..learn }
    }
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::compat) enum Asked {
    Help,
    Version,
    Run(Box<Args>),
}

/// Read a command line.
///
/// # Errors
/// What is wrong: with the options in the words of getopt_long(3).
pub(in crate::compat) fn read(words: &[OsString]) -> Result<Asked, String> {
    let line = parse(KNOWN, Order::First, words)?;
    // The first of the two decides, as every option before them is checked for being known alone.
    for (name, _) in &line.options {
        match name.as_str() {
            "help" => return Ok(Asked::Help),
            "version" => return Ok(Asked::Version),
            _ => {}
        }
    }
    let mut args = Args::default();
    let mut netns = None;
    for (name, value) in &line.options {
        match name.as_str() {
            "netns" => netns = Some(named(value)),
            _ => args.option(name, value)?,
        }
    }
    args.target = target(netns, &line)?;
    if !args.versions.v4 && !args.versions.v6 {
        return Err("--ipv4-only and --ipv6-only leave no network: drop one".to_owned());
    }
    Ok(Asked::Run(Box::new(args)))
}

/// A path, or a name of ip-netns(8).
fn named(text: &str) -> PathBuf {
    if text.contains('/') { text.into() } else { PathBuf::from("/run/netns").join(text) }
}

fn target(netns: Option<PathBuf>, line: &Line) -> Result<Target, String> {
    match (netns, line.rest.as_slice()) {
        (Some(path), []) => Ok(Target::Path(path)),
        (Some(_), _) => Err("--netns and a command or a PID: give one of them".to_owned()),
        (None, [word]) if !line.is_separated => {
            let text = word.to_str().unwrap_or_default();
            Ok(text.parse().map_or_else(|_| Target::Command(line.rest.clone()), Target::Pid))
        }
        (None, command) => Ok(Target::Command(command.to_vec())),
    }
}

impl Default for Args {
    fn default() -> Args {
        Args {
            target: Target::Command(Vec::new()),
            userns: None,
            netns_only: false,
            quits: true,
            is_configured: false,
            foreground: false,
            quiet: false,
            log_file: None,
            pid_file: None,
            interface: None,
            mac: None,
            versions: Versions { v4: true, v6: true },
            addresses: Vec::new(),
            prefix_len: None,
            gateways: Vec::new(),
            dns_forward: Vec::new(),
            loopback: None,
            own_address: Vec::new(),
            serves: Serves { dhcp4: true, ra: true, dhcp6: true, dns: false },
            tcp: Vec::new(),
            udp: Vec::new(),
            tcp_ns: Vec::new(),
            words: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Args {
    /// Take an option.
    pub(in crate::compat) fn option(&mut self, name: &str, value: &str) -> Result<(), String> {
        let path = || Some(PathBuf::from(value));
        match name {
            "userns" => self.userns = path(),
            "netns-only" => self.netns_only = true,
            "no-netns-quit" => self.quits = false,
            "config-net" => self.is_configured = true,
            "foreground" => self.foreground = true,
            "quiet" => self.quiet = true,
            "log-file" => self.log_file = path(),
            "pid" => self.pid_file = path(),
            "conf-path" => self.pass_on("orders", value),
            "ns-ifname" => self.interface = Some(interface(value)?),
            "ns-mac-addr" => self.mac = Some(mac(value)?),
            "ipv4-only" => self.versions.v6 = false,
            "ipv6-only" => self.versions.v4 = false,
            "tcp-ports" => self.tcp.push(ports::parse(value)?),
            "udp-ports" => self.udp.push(ports::parse(value)?),
            "tcp-ns" => self.tcp_ns.push(ports::parse(value)?),
            "udp-ns" => {
                if !matches!(ports::parse(value)?, Spec::None | Spec::Auto) {
                    self.notes.push("--udp-ns is ignored: only TCP leads to the host".to_owned());
                }
            }
            "no-dhcp" => self.serves.dhcp4 = false,
            "no-ra" => self.serves.ra = false,
            "no-dhcpv6" => self.serves.dhcp6 = false,
            "dhcp-dns" => self.serves.dns = true,
            "no-dhcp-dns" => self.serves.dns = false,
            "no-tcp" => self.deny("any:tcp"),
            "no-udp" => self.deny("any:udp"),
            "no-icmp" => self.deny("any:echo"),
            "pcap" => self.pass_on("capture", value),
            // Zero leaves the MTU out of what is assigned.
            "mtu" if value == "0" => {}
            "mtu" => self.pass_on("mtu", value),
            _ if OURS.contains(&name) => self.pass_on(name, value),
            _ => return self.addresses(name, value),
        }
        Ok(())
    }

    fn addresses(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "address" => self.addresses.push(with_prefix(value)?),
            "netmask" => self.prefix_len = Some(netmask(value)?),
            "gateway" => self.gateways.push(address(value)?),
            "dns-forward" => self.dns_forward.push(address(value)?),
            "map-host-loopback" if value == "none" => self.loopback = Some(Vec::new()),
            "map-host-loopback" => {
                self.loopback.get_or_insert_default().push(address(value)?);
            }
            "no-map-gw" => {
                self.loopback.get_or_insert_default();
            }
            "map-guest-addr" if value == "none" => self.own_address.clear(),
            "map-guest-addr" => self.own_address.push(address(value)?),
            "dns" | "dns-host" if value.is_empty() || value == "none" => {}
            "dns" | "dns-host" => {
                address(value)?;
                match self.words.iter_mut().find(|word| word.starts_with("--dns=")) {
                    Some(word) => *word += &format!(",{value}"),
                    None => self.words.push(format!("--dns={value}")),
                }
            }
            "interface" | "outbound" | "outbound-if4" | "outbound-if6" => {
                let note = format!("--{name} is ignored: the host's routes decide");
                self.notes.push(note);
            }
            // The rest means nothing here: --help says so.
            _ => {}
        }
        Ok(())
    }

    fn pass_on(&mut self, name: &str, value: &str) {
        self.words.push(format!("--{name}={value}"));
    }

    fn deny(&mut self, what: &str) {
        self.pass_on("deny", what);
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("Invalid address: {text}"))
}

fn with_prefix(text: &str) -> Result<(IpAddr, Option<u8>), String> {
    let Some((ip, len)) = text.split_once('/') else { return Ok((address(text)?, None)) };
    let ip = address(ip)?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let len = len.parse().ok().filter(|len| (1..=most).contains(len));
    Ok((ip, Some(len.ok_or_else(|| format!("Invalid prefix length: {text}"))?)))
}

/// Bits, or four numbers.
fn netmask(text: &str) -> Result<u8, String> {
    let wrong = || format!("Invalid netmask: {text}");
    if let Ok(mask) = text.parse::<Ipv4Addr>() {
        let bits = mask.to_bits();
        let len = bits.leading_ones();
        return if bits.count_ones() == len { Ok(len as u8) } else { Err(wrong()) };
    }
    text.parse().ok().filter(|len| (1..=32).contains(len)).ok_or_else(wrong)
}

fn interface(text: &str) -> Result<String, String> {
    let is_good = (1..=15).contains(&text.len())
        && !text.bytes().any(|byte| byte == b'/' || byte.is_ascii_whitespace() || byte == 0);
    if is_good { Ok(text.to_owned()) } else { Err(format!("Invalid interface name: {text}")) }
}

fn mac(text: &str) -> Result<MacAddr, String> {
    text.parse().map_err(|_| format!("Invalid MAC address: {text}"))
}

#[cfg(test)]
mod tests;
