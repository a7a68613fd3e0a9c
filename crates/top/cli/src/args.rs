//! The command line of the program: the tools. Each tool's options are with the tool.
//!
//! Called by: `lib.rs`, and `pages.rs` for man pages and completions.

use clap::{Parser, Subcommand};

use crate::output::EXIT;
#[cfg(target_os = "linux")]
use crate::{
    compat, filter, gateway, netns, nfs, nfsd, ping, policy, proxy, rpcbind, services, setup,
    states, telnet, telnetd, up, wg, wire,
};
use crate::{dump, explain, ip, nc, pages, rpcinfo, show, top, trace, ttcp};

/// Printed when the program is run without arguments.
pub(crate) const FIRST: &str = "\
wirespeed: a TCP/IP stack that runs inside a process, and tools to measure it

Try first:
  wirespeed ttcp                 two stacks in memory move bytes for 3 seconds: how fast
  wirespeed ttcp --seconds 60 &  one that runs; then, beside it,
  wirespeed top                  what passes it, as it happens
  wirespeed show tcp             what its connection knows: windows, round trip, retransmissions
  wirespeed lab wan --quick      a bulk flow over a bad network, with each congestion control

Usage: wirespeed TOOL [OPTIONS]
All tools: wirespeed --help. One of them: wirespeed TOOL -h. A manual page: wirespeed man TOOL
";

/// A TCP/IP stack that runs inside a process, and tools to measure it.
#[derive(Parser)]
#[command(name = "wirespeed", version = env!("WIRESPEED_VERSION"))]
#[command(subcommand_value_name = "TOOL", subcommand_help_heading = "Tools")]
#[command(after_help = "Try: wirespeed ttcp        two stacks in memory move bytes for 3 seconds")]
#[command(after_long_help = EXIT)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) tool: Tool,
}

#[derive(Subcommand)]
pub(crate) enum Tool {
    /// Move bytes between two stacks in memory, or over a device to any host
    Ttcp(Box<ttcp::Args>),
    /// Ask a host for an echo (ICMP, ICMPv6) over a device, and say how long it took
    #[cfg(target_os = "linux")]
    Ping(Box<ping::Args>),
    /// Echo, discard, daytime and chargen over a device: a peer to test other programs against
    #[cfg(target_os = "linux")]
    Services(Box<services::Args>),
    /// Run a router, as a file says: ports, VLANs, addresses, routes
    #[cfg(target_os = "linux")]
    Up(up::Args),
    /// Join two devices by a link with a rate, a delay and faults: a bad network for any two hosts
    #[cfg(target_os = "linux")]
    Wire(Box<wire::Args>),
    /// Run any program in a network of its own behind our stack, without root
    #[cfg(target_os = "linux")]
    Netns(Box<netns::Args>),
    /// Give virtual machines a private network behind our stack, without root
    #[cfg(target_os = "linux")]
    Gateway(Box<gateway::Args>),
    /// Run a proxy: SOCKS5 and HTTP on one port, with rules by name, log, other ways out
    #[cfg(target_os = "linux")]
    Proxy(Box<proxy::Args>),
    /// Give a program, or a proxy, a WireGuard tunnel as its way out, without root
    #[cfg(target_os = "linux")]
    Wg(Box<wg::Args>),
    /// Check rules of what a program may reach, answer questions about flows, learn from a log
    #[cfg(target_os = "linux")]
    Policy(policy::Args),
    /// Connect a network namespace by the options of pasta(1), for podman, buildah and rootlesskit
    #[cfg(target_os = "linux")]
    Pasta(compat::Words),
    /// Connect a virtual machine by the options of passt(1), for libvirt and QEMU
    #[cfg(target_os = "linux")]
    Passt(compat::Words),
    /// Add and delete published ports of a running pasta or passt, by the options of pesto(1)
    #[cfg(target_os = "linux")]
    Pesto(compat::Words),
    /// Connect a network namespace by the options of slirp4netns(1), for rootlesskit
    #[cfg(target_os = "linux")]
    Slirp4netns(compat::Words),
    /// Print the configuration with which podman, Docker or libvirt use these four
    #[cfg(target_os = "linux")]
    Setup(setup::Args),
    /// List the ONC RPC programs of a host, or try whether one answers
    Rpcinfo(rpcinfo::Args),
    /// Run a port mapper: versions 2 to 4 over UDP and TCP, on the system's sockets
    #[cfg(target_os = "linux")]
    Rpcbind(rpcbind::Args),
    /// A terminal on another host by TELNET; lines are edited here
    #[cfg(target_os = "linux")]
    Telnet(Box<telnet::Args>),
    /// Give everyone who connects by TELNET a program on a terminal
    #[cfg(target_os = "linux")]
    Telnetd(Box<telnetd::Args>),
    /// Serve a directory over NFS version 3, TCP and UDP
    #[cfg(target_os = "linux")]
    Nfsd(Box<nfsd::Args>),
    /// List, print and copy files of an NFS version 3 server
    #[cfg(target_os = "linux")]
    Nfs(Box<nfs::Args>),
    /// Print packets of a running wirespeed, an interface or a file, or write them to a file
    Dump(Box<dump::Args>),
    /// Show what a running wirespeed is doing: connections, counters, drops, limits and more
    Show(show::Args),
    /// Say in words what limits a connection of a running wirespeed
    Explain(explain::Args),
    /// Check rules of a router's firewall, explain them, try them in a running router
    #[cfg(target_os = "linux")]
    Filter(filter::Args),
    /// End states of a running router's firewall
    #[cfg(target_os = "linux")]
    States(states::Args),
    /// Show and change routes, rules, neighbours, addresses of a running wirespeed, as ip(8) does
    Ip(Box<ip::Args>),
    /// Connect, listen, or send datagrams from the stack of a running wirespeed, as nc(1) does
    Nc(nc::Args),
    /// Watch what passes a running wirespeed or an interface, as it happens
    Top(Box<top::Args>),
    /// Show what a capture says about its TCP connections: time-sequence graphs, retransmissions
    Trace(trace::Args),
    /// Run an experiment with the stack: a table, a plot, a document
    Lab(Box<::lab::Args>),
    /// Print the manual page of a tool, or write all pages into a directory
    Man(pages::ManArgs),
    /// Print the completions of a shell
    Completions(pages::CompletionsArgs),
}
