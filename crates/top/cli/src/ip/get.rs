//! `ip route get`: the route of a packet, by the FIB of the running stack.
//!
//! Called by: `route.rs`; the words are those of `show fib lookup` too. Source: ip-route(8).

use core::net::IpAddr;

use anyhow::Result;
use wirespeed::MAIN_TABLE;

use super::args::Args;
use super::line::{Line, Metrics, gateway};
use super::run::Asked;
use super::words::{Words, garbage, usage};
use wirespeed::control::protocol::{Found, Leaving, Lookup};

/// Look up a packet's route, and show it with the keys of `ip -j route get`.
pub(super) fn run(args: &Args, asked: &mut Asked, words: &mut Words) -> Result<String> {
    let lookup = lookup(words, |name| asked.port(name), |name| asked.vrf(name))?;
    let found = asked.lookup(lookup.clone())?;
    let mut row = match &found {
        Found::Dropped { drop, .. } => {
            crate::output::err(&format!("error: the program answers: {}", dropped(drop, &lookup)));
            anyhow::bail!(super::Unreachable);
        }
        Found::Local { dev, .. } => local(&lookup, dev),
        Found::Leaves(leaving) => leaves(&lookup, leaving),
    };
    match lookup.dst {
        IpAddr::V4(_) => {
            row.cache = Some(match row.kind {
                Some("local") => vec!["local"],
                Some("multicast") => vec!["mc"],
                Some("broadcast") => vec!["local", "brd"],
                _ => Vec::new(),
            });
            row.mark = Some(lookup.mark).filter(|&mark| mark != 0);
            row.uid = lookup.input.is_none().then_some(lookup.uid);
        }
        // As in Linux's answer: the route itself, without the packet's user and without a cache.
        IpAddr::V6(_) => {
            let route = match &found {
                Found::Leaves(leaving) => leaving.route.as_ref(),
                _ => None,
            };
            row.from.get_or_insert_with(|| "::".to_owned());
            row.protocol = Some(route.map_or("kernel".to_owned(), |route| route.origin.clone()));
            row.metric = Some(route.map_or(0, |route| route.metric));
            row.pref = Some("medium");
        }
    }
    if let Some(input) = lookup.input {
        let input = asked.ports.iter().find(|port| port.port == input);
        row.iif = input.map(|port| port.name.clone());
    }
    args.listed(&[row], Line::text)
}

/// Why a packet is dropped, in the words of the kernel's errors.
fn dropped(drop: &str, Lookup { dst, .. }: &Lookup) -> String {
    let (error, why) = match drop {
        "ip_unreachable" => ("No route to host", "makes it unreachable"),
        "ip_prohibit" => ("Permission denied", "prohibits it"),
        "ip_blackhole" => ("Invalid argument", "drops it"),
        _ => {
            return format!(
                "Network is unreachable: no route leads to {dst}; add one by `ip route add` \
                 ({drop})"
            );
        }
    };
    format!(
        "{error}: a route or a rule to {dst} {why}; `show fib lookup {dst}` says which ({drop})"
    )
}

/// An answer for a packet from `source`, if that is given: a forwarded packet has the address that
/// its sender chose.
fn answer(lookup: &Lookup, dev: &str, source: Option<IpAddr>) -> Line {
    let has_chosen = lookup.input.is_some() || lookup.src.is_some() && lookup.dst.is_ipv4();
    Line {
        dst: lookup.dst.to_string(),
        from: lookup.src.map(|src| src.to_string()),
        dev: Some(dev.to_owned()),
        prefsrc: source.filter(|_| !has_chosen),
        ..Line::default()
    }
}

fn local(lookup: &Lookup, dev: &str) -> Line {
    let table = lookup.dst.is_ipv6().then(|| "local".to_owned());
    Line { kind: Some("local"), table, ..answer(lookup, dev, Some(lookup.dst)) }
}

fn leaves(lookup: &Lookup, found: &Leaving) -> Line {
    let kind = if lookup.dst.is_multicast() {
        Some("multicast")
    } else {
        (found.broadcast && lookup.dst.is_ipv4()).then_some("broadcast")
    };
    let (gateway, via) = gateway(lookup.dst, Some(found.next_hop).filter(|&hop| hop != lookup.dst));
    Line {
        kind,
        gateway,
        via,
        table: (found.table != MAIN_TABLE).then(|| found.table.to_string()),
        metrics: (found.mtu != found.port_mtu).then_some([Metrics { mtu: found.mtu }]),
        ..answer(lookup, &found.dev, lookup.src.or(found.source))
    }
}

/// ADDRESS [from IP] [iif PORT] [oif PORT] [vrf NAME] [mark N] [uid N].
pub(crate) fn lookup(
    words: &mut Words,
    port: impl Fn(&str) -> Result<u16>,
    vrf: impl Fn(&str) -> Result<u32>,
) -> Result<Lookup> {
    let first = match words.next() {
        Some("to") => words.value("to")?,
        Some(word) => word,
        None => return usage("an address is required: `ip route get 192.0.2.1`"),
    };
    let Ok(dst) = first.split('/').next().unwrap_or_default().parse::<IpAddr>() else {
        return usage(&format!("any valid address is expected rather than \"{first}\""));
    };
    let uid = rustix::process::getuid().as_raw();
    let (src, output, input, gids) = (None, None, None, Vec::new());
    let mut lookup = Lookup { dst, src, output, input, uid, gids, mark: 0, vrf: None };
    while let Some(word) = words.next() {
        match word {
            "from" => lookup.src = Some(words.parsed("from")?),
            "iif" => lookup.input = Some(port(words.value(word)?)?),
            // As `in lan` of rules, and `in port lan`.
            "in" => {
                let name = match words.value(word)? {
                    "port" => words.value("port")?,
                    name => name,
                };
                lookup.input = Some(port(name)?);
            }
            "vrf" => lookup.vrf = Some(vrf(words.value(word)?)?),
            "oif" | "dev" => lookup.output = Some(port(words.value(word)?)?),
            "mark" => lookup.mark = words.number("mark")?,
            "uid" => lookup.uid = words.parsed("uid")?,
            word => return garbage(word),
        }
    }
    // The groups of other users are not looked up: such a user can make the lookup himself.
    if lookup.uid == rustix::process::getuid().as_raw() && lookup.uid != 0 {
        let others = rustix::process::getgroups().unwrap_or_default();
        let all = others.into_iter().chain([rustix::process::getgid()]);
        lookup.gids = all.map(|gid| gid.as_raw()).collect();
    }
    if lookup.src.is_some_and(|src| src.is_ipv4() != lookup.dst.is_ipv4()) {
        return usage("source and destination are of one version of IP");
    }
    let is_of_link = matches!(dst, IpAddr::V6(ip)
        if ip.is_unicast_link_local() || ip.is_multicast() && ip.segments()[0] & 0xf <= 2);
    if lookup.output.is_some() && !is_of_link {
        return usage(
            "the port is chosen by the routes: oif is for addresses of a link, as fe80::1",
        );
    }
    Ok(lookup)
}
