//! `wirespeed rpcinfo`: the ONC RPC programs of a host, and whether they answer, over the system's
//! sockets.
//!
//! Called by: `lib.rs`. RFC 1833, RFC 5531.

mod run;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use rpc::portmap::{Mapping, Rpcb, TCP, UDP};
#[cfg(target_os = "linux")]
pub(crate) use run::{clock, secret, udp};
use wirespeed::control::text::plain;

use crate::{Outcome, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("what").args(["p", "s", "t", "u"]).required(true)))]
#[command(after_help = "\
What a host has, by its port mapper:   wirespeed rpcinfo -p 192.0.2.1
Whether its NFS answers over TCP:      wirespeed rpcinfo -t 192.0.2.1 nfs 3")]
pub(crate) struct Args {
    /// List programs with their ports (port mapper version 2)
    #[arg(short = 'p')]
    p: bool,
    /// List programs with their versions and transports (rpcbind version 4)
    #[arg(short = 's')]
    s: bool,
    /// Call procedure 0 of a program over TCP
    #[arg(short = 't', requires = "program")]
    t: bool,
    /// Call procedure 0 of a program over UDP
    #[arg(short = 'u', requires = "program")]
    u: bool,
    /// Name or address of the host
    #[arg(value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Number of the program, or its name of /etc/rpc, for -t and -u
    #[arg(value_name = "PROGRAM")]
    program: Option<String>,
    /// Its version [default: all that the server has]
    #[arg(value_name = "VERSION")]
    version: Option<u32>,
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    output::out(&run::run(args)?)?;
    Ok(Outcome::Done)
}

/// The list of version 2.
fn ports(list: &[Mapping], names: &Names) -> String {
    let mut text = "   program vers proto   port  service\n".to_owned();
    for m in list {
        let protocol = match m.protocol {
            TCP => "tcp".to_owned(),
            UDP => "udp".to_owned(),
            other => other.to_string(),
        };
        let (program, version, port) = (m.program, m.version, m.port);
        let name = names.of(program);
        text += &format!("{program:>10} {version:>4} {protocol:>5} {port:>6}  {name}\n");
    }
    text
}

/// The list of versions 3 and 4: a line for each program.
fn summary(list: &[Rpcb], names: &Names) -> String {
    type Row = (BTreeSet<u32>, BTreeSet<String>, String);
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    for m in list {
        let row = rows.entry(m.program).or_default();
        row.0.insert(m.version);
        row.1.insert(plain(&m.netid));
        row.2 = plain(&m.owner);
    }
    let mut text =
        "   program version(s) netid(s)                         service     owner\n".to_owned();
    for (program, (versions, netids, owner)) in rows {
        let versions: Vec<String> = versions.iter().map(u32::to_string).collect();
        let netids: Vec<String> = netids.into_iter().collect();
        let (versions, netids) = (versions.join(","), netids.join(","));
        let name = names.of(program);
        text += &format!("{program:>10} {versions:<10} {netids:<32} {name:<11} {owner}\n");
    }
    text
}

/// A version that answers.
fn ready(program: u32, version: u32) -> String {
    format!("program {program} version {version} ready and waiting\n")
}

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
struct Names {
    of: HashMap<u32, String>,
    /// Aliases too.
    numbers: HashMap<String, u32>,
}

impl Names {
    fn read() -> Names {
        let file = std::fs::read(FILE).unwrap_or_default();
        let mut names = Names::default();
        names.add(&String::from_utf8_lossy(&file));
        names.add(USUAL);
        names
    }

    /// Add lines of a name, a number and aliases. The first line of a number or a name holds; other
    /// lines are passed over.
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
    fn of(&self, program: u32) -> &str {
        self.of.get(&program).map_or("-", String::as_str)
    }

    /// The number for a text that is a number or a name.
    fn number(&self, text: &str) -> Option<u32> {
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
