//! Sets, read: networks in the configuration and in files, and the built-in ones.
//!
//! Called by: `text`. A file has one network a line, and `#` comments. Networks may overlap, and
//! may have host bits, which are ignored. Limit: `FilterSetNetworks`, for all sets together.

use core::net::IpAddr;

use base::Cidr;

use super::lexer::words_of;
use super::mistake::{Fault, Location, Log};
use super::names;
use crate::sets::{BUILT_IN, Set};

/// Sets by name; the built-in ones are made when a rule names them.
#[derive(Debug, Default)]
pub struct Sets {
    made: Vec<Set>,
}

impl Sets {
    /// The index of the set `name`, without its `@`.
    ///
    /// # Errors
    /// There is none; the text says which there are.
    pub fn find(&mut self, name: &str) -> Result<usize, String> {
        if let Some(index) = self.made.iter().position(|set| set.name == name) {
            return Ok(index);
        }
        if let Some(networks) = built_in(name) {
            self.made.push(Set::new(name, &networks));
            return Ok(self.made.len() - 1);
        }
        let own = self.made.iter().map(|set| set.name.as_str());
        let all = own.chain(BUILT_IN.iter().map(|set| set.name));
        Err(names::unknown("set", name, all))
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        let own = self.made.iter().map(|set| set.name.as_str());
        own.chain(BUILT_IN.iter().map(|set| set.name)).any(|known| known == name)
    }

    /// The sets, by index.
    #[must_use]
    pub fn finish(self) -> Vec<Set> {
        self.made
    }
}

fn built_in(name: &str) -> Option<Vec<Cidr>> {
    let set = BUILT_IN.iter().find(|set| set.name == name)?;
    Some(set.networks.iter().filter_map(|text| network(text).ok()).collect())
}

/// An address or a network, host bits removed.
pub(super) fn network(text: &str) -> Result<Cidr, String> {
    let cidr = match text.parse::<IpAddr>() {
        Ok(addr) => Cidr::host(addr),
        Err(_) => text
            .parse::<Cidr>()
            .map_err(|_| format!("`{text}` is no network: write an address or ADDRESS/LENGTH"))?,
    };
    Ok(cidr.network())
}

/// An address, or a network without host bits.
pub(super) fn plain_network(text: &str) -> Result<Cidr, String> {
    let network = network(text)?;
    let is_plain = text.parse::<Cidr>().is_ok_and(|cidr| cidr == network);
    if is_plain || text.parse::<IpAddr>().is_ok() {
        Ok(network)
    } else {
        Err(format!("`{text}` has host bits: write {network}"))
    }
}

/// Networks of a set while it is read.
struct Reading<'a> {
    file: &'a dyn Fn(&str) -> Result<String, String>,
    log: &'a mut Log,
    networks: Vec<Cidr>,
    /// Networks that all sets may have.
    max: usize,
    /// Networks that they may still have.
    left: usize,
}

/// All sets of the configuration, with `max` networks at most. `file` gives the text of a file, or
/// says why it cannot; mistakes go to `log`.
pub fn read(
    sets: &[(String, Vec<String>)],
    max: usize,
    file: &dyn Fn(&str) -> Result<String, String>,
    log: &mut Log,
) -> Sets {
    let mut reading = Reading { file, log, networks: Vec::new(), max, left: max };
    let mut made = Vec::new();
    for (name, entries) in sets {
        let location = Location::Set(name.clone());
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let is_taken = BUILT_IN.iter().any(|set| set.name == name)
            || made.iter().any(|set: &Set| &set.name == name);
        if name.is_empty() || !name.chars().all(is_word) {
            let what = "a name has letters, digits, `-` and `_`";
            reading.log.add(&location, Fault::at_start(what));
        } else if is_taken {
            let what = format!("there is a set `{name}` already: choose another name");
            reading.log.add(&location, Fault::at_start(&what));
        }
        for (number, entry) in (1u32..).zip(entries) {
            reading.entry(&location, number, entry);
        }
        made.push(Set::new(name, &reading.networks));
        reading.networks.clear();
    }
    Sets { made }
}

impl Reading<'_> {
    fn entry(&mut self, location: &Location, number: u32, entry: &str) {
        let fault = |what| Fault { line: number, column: 1, what };
        if let Some(file) = entry.strip_prefix("file:") {
            match (self.file)(file) {
                Ok(text) => self.text(&Location::File(file.to_owned()), &text),
                Err(why) => self.log.add(location, fault(format!("`{file}`: {why}"))),
            }
        } else if let Some(name) = entry.strip_prefix('@') {
            match built_in(name) {
                Some(networks) => {
                    for network in networks {
                        self.add(location, number, network);
                    }
                }
                None => {
                    let known = BUILT_IN.iter().map(|set| set.name);
                    let what = names::unknown("built-in set", name, known);
                    self.log.add(location, fault(what));
                }
            }
        } else {
            match network(entry.trim()) {
                Ok(network) => self.add(location, number, network),
                Err(what) => self.log.add(location, fault(what)),
            }
        }
    }

    fn text(&mut self, location: &Location, text: &str) {
        for (line, content) in (1u32..).zip(text.lines()) {
            let words = words_of(content, line);
            if let Some(second) = words.get(1) {
                self.log.add(location, second.fault("one network a line"));
            } else if let Some(word) = words.first() {
                match network(word.text) {
                    Ok(network) => self.add(location, line, network),
                    Err(what) => self.log.add(location, word.fault(what)),
                }
            }
        }
    }

    fn add(&mut self, location: &Location, line: u32, network: Cidr) {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.networks.push(network);
            }
            None => {
                let max = self.max;
                let what = format!("more than {max} networks in all sets (filter_set_networks)");
                self.log.add(location, Fault { line, column: 1, what });
            }
        }
    }
}
