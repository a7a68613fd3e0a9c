//! The program `wirespeed` as a library: parses the command line, runs the tool and turns its
//! outcome into an exit code (`output.rs`).
//!
//! Called by: `main.rs`, and tests that need the command line ([`command`]).
//!
//! All tools have the same layout: TOOL.rs has `main`; the options, the work and the output as text
//! and as JSON are there too, or in `TOOL/args.rs`, `TOOL/run.rs` and `TOOL/report.rs`. Shared by
//! several tools: clocks and Ctrl-C (`clock`), a stack on a device (`network`), connections over
//! the system's sockets or such a stack (`sockets`), the user's terminal (`terminal`), names of
//! hosts (`names`), requests to a running program (`running`), where the page of a running program
//! is (`http`), printing (`output`).

mod args;
mod clock;
#[cfg(target_os = "linux")]
mod compat;
mod dump;
mod explain;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod gateway;
#[cfg(target_os = "linux")]
mod gateways;
mod http;
mod ip;
mod lab;
#[cfg(target_os = "linux")]
mod names;
mod nc;
#[cfg(target_os = "linux")]
mod netns;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod nfs;
#[cfg(target_os = "linux")]
mod nfsd;
mod on_off;
mod output;
mod pages;
#[cfg(target_os = "linux")]
mod ping;
#[cfg(target_os = "linux")]
mod policy;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod rpcbind;
mod rpcinfo;
mod running;
#[cfg(target_os = "linux")]
mod services;
#[cfg(target_os = "linux")]
mod setup;
mod show;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod states;
mod table;
#[cfg(target_os = "linux")]
mod telnet;
#[cfg(target_os = "linux")]
mod telnetd;
#[cfg(target_os = "linux")]
mod terminal;
mod top;
mod trace;
mod ttcp;
mod units;
#[cfg(target_os = "linux")]
mod up;
#[cfg(target_os = "linux")]
mod wg;
#[cfg(target_os = "linux")]
mod wire;

use std::process::ExitCode;

use args::{Cli, Tool};
use clap::{CommandFactory, Parser};
pub(crate) use output::{Outcome, Usage};

/// The whole command line: all tools and options, with their help.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Run the command line of this process.
pub fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = router::daemon::worker(env!("WIRESPEED_VERSION")) {
        return code;
    }
    #[cfg(target_os = "linux")]
    if let Some(code) = gateways::child() {
        return code;
    }
    #[cfg(target_os = "linux")]
    if let Some(code) = compat::called() {
        return code;
    }
    if std::env::args_os().len() <= 1 {
        output::err(args::FIRST.trim_end());
        return output::exit_code(Ok(Outcome::Exit(2)));
    }
    let result = match parsed() {
        Ok(cli) => run(&cli.tool),
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            Ok(Outcome::Exit(if is_ip() { 1 } else { 2 }))
        }
        // The help or the version.
        Err(error) => output::written(error.print()).map(|_| Outcome::Done),
    };
    output::exit_code(result)
}

fn run(tool: &Tool) -> anyhow::Result<Outcome> {
    match tool {
        Tool::Ttcp(args) => ttcp::main(args),
        #[cfg(target_os = "linux")]
        Tool::Ping(args) => ping::main(args),
        #[cfg(target_os = "linux")]
        Tool::Services(args) => services::main(args),
        #[cfg(target_os = "linux")]
        Tool::Up(args) => Ok(Outcome::As(up::main(args))),
        #[cfg(target_os = "linux")]
        Tool::Wire(args) => wire::main(args),
        #[cfg(target_os = "linux")]
        Tool::Netns(args) => netns::main(args),
        #[cfg(target_os = "linux")]
        Tool::Gateway(args) => gateway::main(args),
        #[cfg(target_os = "linux")]
        Tool::Proxy(args) => proxy::main(args),
        #[cfg(target_os = "linux")]
        Tool::Wg(args) => wg::main(args),
        #[cfg(target_os = "linux")]
        Tool::Policy(args) => policy::main(args),
        #[cfg(target_os = "linux")]
        Tool::Setup(args) => setup::main(args),
        // `compat::called` has found these already.
        #[cfg(target_os = "linux")]
        Tool::Pasta(words) => Ok(Outcome::As(words.run("pasta"))),
        #[cfg(target_os = "linux")]
        Tool::Passt(words) => Ok(Outcome::As(words.run("passt"))),
        #[cfg(target_os = "linux")]
        Tool::Pesto(words) => Ok(Outcome::As(words.run("pesto"))),
        #[cfg(target_os = "linux")]
        Tool::Slirp4netns(words) => Ok(Outcome::As(words.run("slirp4netns"))),
        Tool::Rpcinfo(args) => rpcinfo::main(args),
        #[cfg(target_os = "linux")]
        Tool::Rpcbind(args) => rpcbind::main(args),
        #[cfg(target_os = "linux")]
        Tool::Telnet(args) => telnet::main(args),
        #[cfg(target_os = "linux")]
        Tool::Telnetd(args) => telnetd::main(args),
        #[cfg(target_os = "linux")]
        Tool::Nfsd(args) => nfsd::main(args),
        #[cfg(target_os = "linux")]
        Tool::Nfs(args) => nfs::main(args),
        Tool::Dump(args) => dump::main(args),
        Tool::Show(args) => show::main(args),
        Tool::Explain(args) => explain::main(args),
        #[cfg(target_os = "linux")]
        Tool::Filter(args) => filter::main(args),
        #[cfg(target_os = "linux")]
        Tool::States(args) => states::main(args),
        Tool::Ip(args) => ip::main(args),
        Tool::Nc(args) => nc::main(args),
        Tool::Top(args) => top::main(args),
        Tool::Trace(args) => trace::main(args),
        Tool::Lab(args) => lab::main(args),
        Tool::Man(args) => pages::man(args),
        Tool::Completions(args) => pages::completions(args),
    }
}

/// The command line; wrong options of `ip` end with 1, as those of ip(8), of other tools with 2.
fn parsed() -> Result<Cli, clap::Error> {
    Cli::try_parse_from(ip::normalised(std::env::args_os()))
}

fn is_ip() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == "ip")
}
