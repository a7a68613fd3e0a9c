//! A route as ip(8) prints it, in lines and in JSON.
//!
//! Called by: `route.rs`, `get.rs`. Source: ip-route(8).

use core::fmt::{self, Display};
use core::net::IpAddr;

use serde::Serialize;
use wirespeed::Cidr;

/// A route with the keys of `ip -j route`; also the answer of `get`.
#[derive(Default, Serialize)]
pub(super) struct Line {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    pub(super) dst: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gateway: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) via: Option<Via>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dev: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prefsrc: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metric: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) include: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exclude: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_forward: Option<bool>,
    pub(super) flags: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mark: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metrics: Option<[Metrics; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) iif: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pref: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) nexthops: Vec<NextHop>,
}

#[derive(Serialize)]
pub(super) struct Metrics {
    pub(super) mtu: u64,
}

/// The gateway of an IPv4 route that has an IPv6 address (RFC 8950).
#[derive(Serialize)]
pub(super) struct Via {
    family: &'static str,
    host: IpAddr,
}

impl Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.family, self.host)
    }
}

/// A gateway as ip(8) shows it: by the key `gateway`, or by `via` if its version is not that of
/// the destination.
pub(super) fn gateway(dst: IpAddr, gateway: Option<IpAddr>) -> (Option<IpAddr>, Option<Via>) {
    match gateway {
        Some(host) if host.is_ipv6() && dst.is_ipv4() => {
            (None, Some(Via { family: "inet6", host }))
        }
        same => (same, None),
    }
}

#[derive(Serialize)]
pub(super) struct NextHop {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gateway: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) via: Option<Via>,
    pub(super) dev: String,
    pub(super) weight: Option<u8>,
    pub(super) flags: [&'static str; 0],
}

impl Line {
    /// As ip(8) prints it.
    pub(super) fn text(&self) -> String {
        let mut line = self.kind.map_or(String::new(), |kind| format!("{kind} "));
        line += &self.dst;
        line.push(' ');
        line += &words("from", &self.from);
        line += &words("via", &self.gateway);
        line += &words("via", &self.via);
        line += &words("dev", &self.dev);
        line += &words("table", &self.table);
        line += &words("proto", &self.protocol);
        line += &words("scope", &self.scope);
        line += &words("src", &self.prefsrc);
        line += &words("metric", &self.metric);
        for (word, names) in [("include", &self.include), ("exclude", &self.exclude)] {
            line += &words(word, &names.as_ref().map(|names| names.join(",")));
        }
        if self.no_forward.is_some() {
            line += "no_forward ";
        }
        if self.flags.contains(&"linkdown") {
            line += "linkdown ";
        }
        line += &words("mark", &self.mark.map(|mark| format!("{mark:#x}")));
        line += &words("uid", &self.uid);
        line += &words("expires", &self.expires.map(|seconds| format!("{seconds}sec")));
        if let Some(flags) = &self.cache {
            line += "\n    cache ";
            if !flags.is_empty() {
                line += &format!("<{}> ", flags.join(","));
            }
        }
        line += &words("mtu", &self.metrics.as_ref().map(|[metrics]| metrics.mtu));
        line += &words("iif", &self.iif);
        if self.pref.is_some() {
            line += "pref medium";
        }
        for hop in &self.nexthops {
            let via = words("via", &hop.gateway) + &words("via", &hop.via);
            let weight = words("weight", &hop.weight);
            line += &format!("\n\tnexthop {via}dev {} {weight}", hop.dev);
        }
        line
    }
}

/// A word and its value, or nothing.
fn words(word: &str, value: &Option<impl Display>) -> String {
    value.as_ref().map_or(String::new(), |value| format!("{word} {value} "))
}

/// A destination as ip(8) writes it.
pub(super) fn destination(net: Cidr) -> String {
    match net {
        net if net.prefix_len == 0 => "default".to_owned(),
        net if net == Cidr::host(net.addr) => net.addr.to_string(),
        net => net.to_string(),
    }
}
