//! The command line of `show`.
//!
//! Called by: clap, then `run.rs`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::fib::Wanted;
use super::filter::Filter;
use super::states::chosen;
use super::within::Within;
use crate::Usage;
use wirespeed::control::protocol::{Chosen, Section};

/// How long a look at the budget takes, in seconds, unless told otherwise.
const SECONDS: f64 = 5.0;

/// How long it may take, in seconds.
const SECONDS_ALLOWED: std::ops::RangeInclusive<f64> = 0.1..=3_600.0;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
FILTER chooses connections and sockets as in ss(8), joined by and, or, not, ( ):
  state established, exclude time-wait, src 192.0.2.1, dst 10.0.0.0/8, sport = :80, dport >= 1024

  wirespeed show connections state established dport = :80
  wirespeed show connections 'dst 10.0.0.0/8 or ( state fin-wait-1 and sport = :22 )'
  wirespeed show tcp 192.0.2.1:5001    all there is to know of a connection, by one of its ends
  wirespeed show tcp state established

What the FIB has for each prefix, and what it says of one packet, as `ip route get` asks:
  wirespeed show fib
  wirespeed show fib lookup ADDR [from ADDR] [iif PORT] [oif PORT] [vrf NAME] [mark N] [uid N]

The routes of one VRF, or of one table:
  wirespeed show routes vrf blue
  wirespeed show fib table 10

The firewall of a router: rules with their counters and flow export, flows, translations:
  wirespeed show filter
  wirespeed show states proto tcp src 10.0.0.0/8 dport 443 in lan phase established rule web
  wirespeed show nat

The partner of a router, which has copies of its states:
  wirespeed show pair

The routing daemons beside it: where their routes come from, and their mirrors of its ports:
  wirespeed show frr

Where its processor time goes, stage by stage, sampled from outside for some seconds:
  wirespeed show budget [--seconds 10]

addr, neigh and route are short for addresses, neighbours and routes.")]
pub(crate) struct Args {
    /// What to show [default: all but tcp, fib, filter, states, nat, pair, frr, mirrors and budget]
    pub(super) what: Option<What>,
    /// Which connections or sockets; for tcp also ADDRESS:PORT, one end of a connection; for fib
    /// `lookup` and a packet
    #[arg(value_name = "FILTER")]
    words: Vec<String>,
    /// One JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// The control socket of the program
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub(super) socket: Option<PathBuf>,
    /// The program's process number [default: the only one that runs]
    #[arg(long)]
    pub(super) pid: Option<u32>,
    /// How long `budget` looks at the program
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
}

/// A section, or connections in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Section(Section),
    /// Connections with all details.
    Tcp,
    /// The routes that packets take, or a lookup.
    Fib,
    /// Where the processor time goes.
    Budget,
}

impl ValueEnum for What {
    fn value_variants<'a>() -> &'a [What] {
        const ALL: &[What] = &[
            What::Tcp,
            What::Section(Section::Stack),
            What::Section(Section::Ports),
            What::Section(Section::Connections),
            What::Section(Section::Sockets),
            What::Section(Section::Addresses),
            What::Section(Section::Neighbours),
            What::Section(Section::Routes),
            What::Fib,
            What::Section(Section::Groups),
            What::Section(Section::Frag),
            What::Section(Section::Drops),
            What::Section(Section::Counters),
            What::Section(Section::Limits),
            What::Section(Section::Switches),
            What::Section(Section::Filter),
            What::Section(Section::States),
            What::Section(Section::Nat),
            What::Section(Section::Pair),
            What::Section(Section::Frr),
            What::Section(Section::Mirrors),
            What::Budget,
        ];
        ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            What::Section(section) => {
                let (name, short) = section.names();
                Some(PossibleValue::new(name).aliases(short))
            }
            What::Tcp => Some(PossibleValue::new("tcp")),
            What::Fib => Some(PossibleValue::new("fib")),
            What::Budget => Some(PossibleValue::new("budget")),
        }
    }
}

