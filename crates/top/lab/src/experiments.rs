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
    /// The question that the experiment answers.
    pub question: &'static str,
    /// The options of [`options::SOME`] that the experiment uses.
    pub(crate) takes: &'static [&'static str],
    /// Adds the experiment's own options to a command.
    pub(crate) options: fn(Command) -> Command,
    /// Runs the experiment.
    pub(crate) run: fn(&ArgMatches, &Run<'_>) -> Result<Report, Error>,
}

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "wan",
        summary: "Bulk flows over long paths that lose or delay packets",
        question: "What share of a long path's rate does a bulk flow reach with each congestion \
                   control, if packets are lost or late?",
        takes: &["seeds", "first_seed", "jobs"],
        options: <wan::Options as clap::Args>::augment_args,
        run: wan::run,
    },
    Experiment {
        name: "fair",
        summary: "Flows that share a bottleneck, ours and Linux's",
        question: "How do two flows share a bottleneck: with the same or different congestion \
                   control, begun together or one after the other, of our stack or Linux's?",
        takes: &["seeds", "first_seed", "jobs"],
        options: <fair::Options as clap::Args>::augment_args,
        run: fair::run,
    },
    Experiment {
        name: "mitigation",
        summary: "A receiver at each level of interrupt mitigation",
        question: "How often is a receiver interrupted at each level, how much processor time does \
                   that save, and does the last frame of a transfer wait if the transfer is as \
                   long as a threshold?",
        takes: &["first_seed", "jobs"],
        options: <mitigation::Options as clap::Args>::augment_args,
        run: mitigation::run,
    },
    Experiment {
        name: "tap",
        summary: "The cost of showing a packet to a tap, ours compared with STREAMS",
        question: "What does it cost to show a packet to a tap, by the packet's size, and how much \
                   of that is the linkage: a call with the packet in place, or messages from queue \
                   to queue?",
        takes: &[],
        options: <tap::Options as clap::Args>::augment_args,
        run: tap::run,
    },
    Experiment {
        name: "pps",
        summary: "Packets a second that reach an application, by protocol and payload",
        question: "How many packets a second of each size does a processor carry from one \
                   application to another, over TCP and over UDP?",
        takes: &[],
        options: <pps::Options as clap::Args>::augment_args,
        run: pps::run,
    },
    Experiment {
        name: "ablate",
        summary: "What each optimisation is worth, alone and beside the others",
        question: "How much does each switch change the cost of a segment, do the changes add up, \
                   and about which switches would testing one at a time have misled?",
        takes: &["first_seed"],
        options: <ablate::Options as clap::Args>::augment_args,
        run: ablate::run,
    },
    Experiment {
        name: "budget",
        summary: "Where the cost of a packet goes, stage by stage, and what to fix next",
        question: "What does each stage cost, for each packet and for each byte, at a sender, a \
                   receiver and a router; which end is the limit, and what should be fixed next?",
        takes: &[],
        options: <budget::Options as clap::Args>::augment_args,
        run: budget::run,
    },
    Experiment {
        name: "livelock",
        summary: "A receiver under ten times the load that it can take",
        question: "How much does a receiver deliver to its application when far more packets \
                   arrive than it can process, and how much of its processor does the application \
                   still have?",
        takes: &[],
        options: <livelock::Options as clap::Args>::augment_args,
        run: livelock::run,
    },
    Experiment {
        name: "forward",
        summary: "A router: packets a second, by kind of packet and by device",
        question: "What does it cost a router to forward a packet: by size and IP version, with \
                   many routes and flows, with tags, in each direction and both; in memory, over \
                   TAP and over AF_XDP, compared with the kernel?",
        takes: &[],
        options: <forward::experiment::Options as clap::Args>::augment_args,
        run: forward::experiment::run,
    },
    Experiment {
        name: "storm",
        summary: "A broadcast among hosts that disagree about the broadcast address",
        question: "How many frames does one broadcast cause if half of the hosts use another \
                   broadcast address: among hosts of 1984, among ours, behind a router of ours, \
                   and at a host that is not involved?",
        takes: &["first_seed"],
        options: <storm::Options as clap::Args>::augment_args,
        run: storm::run,
    },
    Experiment {
        name: "telnet",
        summary: "A line typed over a long path, by TELNET in line and in character mode",
        question: "How many packets and bytes does a line that is typed over a long path cost, if \
                   the client edits it or sends it character by character, and how long does it \
                   take until a character is seen?",
        takes: &[],
        options: <telnet::Options as clap::Args>::augment_args,
        run: telnet::run,
    },
    Experiment {
        name: "elbow",
        summary: "A null RPC by the bytes of its argument, and the sizes at which it is too slow",
        question: "How long does a call take by the bytes of its argument, and is there a size at \
                   which it takes more than a fifth longer than the line through all sizes: as in \
                   1989, with the vendor's remedy, and with our stack?",
        takes: &["first_seed", "jobs"],
        options: <elbow::Options as clap::Args>::augment_args,
        run: elbow::run,
    },
    Experiment {
        name: "ethernet1988",
        summary: "TCP on a ten-megabit Ethernet in 1988, by the steps that made it fast",
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
                   checksum and by MTU, compared with memcpy; and what share of a channel of 850, \
                   100 and 50 Mb/s does it use?",
        takes: &[],
        options: <cray::Options as clap::Args>::augment_args,
        run: cray::run,
    },
    Experiment {
        name: "explain",
        summary: "Connections whose limit is known, and what explain says of them",
        question: "Of connections that are limited on purpose, each in another way and with random \
                   parameters, for how many does explain name the limit, from the data that it has \
                   in real use?",
        takes: &["seeds", "first_seed", "jobs"],
        options: <explained::Options as clap::Args>::augment_args,
        run: explained::run,
    },
    Experiment {
        name: "knee",
        summary: "Throughput against the unit of work, and the size past which more gains nothing",
        question: "From which size on does a larger write, unit, burst, mbuf or packet gain \
                   nothing, and how sure is that?",
        takes: &["first_seed"],
        options: <knee::Options as clap::Args>::augment_args,
        run: knee::run,
    },
];
