//! `[filter]`, `[nat]` and `[sets]`: their keys, the mistakes in them, the words of the log, and
//! how rules take effect.
//!
//! Called by: `config.rs`, and `plan.rs` when rules change. The three sections are one value: they
//! are compiled together and published whole, after the ports exist. A mistake in rules has its
//! place in the file if the file has the rules as they are, without escapes. Rules name ports; a
//! port that is not there matches nothing. docs/filter.md, docs/decisions/0134-the-firewall.md.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::Limit;
use control::protocol::RuleText;
use filter::Published;
use filter::rules::{Action, Match, Ports};
use filter::states::Timeouts;
use filter::text::{Location, Mistake, Most, Source};
use filter::{Firewall, Program, ROUTER, Rules};
use stack::Stack;
use toml::de::DeValue;

use super::file::{At, Log, Section, Value};
use super::port::Port;
use super::process::Process;
use super::setting::{Change, Stacks, count, first};
use crate::applied::ports::{AppliedPort, State};
use crate::machine::Machine;

/// The number of a port that is not there; no port has it.
const NO_PORT: u16 = ROUTER - 1;

/// The rules of a router.
#[derive(Clone, Debug)]
pub struct Filter {
    written: Written,
    /// Ports have their places in the configuration as numbers.
    rules: Arc<Rules>,
    /// The ports that rules name, by those numbers.
    ports: BTreeMap<u16, String>,
}

/// The sections as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Written {
    default: String,
    rules: String,
    nat: String,
    sets: Vec<(String, Vec<String>)>,
    /// The files that sets name, and their texts.
    files: BTreeMap<String, Arc<str>>,
}

/// What was written decides: the rest is made of it.
impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        self.written == other.written
    }
}

impl Eq for Filter {}

/// The values that mistakes are found in.
#[derive(Default)]
struct Origins<'a> {
    default: Option<&'a Value<'a>>,
    rules: Option<&'a Value<'a>>,
    nat: Option<&'a Value<'a>>,
    /// By the name of a set: where the name is, and its entries with their places.
    sets: BTreeMap<&'a str, (usize, Vec<At<&'a str>>)>,
}

/// `[filter]`, `[nat]` and `[sets]`; `None`: packets pass as they are.
pub(super) fn read(
    file: &Section<'_>,
    ports: &BTreeMap<String, Port>,
    (forwarding, process): (bool, &Process),
    machine: &mut Machine,
) -> Option<Filter> {
    let (filter, nat) = (file.one("filter", "[filter]"), file.one("nat", "[nat]"));
    if let Some(section) = filter.as_ref().or(nat.as_ref())
        && !forwarding
    {
        let what = "rules are asked while packets are forwarded: remove forwarding = false";
        file.log.note(section.at, what);
    }
    let (mut written, mut places) = (Written::default(), Origins::default());
    let text = |section: &Section<'_>, key| section.text(key).unwrap_or_default().to_owned();
    // A file with [nat] alone filters nothing.
    "pass".clone_into(&mut written.default);
    if let Some(filter) = &filter {
        written.default = text(filter, "default");
        written.rules = text(filter, "rules");
        (places.default, places.rules) = (filter.get("default"), filter.get("rules"));
    }
    if let Some(nat) = &nat {
        nat.needed("rules", "'source out wan to port'");
        written.nat = text(nat, "rules");
        places.nat = nat.get("rules");
    }
    written.sets = sets(file, &mut places);
    let names: Vec<&str> = ports.keys().map(String::as_str).collect();
    let most = Most {
        rules: process.limit(Limit::FilterRules),
        networks: process.limit(Limit::FilterSetNetworks),
    };
    let read = parsed(&written, most, &names, machine);
    written.files.clone_from(machine.files());
    let mut rules = match read {
        Ok(rules) => rules,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| places.note(mistake, file.log));
            return None;
        }
    };
    let misfits = filter::homes::misfits(&rules, process.shards);
    misfits.iter().for_each(|mistake| places.note(mistake, file.log));
    if machine.is_asked()
        && let Err(why) = Program::compile(&rules)
    {
        let at = filter.as_ref().or(nat.as_ref()).map_or(0, |section| section.at);
        file.log.note(at, why.to_string());
    }
    if filter.is_none() && nat.is_none() {
        return None;
    }
    let named = matches(&mut rules).flat_map(numbers).map(|number| *number);
    let name = |number: u16| Some((number, (*names.get(usize::from(number))?).to_owned()));
    let ports = named.filter_map(name).collect();
    Some(Filter { written, rules: Arc::new(rules), ports })
}

