//! The registry of experiments.
//!
//! Called by: `lib.rs`, `all.rs`, and `options.rs` for the command line.

use clap::{ArgMatches, Command};

use crate::report::Report;
use crate::run::{Error, Run};
use crate::{
    ablate, budget, cray, elbow, ethernet1988, explained, fair, forward, knee, livelock,
    mitigation, pps, storm, tap, telnet, wan,
};

/// An experiment: what `wirespeed lab NAME` runs.
pub struct Experiment {
    /// NAME on the command line.
    pub name: &'static str,
    /// One line for the list of experiments.
    pub summary: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// The options of [`options::SOME`] that it uses.
    pub(crate) takes: &'static [&'static str],
    /// Adds its own options.
    pub(crate) options: fn(Command) -> Command,
    /// Runs it.
    pub(crate) run: fn(&ArgMatches, &Run<'_>) -> Result<Report, Error>,
}

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "wan",
        summary: "Bulk flows over long paths that lose packets or bring them late",
        question: "What share of a long path does a bulk flow reach, with each congestion \
                   control, where packets are lost or late?",
        takes: &["seeds", "first_seed", "jobs"],
        options: <wan::Options as clap::Args>::augment_args,
        run: wan::run,
    },
    Experiment {
        name: "fair",
        summary: "Flows that share a bottleneck, ours and Linux's",
        question: "How do two flows share a bottleneck: with the same congestion control or \
                   another, begun together or one after the other, ours or Linux's?",
        takes: &["seeds", "first_seed", "jobs"],
        options: <fair::Options as clap::Args>::augment_args,
        run: fair::run,
    },
    Experiment {
        name: "mitigation",
        summary: "A receiver at each level of interrupt mitigation",
        question: "How often is a receiver interrupted at each level, what does that save, and \
                   does a transfer as long as a threshold wait for its last frame?",
        takes: &["first_seed", "jobs"],
        options: <mitigation::Options as clap::Args>::augment_args,
        run: mitigation::run,
    },
    Experiment {
        name: "tap",
        summary: "Showing a packet to a tap, ours beside the way of STREAMS",
        question: "What does it cost to show a packet to a tap, by its size, and what of that is \
                   the linkage: a call with the packet in place, or messages from queue to queue?",
        takes: &[],
        options: <tap::Options as clap::Args>::augment_args,
        run: tap::run,
    },
    Experiment {
        name: "pps",
        summary: "Packets a second that reach an application, by what they carry",
        question: "How many packets a second of each size does a processor bring from one \
                   application to another, by TCP and by UDP?",
        takes: &[],
        options: <pps::Options as clap::Args>::augment_args,
        run: pps::run,
    },
    Experiment {
        name: "ablate",
        summary: "What each optimisation is worth, alone and beside the others",
        question: "What does each switch change at the cost of a segment, do they add up, and \
                   about which would testing one at a time have misled?",
        takes: &["first_seed"],
        options: <ablate::Options as clap::Args>::augment_args,
        run: ablate::run,
    },
    Experiment {
        name: "budget",
        summary: "Where the cost of a packet goes, stage by stage, and what to fix next",
        question: "What does each stage cost, for a packet and for its bytes, at a sender, a \
                   receiver and a router, which end limits, and what is to be fixed next?",
        takes: &[],
        options: <budget::Options as clap::Args>::augment_args,
        run: budget::run,
    },
    Experiment {
        name: "livelock",
        summary: "A receiver under ten times the load that it can take",
        question: "What does a receiver deliver to its application when far more comes than it can \
                   take, and how much of its processor does the application still have?",
        takes: &[],
        options: <livelock::Options as clap::Args>::augment_args,
        run: livelock::run,
    },
    Experiment {
        name: "forward",
        summary: "A router: packets a second, by what they are and over what they go",
        question: "What does it cost a router to forward a packet: by its size and version, with \
                   many routes and flows, with tags, each way and both; in memory, over TAP and \
                   AF_XDP, and the kernel beside it?",
        takes: &[],
        options: <forward::experiment::Options as clap::Args>::augment_args,
        run: forward::experiment::run,
    },
    Experiment {
        name: "storm",
        summary: "A broadcast among hosts that disagree about the broadcast address",
        question: "How many frames come of a broadcast where half of the hosts take another \
                   address for it: among hosts as of 1984, among ours, behind a router of ours, \
                   and for a bystander?",
        takes: &["first_seed"],
        options: <storm::Options as clap::Args>::augment_args,
        run: storm::run,
    },
    Experiment {
        name: "telnet",
        summary: "A line typed over a long path, by TELNET in line and in character mode",
        question: "How many packets and bytes does a line cost that is typed over a long path, \
                   edited by the client or sent character by character, and how long until a \
                   character is seen?",
        takes: &[],
        options: <telnet::Options as clap::Args>::augment_args,
        run: telnet::run,
    },
    Experiment {
        name: "elbow",
        summary: "A null RPC by the bytes of its argument, and where it takes longer than beside",
        question: "How long does a call take by the bytes of its argument, and is there a size at \
                   which it takes more than a fifth longer than the line through all of them: as \
                   in 1989, with the vendor's remedy, and ours?",
        takes: &["first_seed", "jobs"],
        options: <elbow::Options as clap::Args>::augment_args,
        run: elbow::run,
    },
    Experiment {
        name: "ethernet1988",
        summary: "TCP on a ten-megabit Ethernet in 1988, by what was made fast",
        question: "How fast is TCP between two workstations of 1988 with each combination of what \
                   made it fast: the unit of sosend, no hidden copies, a driver that queues, \
                   faster loops; and ours on the same Ethernet?",
        takes: &["seeds", "first_seed", "jobs"],
        options: <ethernet1988::Options as clap::Args>::augment_args,
        run: ethernet1988::run,
    },
    Experiment {
        name: "cray",
        summary: "Memory to memory over TCP as on supercomputers in 1989, by checksum and by MTU",
        question: "How fast is TCP from memory to memory with the settings of 1989 and today's, by \
                   checksum and by MTU, beside memcpy; and what share of a channel of 850, 100 \
                   and 50 Mb/s does it take?",
        takes: &[],
        options: <cray::Options as clap::Args>::augment_args,
        run: cray::run,
    },
    Experiment {
        name: "explain",
        summary: "Connections whose limit is known, and what explain says of them",
        question: "How many connections does explain name right that are limited on purpose, each \
                   in another way and with parameters drawn by seed, by what it sees in real use?",
        takes: &["seeds", "first_seed", "jobs"],
        options: <explained::Options as clap::Args>::augment_args,
        run: explained::run,
    },
    Experiment {
        name: "knee",
        summary: "Throughput against the unit of work, and where more of it gains nothing",
        question: "From which size on does a larger write, unit, burst, mbuf or packet gain \
                   nothing, and how sure is that?",
        takes: &["first_seed"],
        options: <knee::Options as clap::Args>::augment_args,
        run: knee::run,
    },
];
