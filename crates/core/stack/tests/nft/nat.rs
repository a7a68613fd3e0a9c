//! Random rules of NAT in both languages, and the flows that need them: from inside to anywhere,
//! and from outside to what is published.
//!
//! Called by: `run.rs`. The filter passes everything here. The kernel translates no packet that
//! connection tracking calls invalid: its own host would answer to it and so end the flow. So the
//! first chain drops those. nft's tables are for IPv4, and so are
//! our rules.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use crate::network::{ADDRESSES, HOSTS, host};
use crate::random::Rng;
use crate::rules::Texts;

/// Where packets from outside are translated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    /// What the outside sends to.
    pub(crate) targets: Vec<SocketAddr>,
}

#[derive(Default)]
struct Lines {
    ours: String,
    pre: String,
    post: String,
}

/// The address of the router on the outside.
fn own() -> IpAddr {
    let text = ADDRESSES[1][0].split('/').next().unwrap_or_default();
    text.parse().expect("an address")
}

/// An address that no host has, other for each number.
fn spare(number: u32, last: u8) -> IpAddr {
    let [.., high, low] = number.to_be_bytes();
    IpAddr::from([172, 16 | high & 15, low, last])
}

/// The rules of a number.
pub(crate) fn generate(rng: &mut Rng, number: u32) -> (Texts, Published) {
    let (mut lines, mut published) = (Lines::default(), Published::default());
    for nth in 0..rng.below(4) {
        dest(rng, number, nth, &mut lines, &mut published);
    }
    if rng.one_in(3) {
        let (inside, outside) = (host(number, 0, false, rng.pick(&HOSTS)), spare(number, 99));
        let _ = writeln!(lines.ours, "both out wan {inside} to {outside}");
        let _ = writeln!(lines.pre, "  iifname \"wan\" ip daddr {outside} dnat to {inside}");
        let _ = writeln!(lines.post, "  oifname \"wan\" ip saddr {inside} snat to {outside}");
        published.targets.push(SocketAddr::new(outside, 443));
    }
    if rng.one_in(3) {
        let (from, to) = (host(number, 0, false, 9), host(number, 1, false, rng.pick(&HOSTS)));
        let _ = writeln!(lines.ours, "keep out wan from {from} to {to}");
        let _ = writeln!(lines.post, "  oifname \"wan\" ip saddr {from} ip daddr {to} accept");
    }
    for nth in 0..rng.below(3) {
        source(rng, number, nth, &mut lines);
    }
    let nft = format!(
        "table ip nat {{\n chain pre {{\n  type nat hook prerouting priority dstnat\n{} }}\n \
         chain post {{\n  type nat hook postrouting priority srcnat\n{} }}\n}}\n\
         table inet filter {{\n chain first {{\n  type filter hook prerouting priority mangle\n  \
         ct state invalid drop\n }}\n}}\n",
        lines.pre, lines.post
    );
    let texts = Texts { nat: lines.ours, nft, default: "pass".to_owned(), ..Texts::default() };
    (texts, published)
}

fn dest(rng: &mut Rng, number: u32, nth: u32, lines: &mut Lines, published: &mut Published) {
    let protocol = rng.pick(&["tcp", "udp"]);
    let address = if rng.one_in(2) { own() } else { spare(number, 7) };
    let port = 2_000 + nth as u16 * 10;
    let target = host(number, 0, false, rng.pick(&HOSTS));
    let _ = write!(lines.ours, "dest in wan to {address} {protocol} {port} to {target}");
    let _ = write!(
        lines.pre,
        "  iifname \"wan\" ip daddr {address} {protocol} dport {port} dnat to {target}"
    );
    let to = if rng.one_in(2) { ":8080" } else { "" };
    lines.ours += &format!("{to}\n");
    lines.pre += &format!("{to}\n");
    published.targets.push(SocketAddr::new(address, port));
}

fn source(rng: &mut Rng, number: u32, nth: u32, lines: &mut Lines) {
    let inside = host(number, 0, false, 0);
    let from = format!("{inside}/{}", rng.pick(&[24, 25]));
    let (mut ours, mut theirs) = (String::new(), String::new());
    if rng.one_in(3) {
        let protocol = rng.pick(&["tcp", "udp"]);
        let _ = write!(ours, " {protocol}");
        let _ = write!(theirs, " meta l4proto {protocol}");
    }
    let (to, verdict) = if rng.one_in(2) {
        ("port".to_owned(), "masquerade".to_owned())
    } else {
        let spare = spare(number, 50 + nth as u8);
        (spare.to_string(), format!("snat to {spare}"))
    };
    let _ = writeln!(lines.ours, "source out wan from {from}{ours} to {to}");
    let _ = writeln!(lines.post, "  oifname \"wan\" ip saddr {from}{theirs} {verdict}");
}
