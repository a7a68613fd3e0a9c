//! `ip rule`.
//!
//! Called by: `ip.rs`. Source: ip-rule(8). `group` is ours, for users: Linux has `uidrange`.

use anyhow::Result;
use router::config::masked;
use serde::Serialize;
use wirespeed::{Cidr, MAIN_PRIORITY, MAIN_TABLE};

use super::args::Args;
use super::run::{Asked, verb};
use super::words::{Words, garbage, prefix, table, unknown, usage};
use wirespeed::control::protocol::{Change, Object, Rule, RuleSpec, Section, Verb};

const COMMANDS: [&str; 5] = ["list", "show", "lst", "add", "delete"];
const ACTIONS: [&str; 3] = ["unreachable", "prohibit", "blackhole"];

/// Rules: shown or changed.
pub(super) fn run(args: &Args, mut words: Words) -> Result<String> {
    let Some(command) = words.command(&COMMANDS) else { return unknown("rule") };
    let mut asked = Asked::open(args)?;
    let (spec, has_any) = spec(args, &asked, &mut words)?;
    if let Some(verb) = verb(command) {
        if !has_any {
            return usage(&format!("\"ip rule {command}\" requires arguments: see ip help"));
        }
        let in_main = verb == Verb::Add && spec.table.is_none() && spec.action.is_none();
        let table = if in_main { Some(MAIN_TABLE) } else { spec.table };
        asked.change(&[Change { verb, of: Object::Rule(RuleSpec { table, ..spec }) }])?;
        return Ok(String::new());
    }
    let mut rows: Vec<Rule> = asked.rows(Section::Rules)?;
    let after = rows.partition_point(|row| row.priority < MAIN_PRIORITY);
    let (priority, table) = (MAIN_PRIORITY, Some(MAIN_TABLE));
    rows.insert(after, Rule { priority, table, ..Rule::default() });
    // The rules of both versions are in one list here; those that name none are for both.
    let is_version = |row: &Rule| row.from.iter().chain(&row.to).all(|net| args.wants(net.addr));
    rows.retain(|row| selects(&spec, row) && is_version(row));
    let shown: Vec<Shown> = rows.iter().map(Shown::of).collect();
    args.listed(&shown, Shown::line)
}

fn selects(spec: &RuleSpec, row: &Rule) -> bool {
    fn same<T: PartialEq>(wanted: &Option<T>, has: &Option<T>) -> bool {
        wanted.is_none() || wanted == has
    }
    let text = |net: &Option<Cidr>| net.map(|net| net.to_string());
    same(&spec.from, &text(&row.from))
        && same(&spec.to, &text(&row.to))
        && same(&spec.group, &row.group)
        && same(&spec.action, &row.action)
        && same(&spec.priority, &Some(row.priority))
        && same(&spec.in_port, &row.in_port)
        && same(&spec.mark, &row.mark.zip(row.mask))
        && same(&spec.table, &row.table)
        && (!spec.not || row.not)
}

fn spec(args: &Args, asked: &Asked, words: &mut Words) -> Result<(RuleSpec, bool)> {
    let (mut spec, mut has_any) = (RuleSpec::default(), false);
    let net = |words: &mut Words, of: &str| -> Result<Option<String>> {
        let word = words.value(of)?;
        let net = prefix(word, args.v6)?.network();
        Ok((!matches!(word, "all" | "any" | "default")).then(|| net.to_string()))
    };
    while let Some(word) = words.next() {
        has_any = true;
        match word {
            "not" => spec.not = true,
            "from" => spec.from = net(words, "from")?,
            "to" => spec.to = net(words, "to")?,
            "iif" | "dev" => spec.in_port = Some(asked.port(words.value(word)?)?),
            "priority" | "preference" | "pref" | "order" => {
                spec.priority = Some(words.parsed(word)?);
            }
            "fwmark" => {
                let value = words.value("fwmark")?;
                spec.mark = masked(value);
                if spec.mark.is_none() {
                    return usage(&format!("fwmark value is invalid: \"{value}\"; give 0x10/0xff"));
                }
            }
            "group" => spec.group = Some(words.value("group")?.to_owned()),
            "table" | "lookup" => spec.table = table(words.value(word)?)?,
            "uidrange" => return usage("rules select users by group: `group NAME`"),
            "type" | "unicast" => {}
            word if ACTIONS.contains(&word) => spec.action = Some(word.to_owned()),
            word => return garbage(word),
        }
    }
    Ok((spec, has_any))
}

/// A rule of the program as `ip rule` prints it.
pub(crate) fn text_of(row: &Rule) -> String {
    Shown::of(row).line()
}

/// A rule with the keys of `ip -j rule`, and `group`.
#[derive(Serialize)]
struct Shown {
    priority: u32,
    /// `null` if the rule has `not`, else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    not: Option<()>,
    src: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    srclen: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dst: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dstlen: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fwmark: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fwmask: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iif: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
}

impl Shown {
    fn of(row: &Rule) -> Shown {
        let len = |net: Cidr| (net != Cidr::host(net.addr)).then_some(net.prefix_len);
        Shown {
            priority: row.priority,
            not: row.not.then_some(()),
            src: row.from.map_or("all".to_owned(), |net| net.addr.to_string()),
            srclen: row.from.and_then(len),
            dst: row.to.map(|net| net.addr.to_string()),
            dstlen: row.to.and_then(len),
            fwmark: row.mark.map(|mark| format!("{mark:#x}")),
            fwmask: row.mask.filter(|&mask| mask != u32::MAX).map(|mask| format!("{mask:#x}")),
            iif: row.in_dev.clone(),
            group: row.group.clone(),
            table: row.table.map(|table| match table {
                254 => "main".to_owned(),
                255 => "local".to_owned(),
                253 => "default".to_owned(),
                table => table.to_string(),
            }),
            action: row.action.clone(),
        }
    }

    /// As ip(8) prints it.
    fn line(&self) -> String {
        let mut line = format!("{}:\t", self.priority);
        if self.not.is_some() {
            line += "not ";
        }
        let ends = [("from", Some(&self.src), self.srclen), ("to", self.dst.as_ref(), self.dstlen)];
        for (word, address, len) in ends {
            if let Some(address) = address {
                line += &format!("{word} {address}");
                line += &len.map_or(" ".to_owned(), |len| format!("/{len} "));
            }
        }
        if let Some(mark) = &self.fwmark {
            let mask = self.fwmask.as_ref().map_or(String::new(), |mask| format!("/{mask}"));
            line += &format!("fwmark {mark}{mask} ");
        }
        for (word, text) in [("iif", &self.iif), ("group", &self.group), ("lookup", &self.table)] {
            if let Some(text) = text {
                line += &format!("{word} {text} ");
            }
        }
        (line + self.action.as_deref().unwrap_or_default()).trim_end().to_owned()
    }
}