impl Args {
    /// The sections to ask for.
    pub(super) fn sections(&self) -> Vec<Section> {
        match self.what {
            Some(What::Section(Section::Filter)) => vec![Section::Filter, Section::Ipfix],
            Some(What::Section(Section::Nat)) => vec![Section::Nat, Section::Mappings],
            Some(What::Section(Section::Frr)) => vec![Section::Frr, Section::Mirrors],
            Some(What::Section(section)) => vec![section],
            Some(What::Tcp) => vec![Section::Connections],
            Some(What::Fib | What::Budget) => Vec::new(),
            None => Section::ALL.to_vec(),
        }
    }

    /// Are connections shown in full?
    pub(super) fn is_full(&self) -> bool {
        self.what == Some(What::Tcp)
    }

    /// For how many seconds the program is looked at, if its budget is asked for.
    ///
    /// # Errors
    /// [`Usage`]: words or seconds that change nothing, and seconds out of range.
    pub(super) fn budget(&self) -> Result<Option<f64>> {
        match self.what {
            Some(What::Budget) if !self.words.is_empty() => {
                bail!(Usage("budget takes no FILTER: it is of the whole program".to_owned()))
            }
            Some(What::Budget) => {
                let seconds = self.seconds.unwrap_or(SECONDS);
                if !SECONDS_ALLOWED.contains(&seconds) {
                    bail!(Usage("--seconds takes 0.1 to 3600".to_owned()));
                }
                Ok(Some(seconds))
            }
            _ if self.seconds.is_some() => {
                bail!(Usage("--seconds is for budget; the others are of one moment".to_owned()))
            }
            _ => Ok(None),
        }
    }

    /// Is the budget shown?
    pub(super) fn is_budget(&self) -> bool {
        self.what == Some(What::Budget)
    }

    /// The part of the FIB that is shown, if the FIB is asked for.
    ///
    /// # Errors
    /// [`Usage`]: the words after it are not known.
    pub(super) fn fib(&self) -> Result<Option<Wanted<'_>>> {
        (self.what == Some(What::Fib)).then(|| Wanted::of(&self.words)).transpose()
    }

    /// The states that are shown.
    ///
    /// # Errors
    /// [`Usage`]: the words after it are not known.
    pub(super) fn chosen(&self) -> Result<Chosen> {
        match self.what {
            Some(What::Section(Section::States)) => chosen(&self.words),
            _ => Ok(Chosen::default()),
        }
    }

    /// The table whose routes are shown, if one is named.
    ///
    /// # Errors
    /// [`Usage`]: the words after `routes` are not known.
    pub(super) fn within(&self) -> Result<Option<Within<'_>>> {
        match self.what {
            Some(What::Section(Section::Routes)) => Within::of(&self.words),
            _ => Ok(None),
        }
    }

    /// Is it a lookup?
    pub(super) fn is_lookup(&self) -> bool {
        self.what == Some(What::Fib) && self.words.first().is_some_and(|word| word == "lookup")
    }

    /// The filter for rows.
    ///
    /// # Errors
    /// [`Usage`]: the filter is invalid, or the section has nothing to filter.
    pub(super) fn filter(&self) -> Result<Option<Filter>> {
        use Section::{Connections, Sockets};
        let of_others = Some(What::Section(Section::Routes)) == self.what;
        if of_others
            || matches!(self.what, Some(What::Fib | What::Budget | What::Section(Section::States)))
        {
            return Ok(None);
        }
        let filter = Filter::parse(&self.words).map_err(|why| Usage(format!("FILTER: {why}")))?;
        let chooses = matches!(self.what, Some(What::Tcp | What::Section(Connections | Sockets)));
        if filter.is_some() && !chooses {
            bail!(Usage("a FILTER is for tcp, connections and sockets".to_owned()));
        }
        Ok(filter)
    }
}
