//! The filter of the command line, compiled for a link type.
//!
//! Called by: `run.rs`, and `report.rs` for `-d`. libpcap compiles the text; it is loaded only if
//! there is one.

use anyhow::{Context, Result};
use bpf::{Filter, Insn, Libpcap, Program};
use wirespeed::LinkKind;

use super::packet::Link;
use crate::dump::args::Args;

/// The opcode that returns a constant, here the number of bytes to keep.
const RETURN: u16 = 0x06;

/// A filter's text, and how many bytes to keep of a packet that it matches.
#[derive(Clone)]
pub(crate) struct Wanted {
    text: String,
    snaplen: u32,
}

impl Wanted {
    /// From the command line. With `-F` the text is a file's, and the command line's is ignored, as
    /// with tcpdump.
    pub(crate) fn of(args: &Args) -> Result<Wanted> {
        let text = match &args.filter_file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                text.with_context(|| format!("cannot read {}", path.display()))?
            }
            None => args.filter.join(" "),
        };
        Ok(Wanted { text: text.trim().to_owned(), snaplen: args.snaplen })
    }

    /// By its text; all of a packet is kept.
    pub(crate) fn whole(text: &str) -> Wanted {
        Wanted { text: text.trim().to_owned(), snaplen: bpf::SNAPLEN_MAX }
    }

    /// The instructions for packets of this link type.
    pub(crate) fn compile(&self, link: Link) -> Result<Vec<Insn>> {
        if self.text.is_empty() {
            return Ok(vec![Insn::new(RETURN, 0, 0, self.snaplen)]);
        }
        Ok(Libpcap::load()?.compile(&self.text, link.dlt(), self.snaplen)?)
    }

    /// A function that compiles the filter for a link type.
    pub(crate) fn maker(&self) -> impl Fn(Link) -> Result<Filter> + use<> {
        let wanted = self.clone();
        move |link| {
            let insns = wanted.compile(link)?;
            Ok(Filter::new(Program::new(&insns).context("the filter cannot be run")?))
        }
    }

    /// The same for the link kind of an interface.
    pub(crate) fn maker_of_kind(&self) -> impl Fn(LinkKind) -> Result<Filter> + use<> {
        let make = self.maker();
        move |kind| make(Link::from(kind))
    }
}
