//! The hosts table: names with addresses that are known without asking, and the text of
//! `/etc/hosts` (hosts(5)).
//!
//! Called by: programs, which read the file; `lookup.rs`, `forwarder`.

use core::net::IpAddr;
use std::collections::BTreeMap;

use super::config::{Note, Notes, shown};
use super::limits::{ADDRESSES_MAX, HOSTS_MAX};
use super::name::DomainName;

/// Names and their addresses.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    names: BTreeMap<DomainName, Vec<IpAddr>>,
    /// The first name of each address.
    pointers: BTreeMap<IpAddr, DomainName>,
    /// Addresses of all names together.
    total: usize,
}

impl Hosts {
    /// The table of a hosts file's text, and the lines that were skipped.
    pub fn from_text(text: &str) -> (Hosts, Vec<Note>) {
        let (mut hosts, mut notes) = (Hosts::default(), Notes::default());
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("");
            let mut words = line.split_ascii_whitespace();
            let Some(first) = words.next() else { continue };
            let Ok(address) = first.parse::<IpAddr>() else {
                // An address with a zone, as fe80::1%eth0, is refused too: it is of use on one link
                // only.
                notes.add(index + 1, format!("'{}' is no address", shown(first)));
                continue;
            };
            for name in words {
                if let Err(why) = hosts.add(name, address) {
                    notes.add(index + 1, format!("'{}': {why}", shown(name)));
                }
            }
        }
        (hosts, notes.0)
    }

    /// Add an address of a name; addresses beyond [`HOSTS_MAX`], or [`ADDRESSES_MAX`] of one name,
    /// are ignored.
    ///
    /// # Errors
    /// `name` is no host name.
    pub fn add(&mut self, name: &str, address: IpAddr) -> Result<(), super::NameError> {
        let name = DomainName::parse(name)?;
        if self.total >= HOSTS_MAX {
            return Ok(());
        }
        self.pointers.entry(address).or_insert_with(|| name.clone());
        let addresses = self.names.entry(name).or_default();
        if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
            addresses.push(address);
            self.total += 1;
        }
        Ok(())
    }

    /// The first name of an address.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<&DomainName> {
        self.pointers.get(&address)
    }

    pub(super) fn has(&self, name: &DomainName) -> bool {
        self.names.contains_key(name)
    }

    pub(super) fn of(&self, name: &DomainName) -> &[IpAddr] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_file_is_read_as_hosts_5_says() {
        let text = "127.0.0.1\tlocalhost\n# comment\n192.0.2.7 www.example. www # behind\n\
                    2001:db8::7 WWW\nfe80::1%eth0 zone\nnonsense www\n192.0.2.8 a..b ok\n";
        let (hosts, notes) = Hosts::from_text(text);
        let of = |name: &str| hosts.of(&DomainName::parse(name).expect("a name")).to_vec();
        let v4: IpAddr = "192.0.2.7".parse().expect("an address");
        assert_eq!(of("www"), [v4, "2001:db8::7".parse().expect("an address")]);
        assert_eq!(of("www.example"), [v4]);
        assert_eq!(of("ok").len(), 1);
        assert_eq!(hosts.name_of(v4), DomainName::parse("www.example").ok().as_ref());
        assert!(of("zone").is_empty());
        let lines: Vec<_> = notes.iter().map(|note| note.line).collect();
        assert_eq!(lines, [5, 6, 7]);
    }

    #[test]
    fn a_hosts_file_of_any_size_is_bounded() {
        let line = |i: u32| format!("10.{}.{}.{} host\n", i >> 16, i >> 8 & 255, i & 255);
        let text: String = (0..1_000).map(line).collect();
        let (hosts, notes) = Hosts::from_text(&(text + &"x\n".repeat(1_000)));
        assert_eq!(hosts.of(&DomainName::parse("host").expect("a name")).len(), ADDRESSES_MAX);
        assert!(notes.len() <= super::super::limits::NOTES_MAX);
    }
}