/// `[sets]`: a list of entries under each name, or a single one.
fn sets<'a>(file: &Section<'a>, places: &mut Origins<'a>) -> Vec<(String, Vec<String>)> {
    let Some(section) = file.one("sets", "[sets]") else { return Vec::new() };
    let mut sets = Vec::new();
    for (name, value) in section.entries() {
        let values: Vec<&Value<'_>> = match value.get_ref() {
            DeValue::Array(all) => all.iter().collect(),
            _ => vec![value],
        };
        let (mut entries, mut begin) = (Vec::new(), Vec::new());
        for value in values {
            let at = value.span().start;
            match value.get_ref().as_str() {
                Some(entry) => {
                    entries.push(entry.to_owned());
                    begin.push(At { value: entry, at });
                }
                None => {
                    let is = value.get_ref().type_str();
                    let what = "write a network, or \"file:NAME\", in quotes";
                    file.log.note(at, format!("an entry of set {} is {is}: {what}", name.value));
                }
            }
        }
        sets.push((name.value.to_owned(), entries));
        places.sets.insert(name.value, (name.at, begin));
    }
    sets
}

fn parsed(
    written: &Written,
    most: Most,
    ports: &[&str],
    machine: &mut Machine,
) -> Result<Rules, Vec<Mistake>> {
    let numbers: Vec<(&str, u16)> = ports.iter().copied().zip(0..).collect();
    let machine = RefCell::new(machine);
    let file = |name: &str| machine.borrow_mut().file(name).map(|text| text.to_string());
    let source = Source {
        rules: &written.rules,
        nat: &written.nat,
        default: &written.default,
        sets: &written.sets,
    };
    filter::text::parse_within(most, &source, &numbers, &file)
}

impl Origins<'_> {
    /// Note a mistake at its place in the file.
    fn note(&self, mistake: &Mistake, log: &Log<'_>) {
        let Mistake { line, column, what, .. } = mistake;
        let (value, name) = match &mistake.location {
            Location::Rules => (self.rules, "rules"),
            Location::Nat => (self.nat, "rules"),
            Location::Default => {
                return log.note(self.default.map_or(0, |value| value.span().start), what);
            }
            Location::Set(name) => {
                let Some((at, entries)) = self.sets.get(name.as_str()) else { return };
                let entry = entries.get((*line as usize).saturating_sub(1));
                return log.note(entry.map_or(*at, |entry| entry.at), what);
            }
            // It has a place of its own, in another file.
            Location::File(file) => {
                let mut entries = self.sets.values().flat_map(|(_, entries)| entries);
                let names_it = |entry: &&At<&str>| entry.value.strip_prefix("file:") == Some(file);
                let at = entries.find(names_it).map_or(0, |entry| entry.at);
                return log.note(at, mistake.to_string());
            }
            Location::Question => return,
        };
        let Some(value) = value else { return };
        match log.inside(value, *line as usize, *column as usize) {
            Some(at) => log.note(at, what),
            None => {
                let at = value.span().start;
                log.note(at, format!("line {line} of {name}, column {column}: {what}"));
            }
        }
    }
}

/// All matches of the rules.
fn matches(rules: &mut Rules) -> impl Iterator<Item = &mut Match> {
    let of_filter = rules.filter.iter_mut().map(|rule| &mut rule.matches);
    let of_nat = rules.nat.iter_mut().flat_map(|rule| rule.source.iter_mut().chain(&mut rule.dest));
    of_filter.chain(of_nat)
}

/// The ports that a match names.
fn numbers(matches: &mut Match) -> impl Iterator<Item = &mut u16> {
    let ports = [&mut matches.in_ports, &mut matches.out_ports];
    ports.into_iter().flat_map(|ports| match ports {
        Ports::Any => [].iter_mut(),
        Ports::Of(list) | Ports::Not(list) => list.iter_mut(),
    })
}

impl Filter {
    /// The rules; ports have their places in the configuration, in the order of names, as numbers.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The rules that somebody else has published: they differ from those of every file.
    pub(crate) fn of_others() -> Filter {
        let written = Written { default: "of others".to_owned(), ..Written::default() };
        let rules =
            Rules { default: Action::Block, filter: Vec::new(), nat: Vec::new(), sets: Vec::new() };
        Filter { written, rules: Arc::new(rules), ports: BTreeMap::new() }
    }

    /// The networks in sets, as they are written.
    pub fn networks(&self) -> usize {
        let lines = |text: &str| {
            let words = text.lines().map(|line| line.split('#').next().unwrap_or(line).trim());
            words.filter(|words| !words.is_empty()).count()
        };
        let of_entry = |entry: &String| match entry.strip_prefix("file:") {
            Some(file) => self.written.files.get(file).map_or(0, |text| lines(text)),
            None => 1,
        };
        self.written.sets.iter().flat_map(|(_, entries)| entries).map(of_entry).sum()
    }

    /// The rules as a running router takes them on trial.
    pub fn text(&self) -> RuleText {
        let Written { default, rules, nat, sets, files } = self.written.clone();
        let files = files.into_iter().map(|(name, text)| (name, text.to_string())).collect();
        RuleText { default, rules, nat, sets, files }
    }

