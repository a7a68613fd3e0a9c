//! The sections of a policy file, in TOML.
//!
//! Called by: `text`.

use base::{Cidr, Limit};
use filter::text::parts::{self, Sets};

use super::publish::publish;
use super::section::{At, Notes, Section};
use super::words;
use crate::rules::{Action, Dns, Publish, RULES_MAX, Refusal, Rule, Rules, Server, Sni, Target};

const ACTIONS: [(&str, Action); 3] =
    [("allow", Action::Allow), ("deny", Action::Deny), ("ask", Action::Ask)];

/// Read all sections but `[sets]`, which are in `sets` already.
pub(super) fn read(file: &Section<'_>, sets: &mut Sets) -> Rules {
    let default = file.word("default", &ACTIONS).unwrap_or(Action::Deny);
    let refusals =
        [("reset", Refusal::Reset), ("prohibited", Refusal::Prohibited), ("drop", Refusal::Drop)];
    let refuse = file.word("refuse", &refusals).unwrap_or_default();
    let dns = dns(file, default);
    let sections = file.many("rule", "[[rule]]");
    if let Some(first) = sections.get(RULES_MAX) {
        let what = format!("{} rules: a policy may have {RULES_MAX}", sections.len());
        file.notes.add(first.at, what);
    }
    let rules = sections.iter().filter_map(|section| rule(section, sets)).collect();
    let publish = file.many("publish", "[[publish]]").iter().filter_map(published).collect();
    let mut all = Rules { default, refuse, dns, rules, publish, ..Rules::default() };
    if let Some(section) = file.one("limits", "[limits]") {
        limits(&section, &mut all);
    }
    all
}

fn dns(file: &Section<'_>, default: Action) -> Dns {
    // What may be reached by its address anyway may also have a name.
    let mut dns = Dns { refuses_rebinding: default != Action::Allow, ..Dns::default() };
    let Some(section) = file.one("dns", "[dns]") else { return dns };
    if section.has("servers") {
        let server = |text: At<'_>| match text.text {
            "host" => Some(Server::Host),
            address => match address.parse() {
                Ok(address) => Some(Server::Address(address)),
                Err(_) => {
                    let what = format!("`{address}` is no server: write `host` or an address");
                    section.notes.add(text.at, what);
                    None
                }
            },
        };
        dns.servers = section.texts("servers").into_iter().filter_map(server).collect();
    }
    let names = section.word("names", &[("allowed", true), ("all", false)]);
    dns.only_allowed = names.unwrap_or(dns.only_allowed);
    let rebinding = section.word("rebinding", &[("deny", true), ("allow", false)]);
    dns.refuses_rebinding = rebinding.unwrap_or(dns.refuses_rebinding);
    dns
}

fn rule(section: &Section<'_>, sets: &mut Sets) -> Option<Rule> {
    let notes = section.notes;
    let named: Vec<(&str, Action)> =
        ACTIONS.into_iter().filter(|(key, _)| section.has(key)).collect();
    let ports = ports(section);
    let snis = [("match", Sni::Match), ("ignore", Sni::Ignore)];
    let sni = section.word("sni", &snis);
    let via = section.text("via");
    let &[(key, action)] = named.as_slice() else {
        let what = "a rule has one of `allow`, `deny` and `ask`";
        notes.add(section.at, what);
        return None;
    };
    let mut targets = Vec::new();
    let texts = section.texts(match action {
        Action::Allow => "allow",
        Action::Deny => "deny",
        Action::Ask => "ask",
    });
    if texts.is_empty() {
        section.note(key, format!("{key} is empty: write names, addresses or groups, or `any`"));
    }
    for text in texts {
        let target = match words::target(text.text, sets) {
            Ok(target) => target,
            Err(why) => {
                notes.add(text.at, why);
                continue;
            }
        };
        if let Some(why) = words::misfit(action, &target) {
            notes.add(text.at, why);
        }
        if sni == Some(Sni::Match) && !matches!(target, Target::Name(_)) {
            let what =
                format!("`{}` is no name for sni = \"match\": write a rule of its own", text.text);
            notes.add(text.at, what);
        }
        targets.push(target);
    }
    if action == Action::Deny {
        for key in ["sni", "via"].into_iter().filter(|key| section.has(key)) {
            section.note(key, format!("a rule that denies has no {key}: remove it"));
        }
    }
    let (line, _) = notes.place(section.at);
    Some(Rule {
        line,
        is_argument: false,
        action,
        targets,
        services: ports,
        sni: sni.unwrap_or_default(),
        via: via.map(|via| via.text.to_owned()),
    })
}

fn ports(section: &Section<'_>) -> Vec<filter::rules::Service> {
    let texts = section.texts("ports");
    if texts.is_empty() && section.has("ports") {
        section.note("ports", "ports is empty: leave it out for all ports");
    }
    let mut services = Vec::new();
    for text in texts {
        match words::services(text.text) {
            Ok(found) => services.extend(found),
            Err(why) => section.notes.add(text.at, why),
        }
    }
    services
}

fn published(section: &Section<'_>) -> Option<Publish> {
    let from = section.texts("from").into_iter().filter_map(|text| network(text, section.notes));
    let from: Vec<Cidr> = from.collect();
    let Some(port) = section.text("port") else {
        if !section.has("port") {
            section.notes.add(section.at, "[[publish]] has no port: add port = \"8080:80\"");
        }
        return None;
    };
    match publish(port.text) {
        Ok(publish) => Some(Publish { from, ..publish }),
        Err(why) => {
            section.notes.add(port.at, why);
            None
        }
    }
}

fn network(text: At<'_>, notes: &Notes<'_>) -> Option<Cidr> {
    parts::network(text.text).map_err(|why| notes.add(text.at, why)).ok()
}

/// Is it a limit that a policy may set?
fn is_limit(limit: Limit) -> bool {
    limit.name().starts_with("gateway_") || matches!(limit, Limit::DnsInFlight | Limit::MbufBytes)
}

fn limits(section: &Section<'_>, rules: &mut Rules) {
    let size = |key: &'static str| {
        let text = section.number_or_text(key)?;
        let size = words::size(text.text);
        if size.is_none() {
            let what =
                format!("{key} cannot be `{}`: write bytes, as 1000000 or \"1G\"", text.text);
            section.notes.add(text.at, what);
        }
        size
    };
    for &limit in Limit::ALL.iter().filter(|limit| is_limit(**limit)) {
        if let Some(size) = size(limit.name()) {
            rules.limits.push((limit, usize::try_from(size).unwrap_or(usize::MAX)));
        }
    }
    rules.bytes_out_max = size("bytes_out");
    rules.bytes_in_max = size("bytes_in");
}
