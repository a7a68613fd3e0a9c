//! `ip link`, and the part of `ip addr` that is about the link.
//!
//! Called by: `ip.rs`, `addr.rs`. Source: ip-link(8). Links have no queue, hence no `qlen`.

use anyhow::Result;
use serde::Serialize;
use wirespeed::control::protocol::Port;

use super::addr::Info;
use super::args::Args;
use super::run::Asked;
use super::words::{Words, garbage, unknown, usage};

/// The ports.
pub(super) fn run(args: &Args, mut words: Words) -> Result<String> {
    match words.command(&["list", "show", "lst", "set", "add", "delete"]) {
        Some("list") => {}
        Some(_) => {
            return usage(
                "links cannot be changed while the program runs: change the configuration of \
                 `wirespeed up`, then send SIGHUP",
            );
        }
        None => return unknown("link"),
    }
    let asked = Asked::open(args)?;
    let mut dev = None;
    while let Some(word) = words.next() {
        match word {
            "dev" => dev = Some(asked.port(words.value("dev")?)?),
            word if dev.is_none() => dev = Some(asked.port(word)?),
            word => return garbage(word),
        }
    }
    let wanted = asked.ports.iter().filter(|row| dev.is_none_or(|port| row.port == port));
    let rows: Vec<Link> =
        wanted.map(|port| Link { linkmode: Some("DEFAULT"), ..Link::of(port) }).collect();
    args.listed(&rows, |row| row.head() + "\n" + &row.second())
}

/// A port with the keys of `ip -j link` and `ip -j addr`.
#[derive(Serialize)]
pub(super) struct Link {
    /// The same number as the scope identifier (RFC 4007).
    ifindex: u32,
    ifname: String,
    flags: Vec<&'static str>,
    mtu: u64,
    qdisc: &'static str,
    operstate: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    linkmode: Option<&'static str>,
    group: &'static str,
    /// `None`: the link is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) broadcast: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) addr_info: Option<Vec<Info>>,
}

impl Link {
    pub(super) fn of(port: &Port) -> Link {
        let is_ethernet = port.link == "ethernet";
        let mut flags = match is_ethernet {
            true => vec!["BROADCAST", "MULTICAST", "UP"],
            false => vec!["POINTOPOINT", "MULTICAST", "NOARP", "UP"],
        };
        match port.link_up {
            true => flags.push("LOWER_UP"),
            false => flags.insert(0, "NO-CARRIER"),
        }
        Link {
            ifindex: u32::from(port.port) + 1,
            ifname: port.name.clone(),
            flags,
            mtu: port.mtu,
            qdisc: "noqueue",
            operstate: if port.link_up { "UP" } else { "DOWN" },
            linkmode: None,
            group: "default",
            link_type: Some(if is_ethernet { "ether" } else { "none" }),
            address: port.mac.map(|mac| mac.to_string()),
            broadcast: is_ethernet.then_some("ff:ff:ff:ff:ff:ff"),
            addr_info: None,
        }
    }

    /// The first line.
    pub(super) fn head(&self) -> String {
        let mode = if self.linkmode.is_some() { "mode DEFAULT " } else { "" };
        format!(
            "{}: {}: <{}> mtu {} qdisc noqueue state {} {mode}group default ",
            self.ifindex,
            self.ifname,
            self.flags.join(","),
            self.mtu,
            self.operstate,
        )
    }

    /// The line of the link address.
    pub(super) fn second(&self) -> String {
        match &self.address {
            Some(mac) => format!("    link/ether {mac} brd ff:ff:ff:ff:ff:ff"),
            None => "    link/none ".to_owned(),
        }
    }
}