    /// The number of sets.
    pub fn sets(&self) -> usize {
        self.written.sets.len()
    }

    /// The ports that rules name.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &str> {
        self.ports.values().map(String::as_str)
    }

    /// The words of the log.
    pub(crate) fn words(&self) -> String {
        let rules = count(self.rules.filter.len(), "rule");
        format!("filter: {rules}, {} of NAT", self.rules.nat.len())
    }

    /// The numbers of the ports that rules name.
    fn numbering(&self, ports: &BTreeMap<String, AppliedPort>) -> BTreeMap<u16, u16> {
        let number = |name: &String| ports.get(name).map_or(NO_PORT, |port| port.id.0);
        self.ports.iter().map(|(place, name)| (*place, number(name))).collect()
    }
}

/// Compiled rules.
struct Compiled {
    published: Arc<Published>,
    /// The rules of the configuration that they were made of, and the numbers of its ports.
    of: Arc<Rules>,
    numbering: BTreeMap<u16, u16>,
}

impl Compiled {
    fn new(
        filter: &Filter,
        numbering: BTreeMap<u16, u16>,
        generation: u32,
    ) -> Result<Compiled, String> {
        let mut rules = Rules::clone(&filter.rules);
        for number in matches(&mut rules).flat_map(numbers) {
            *number = numbering.get(number).copied().unwrap_or(*number);
        }
        let published = Published::compile(rules, Timeouts::default(), generation);
        let published = published.map_err(|why| why.to_string())?;
        Ok(Compiled { published, of: Arc::clone(&filter.rules), numbering })
    }
}

/// The rules that run.
#[derive(Default)]
pub(crate) struct Running {
    published: Option<Arc<Published>>,
    /// The largest generation that was published.
    generation: u32,
    /// Those that a configuration needs if its ports are there already.
    ready: Option<Compiled>,
    /// Those that run no longer.
    retired: Vec<Arc<Published>>,
}

impl Running {
    /// Does the stack have other rules than those that we published?
    pub(crate) fn differs(&self, stack: &Stack) -> bool {
        let has = stack.filter().map(Firewall::published).map(Arc::as_ptr);
        has != self.published.as_ref().map(Arc::as_ptr)
    }

    /// Free rules that run no longer; it takes time, and no stack should wait for it.
    /// Other shards have rules until they follow the first one; those are freed the next time.
    pub(crate) fn free(&mut self) {
        self.retired.retain(|rules| Arc::strong_count(rules) > 1);
    }

    /// The next generation, if a stack has rules of `generation`.
    fn next(&self, generation: u32) -> u32 {
        self.generation.max(generation).saturating_add(1)
    }

    /// Compile rules while no stack waits; `generation` is that of the rules that the stacks have.
    pub(crate) fn prepare(
        &mut self,
        filter: &Filter,
        ports: &BTreeMap<String, AppliedPort>,
        generation: u32,
    ) {
        // If it fails, it fails again when the rules are to be published, which is said then.
        self.ready = Compiled::new(filter, filter.numbering(ports), self.next(generation)).ok();
    }

    fn compiled(
        &mut self,
        filter: &Filter,
        ports: &BTreeMap<String, AppliedPort>,
        generation: u32,
    ) -> Result<Arc<Published>, String> {
        let (numbering, generation) = (filter.numbering(ports), self.next(generation));
        let is_it = |ready: &Compiled| {
            Arc::ptr_eq(&ready.of, &filter.rules)
                && ready.numbering == numbering
                && ready.published.generation == generation
        };
        let ready = self.ready.take().filter(is_it);
        let compiled = ready.map_or_else(|| Compiled::new(filter, numbering, generation), Ok);
        compiled.map(|compiled| compiled.published)
    }
}

/// Publish rules, or take them away, in the first shard, which the others follow.
pub(crate) fn carry_out(
    change: &Change<Filter>,
    state: &mut State,
    stacks: Stacks<'_, '_>,
) -> Result<(), String> {
    let stack = first(stacks);
    let has = stack.filter().map(Firewall::published);
    let generation = has.map_or(0, |has| has.generation);
    let published = match &change.now {
        Some(filter) => Some(state.filter.compiled(filter, &state.ports, generation)?),
        None => None,
    };
    state.filter.retired.extend(has.cloned());
    stack.set_filter(published.clone());
    let generations = published.as_ref().map(|published| published.generation);
    state.filter.generation = generations.unwrap_or(state.filter.generation).max(generation);
    state.filter.published = published;
    Ok(())
}

/// The words of the log for a change.
pub(crate) fn words(now: Option<&Filter>) -> String {
    let none = || "filter: removed".to_owned();
    now.map_or_else(none, Filter::words)
}
