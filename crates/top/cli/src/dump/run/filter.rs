//! The filter of the command line, compiled for the source of its packets.
//!
//! Called by: `run.rs`, and `report.rs` for `-d`. libpcap compiles the text; it is loaded only if
//! there is one. A filter that goes back (`protochain`) runs here, over the packets of a file or an
//! interface; a running wirespeed refuses it.

use anyhow::{Context, Error, Result, anyhow};
use bpf::{Filter, Insn, Libpcap, LibpcapError, Program};
use wirespeed::LinkKind;

use super::source::Link;
use crate::dump::args::Args;

/// The opcode that returns a constant, here the number of bytes to keep.
const RETURN: u16 = 0x06;

/// The word in libpcap's error when it lacks a netmask.
const NETMASK: &str = "netmask";

/// A filter's text, and how many bytes to keep of a packet that it matches.
#[derive(Clone)]
pub(crate) struct Wanted {
    text: String,
    snaplen: u32,
}

impl Wanted {
    /// The filter of the command line. With `-F` the text is that of a file, and the one on the
    /// command line is ignored, as with tcpdump.
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

    /// A filter by its text; all of a packet is kept.
    pub(crate) fn whole(text: &str) -> Wanted {
        Wanted { text: text.trim().to_owned(), snaplen: bpf::SNAPLEN_MAX }
    }

    /// The same filter for a source that has its own snapshot length; 0 means none.
    pub(crate) fn within(mut self, snaplen: u32) -> Wanted {
        if snaplen > 0 {
            self.snaplen = self.snaplen.min(snaplen);
        }
        self
    }

    /// The instructions for packets of a file.
    pub(crate) fn of_file(&self, link: Link, is_swapped: bool) -> Result<Vec<Insn>> {
        self.compile(&bpf::Source { is_swapped, ..bpf::Source::new(link.dlt(), self.snaplen) })
    }

    /// The instructions for packets of an interface of this machine.
    pub(crate) fn of_interface(&self, name: &str, kind: LinkKind) -> Result<Vec<Insn>> {
        // The netmask is looked up only for a filter that may need it.
        let netmask = match self.text.contains("broadcast") {
            true => Libpcap::load()?.netmask(name),
            false => None,
        };
        self.of_port(kind, netmask)
    }

    /// The instructions for packets of a port of a running wirespeed.
    pub(crate) fn of_port(&self, kind: LinkKind, netmask: Option<u32>) -> Result<Vec<Insn>> {
        let link = Link::from(kind).dlt();
        self.compile(&bpf::Source { netmask, ..bpf::Source::new(link, self.snaplen) })
    }

    fn compile(&self, source: &bpf::Source) -> Result<Vec<Insn>> {
        if self.text.is_empty() {
            return Ok(vec![Insn::new(RETURN, 0, 0, self.snaplen)]);
        }
        Libpcap::load()?.compile_for(&self.text, source).map_err(helped)
    }

    /// A function that makes the filter for packets of a file, by their link type and whether the
    /// file has the other byte order.
    pub(crate) fn maker(&self) -> impl Fn(Link, bool) -> Result<Filter> + use<> {
        let wanted = self.clone();
        move |link, is_swapped| run_here(&wanted.of_file(link, is_swapped)?)
    }

    /// The same for an interface, by its name and link kind.
    pub(crate) fn maker_of_interfaces(&self) -> impl Fn(&str, LinkKind) -> Result<Filter> + use<> {
        let wanted = self.clone();
        move |name, kind| run_here(&wanted.of_interface(name, kind)?)
    }
}

/// A filter that runs in this process, where a packet that takes it long delays nobody.
fn run_here(insns: &[Insn]) -> Result<Filter> {
    Ok(Filter::new(Program::with_loops(insns).context("the filter cannot be run")?))
}

/// libpcap's refusal, with what to do where it does not say so.
fn helped(error: LibpcapError) -> Error {
    match &error {
        LibpcapError::Refused { message, .. } if message.contains(NETMASK) => anyhow!(
            "{error}: a file, and a port without an IPv4 address, have no netmask; write the \
             address, as in 'dst host 192.0.2.255'"
        ),
        _ => error.into(),
    }
}
