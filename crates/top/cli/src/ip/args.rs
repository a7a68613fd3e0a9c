//! The options of `ip`, and their effect on output.
//!
//! Called by: clap, then the objects.

use core::net::IpAddr;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;

/// The objects and commands, as help.
pub(super) const GRAMMAR: &str = "\
As ip(8), for a running wirespeed; words may be cut short, as in `ip r g 192.0.2.1`:
  ip addr  [show [dev PORT] [to PREFIX] [scope SCOPE]]
  ip addr  add|replace|change|del ADDRESS/LENGTH dev PORT [valid_lft S] [preferred_lft S] [nodad]
  ip addr  flush dev PORT [to PREFIX]
  ip route [show|flush [match|root|exact] PREFIX] [table TABLE|vrf NAME] [dev PORT] [via IP]
           [proto P] [metric N]
  ip route add|replace|change|del PREFIX [via IP] [dev PORT] [metric N] [mtu BYTES]
           [table TABLE|vrf NAME] [onlink] [include GROUP,...|exclude GROUP,...] [no_forward]
           [nexthop via IP [dev PORT] [weight N] ...]
  ip route add|replace|change|del blackhole|unreachable|prohibit PREFIX [metric N]
           [table TABLE|vrf NAME]
  ip route get ADDRESS [from IP] [iif PORT] [oif PORT] [vrf NAME] [mark N] [uid N]
  ip rule  [show] SELECTOR
  ip rule  add|del SELECTOR table TABLE|unreachable|prohibit|blackhole
           SELECTOR: [not] [priority N] [from PREFIX] [to PREFIX] [fwmark MARK[/MASK]] [iif PORT]
           [group GROUP]
  ip neigh [show|flush [PREFIX] [dev PORT] [nud STATE]]
  ip neigh add|replace|change|del IP [lladdr MAC] dev PORT
  ip neigh get IP dev PORT
  ip link  [show [PORT]]
  ip vrf   [show [NAME]]

A change lasts until the program ends or its configuration changes the same thing. Only root and the
user that runs the program may make a change.

Exit status: 0 done, 1 wrong command line or no program, 2 no answer or refused by the program.";

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = GRAMMAR)]
#[allow(clippy::struct_excessive_bools, reason = "they are the flags of ip(8)")]
pub(crate) struct Args {
    /// Only IPv4
    #[arg(short = '4')]
    pub(super) v4: bool,
    /// Only IPv6
    #[arg(short = '6', overrides_with = "v4")]
    pub(super) v6: bool,
    /// JSON, with the keys of ip(8)
    #[arg(short, long)]
    pub(super) json: bool,
    /// JSON for people
    #[arg(short, long)]
    pretty: bool,
    /// More: how long ago a neighbour was confirmed
    #[arg(short, long, visible_alias = "statistics")]
    pub(super) stats: bool,
    /// Each record on a line
    #[arg(short, long)]
    oneline: bool,
    /// The stack, if the program has several
    #[arg(short = 'n', long = "netns", value_name = "STACK")]
    pub(super) stack: Option<String>,
    /// The control socket of the program
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub(super) socket: Option<PathBuf>,
    /// The program's process number [default: the only one that runs]
    #[arg(long)]
    pub(super) pid: Option<u32>,
    /// Object and command
    #[arg(value_name = "OBJECT", trailing_var_arg = true)]
    pub(super) words: Vec<String>,
}

impl Args {
    /// Did the user ask for this address's version of IP?
    pub(super) fn wants(&self, ip: IpAddr) -> bool {
        if self.v6 { ip.is_ipv6() } else { !self.v4 || ip.is_ipv4() }
    }

    /// The text of rows: as JSON, or in the words of `line`.
    pub(super) fn listed<T: Serialize>(
        &self,
        rows: &[T],
        line: impl Fn(&T) -> String,
    ) -> Result<String> {
        if self.json {
            let text = match self.pretty {
                true => serde_json::to_string_pretty(rows),
                false => serde_json::to_string(rows),
            };
            return Ok(text.context("cannot write JSON")? + "\n");
        }
        let one = |row| {
            let text = line(row);
            if self.oneline { text.replace('\n', "\\") + "\n" } else { text + "\n" }
        };
        Ok(rows.iter().map(one).collect())
    }
}

/// The command line in clap's form: ip(8) has long options with one dash (`-json`), clap takes two.
pub(crate) fn normalised(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const LONG: [&str; 6] = ["json", "pretty", "stats", "statistics", "oneline", "netns"];
    let mut words: Vec<OsString> = words.collect();
    if words.get(1).is_none_or(|word| word != "ip") {
        return words;
    }
    let options = words.iter_mut().skip(2);
    for word in options {
        let Some(name) = word.to_str().and_then(|word| word.strip_prefix('-')) else { break };
        let is_long = name.len() > 1 && !name.starts_with('-');
        if let Some(long) = LONG.iter().find(|long| is_long && long.starts_with(name)) {
            *word = format!("--{long}").into();
        } else if !name.starts_with('-') && !matches!(name, "4" | "6" | "j" | "p" | "s" | "o") {
            // This option has a value or is unknown; clap reports an unknown one.
            break;
        }
    }
    words
}
