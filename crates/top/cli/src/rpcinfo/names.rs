//! Names of RPC programs: those of `/etc/rpc` (rpc(5)), or without that file the usual ones.
//!
//! Called by: `run.rs` and `report.rs`.

use std::collections::HashMap;

/// Names of programs that hosts have, as `/etc/rpc` has them.
const USUAL: &str = "\
portmapper 100000 portmap sunrpc rpcbind
rstatd 100001 rstat rup perfmeter
rusersd 100002 rusers
nfs 100003 nfsprog
ypserv 100004 ypprog
mountd 100005 mount showmount
ypbind 100007
walld 100008 rwall shutdown
yppasswdd 100009 yppasswd
rquotad 100011 rquotaprog quota rquota
sprayd 100012 spray
nlockmgr 100021
status 100024
bootparam 100026
keyserv 100029 keyserver
nfs_acl 100227
";
const FILE: &str = "/etc/rpc";

/// The names.
#[derive(Debug, Default)]
pub(super) struct Names {
    of: HashMap<u32, String>,
    /// Aliases too.
    numbers: HashMap<String, u32>,
}

impl Names {
    pub(super) fn read() -> Names {
        let file = std::fs::read(FILE).unwrap_or_default();
        let mut names = Names::default();
        names.add(&String::from_utf8_lossy(&file));
        names.add(USUAL);
        names
    }

    /// Lines of a name, a number and aliases; the first one of a number or a name holds, and what
    /// is no such line is passed over.
    fn add(&mut self, text: &str) {
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let (Some(name), Some(number)) = (words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<u32>() else { continue };
            self.of.entry(number).or_insert_with(|| name.to_owned());
            for name in [name].into_iter().chain(words) {
                self.numbers.entry(name.to_owned()).or_insert(number);
            }
        }
    }

    /// The name of a program; `-` if it has none.
    pub(super) fn of(&self, program: u32) -> &str {
        self.of.get(&program).map_or("-", String::as_str)
    }

    /// The number of what is a number or a name.
    pub(super) fn number(&self, text: &str) -> Option<u32> {
        text.parse().ok().or_else(|| self.numbers.get(text).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_have_numbers_and_a_file_comes_before_the_usual_ones() {
        let mut names = Names::default();
        names.add("# a comment\nfiles 100003 nfs # mine\nbroken\nx y\n own\t400001\n");
        names.add(USUAL);
        assert_eq!((names.of(100_003), names.of(400_001), names.of(5)), ("files", "own", "-"));
        for (text, number) in [
            ("nfs", Some(100_003)),
            ("files", Some(100_003)),
            ("rpcbind", Some(100_000)),
            ("showmount", Some(100_005)),
            ("77", Some(77)),
            ("4294967296", None),
            ("nobody", None),
        ] {
            assert_eq!(names.number(text), number, "{text}");
        }
    }
}
