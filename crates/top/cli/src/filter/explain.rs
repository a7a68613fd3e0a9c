//! `wirespeed filter explain`: the way of a packet through the rules, of a file or of a running
//! router.
//!
//! Called by: `filter.rs`. The rules are asked by `observe`, in both cases. Of a file, the port out
//! is the one of the longest prefix among the networks of ports and the routes of the main table.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use router::config::Config;
use serde_json::json;
use wirespeed::control::Client;
use wirespeed::control::protocol::{Explained, FilterCall, Question};

use crate::Usage;
use crate::running::{ask, typed};

/// By the rules of a file.
pub(super) fn by_file(config: &Config, packet: &str) -> Result<Explained> {
    let Some(filter) = &config.filter else {
        bail!(Usage("the file has neither [filter] nor [nat]: every packet passes".to_owned()));
    };
    let ports: Vec<(&str, u16)> = config.ports.keys().map(String::as_str).zip(0..).collect();
    let number = |name: &str| ports.iter().find(|(port, _)| *port == name).map(|(_, at)| *at);
    let is_own = |addr| config.ports.values().any(|port| port.addresses.contains_key(&addr));
    let out_port = |dst, _, _| config.port_to(dst).and_then(number);
    let explained = observe::explain_packet(filter.rules(), packet, &ports, is_own, out_port);
    explained.map_err(|why| Usage(why).into())
}

/// By the rules of a running router.
pub(super) fn by_program(client: &mut Client, packet: &str) -> Result<Explained> {
    let call = FilterCall::Explain(packet.to_owned());
    typed(ask(client, &Question::Filter { stack: 0, call })?.body)
}

pub(super) fn json(explained: &Explained) -> Result<String> {
    let document = json!({
        "tool": "filter",
        "version": env!("CARGO_PKG_VERSION"),
        "explained": explained,
    });
    Ok(serde_json::to_string_pretty(&document).context("cannot write JSON")? + "\n")
}

/// For people: a line for each rule up to the one that decides.
pub(super) fn text(explained: &Explained) -> String {
    let mut t = String::new();
    // Writing to a String cannot fail.
    if let Some((rule, text, to)) = &explained.dest {
        let _ = writeln!(t, "rule {rule} of NAT makes its destination {to}: {text}");
    }
    let Some(out) = &explained.out_dev else {
        let why = "no rule is asked: no route leads there, or its source is not behind that port";
        let _ = writeln!(t, "{}: {why}", explained.packet);
        return t;
    };
    let _ = writeln!(t, "in {} out {out} {}", explained.in_dev, explained.packet);
    for step in &explained.steps {
        let why = step.why.as_deref().unwrap_or("it matches");
        let _ = writeln!(t, "  rule {}: {}: {why}", step.rule, step.text);
    }
    let by = match (explained.always, explained.rule) {
        (true, _) => "before any rule".to_owned(),
        (false, Some(rule)) => format!("by rule {rule}"),
        (false, None) => "by default: no rule matches".to_owned(),
    };
    let _ = writeln!(t, "{} {by}", explained.action);
    if let Some((rule, text)) = &explained.source {
        let _ = writeln!(t, "rule {rule} of NAT translates its source: {text}");
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[[port]]\nname = 'wan'\ndevice = 'tap:a'\naddresses = '192.0.2.2/24'\n\
        [[port]]\nname = 'lan'\ndevice = 'tap:b'\naddresses = '10.0.0.1/24'\n\
        [[route]]\nto = '0.0.0.0/0'\nvia = '192.0.2.1'\n\
        [filter]\nrules = '''\nblock in lan\npass in wan to 10.0.0.5 tcp 443\n\
        pass in wan to self icmp'''\n[nat]\nrules = '''\n\
        dest in wan to self tcp 8443 to 10.0.0.5:443\nsource out wan to port'''\n";

    fn said(packet: &str) -> String {
        let config = Config::parse("r.toml", FILE).expect("a valid file");
        text(&by_file(&config, packet).expect("a packet"))
    }

    #[test]
    fn each_rule_before_the_one_that_matches_says_why_it_does_not() {
        let said = said("in wan 198.51.100.7:999 > 192.0.2.2:8443 tcp syn");
        assert!(
            said.starts_with("rule 1 of NAT makes its destination 10.0.0.5: dest in"),
            "{said}"
        );
        assert!(said.contains("in wan out lan 198.51.100.7:999 > 10.0.0.5:443 tcp"), "{said}");
        assert!(said.contains("rule 1: block in lan: it came by another port"), "{said}");
        assert!(said.contains("rule 2: pass in wan to 10.0.0.5 tcp 443: it matches"), "{said}");
        assert!(said.ends_with("pass by rule 2\n"), "{said}");
    }

    #[test]
    fn the_default_the_router_itself_and_no_route_are_said() {
        let default = said("in wan 198.51.100.7:999 > 10.0.0.9:22 tcp");
        assert!(default.ends_with("block by default: no rule matches\n"), "{default}");
        let own = said("in wan 198.51.100.7 > 192.0.2.2 icmp echo-request");
        assert!(own.contains("in wan out self") && own.ends_with("pass by rule 3\n"), "{own}");
        let none = said("in wan [2001:db8::1]:1 > [2001:db8::2]:2 udp");
        assert!(none.contains("no route"), "{none}");
        let config = Config::parse("r.toml", FILE).expect("a valid file");
        let wrong = by_file(&config, "in wna 192.0.2.1 > 192.0.2.2 icmp").expect_err("no port");
        assert!(wrong.to_string().contains("did you mean `wan`"), "{wrong}");
    }
}
