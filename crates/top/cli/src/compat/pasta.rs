//! The drop-in `pasta`: connects a network namespace that is there, and stays in the background; or
//! runs a command in a new one.
//!
//! Called by: `compat.rs`. `args.rs` reads the options, `addresses.rs` makes addresses of them. It
//! returns when packets pass, because podman reads the interface's addresses then. Exit status as
//! of pasta: 1 for all errors.

pub(super) mod addresses;
pub(super) mod args;
mod help;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Parser;
use machine::parts::{Auto, Tool};

use self::args::{Args, Asked, Target};
use super::attach::{self, Network, Plan};
use super::ports::Spec;
use crate::gateways::Options;
use crate::output;

/// Sockets that are opened here, with this process's privileges; more are the gateway's work.
const HANDED_OVER_MAX: usize = 64;

/// The interface, if no option names it.
const INTERFACE: &str = "eth0";

/// Be `pasta`.
pub(super) fn main(name: &str, words: &[OsString]) -> ExitCode {
    let args = match args::read(words) {
        Ok(Asked::Help) => return output::exit_code(output::out(help::TEXT).map(|()| DONE)),
        Ok(Asked::Version) => return output::exit_code(output::out(&version(name)).map(|()| DONE)),
        Ok(Asked::Run(args)) => args,
        Err(why) => {
            output::err(&format!("{name}: {why}\nSee '{name} --help'."));
            return ExitCode::FAILURE;
        }
    };
    match run(name, &args) {
        Ok(code) => code,
        Err(why) => {
            output::err(&format!("{name}: {why:#}"));
            ExitCode::FAILURE
        }
    }
}

const DONE: crate::Outcome = crate::Outcome::Done;

/// The version: the first word and the form of the second are parsed by others.
pub(super) fn version(name: &str) -> String {
    let version = env!("WIRESPEED_VERSION");
    format!("{name} 0.0~wirespeed.{version}\nwirespeed in the place of {name}\n")
}

/// The options that all gateways have, on a line of their own.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(flatten)]
    options: Options,
}

/// Read options that a drop-in passes on.
///
/// # Errors
/// What is wrong, in one sentence.
pub(super) fn options(words: &[String]) -> Result<Options> {
    let parsed = Words::try_parse_from(words).map_err(|why| {
        let text = why.to_string();
        let text = text.trim_start_matches("error: ");
        anyhow!("{}", text.split("\n\n").next().unwrap_or(text))
    })?;
    parsed.options.check()?;
    Ok(parsed.options)
}

fn run(name: &str, args: &Args) -> Result<ExitCode> {
    if !args.quiet {
        for note in &args.notes {
            output::err(&format!("{name}: warning: {note}"));
        }
    }
    let mut options = with_ports(args)?;
    addresses::set(args, &mut options)?;
    options.fixed.interface = Some(args.interface.clone().unwrap_or_else(|| INTERFACE.to_owned()));
    let network = match &args.target {
        Target::Command(command) => return spawn(name, args, options, command),
        Target::Pid(pid) => Network::of_process(*pid, !args.netns_only)?,
        Target::Path(path) => {
            let user = args.userns.as_deref().filter(|_| !args.netns_only);
            Network::of_file(path, user, args.quits)?
        }
    };
    let is_auto = |specs: &[Spec]| specs.contains(&Spec::Auto);
    let plan = Plan {
        tool: Tool::Pasta,
        options: &options,
        interface: options.fixed.interface.clone().unwrap_or_default(),
        mac: args.mac,
        may_be_tap: true,
        is_configured: args.is_configured,
        serves: args.serves,
        to_host: to_host(args),
        auto: Auto { tcp: is_auto(&args.tcp), udp: is_auto(&args.udp) },
        api: None,
        leaves: (!args.foreground).then(|| args.log_file.clone()),
        is_quiet: args.quiet,
    };
    let attached = attach::begin(&plan, network)?;
    if let Some(path) = &args.pid_file {
        attach::write_pid(path, attached.pid())?;
    }
    if args.foreground {
        return Ok(ExitCode::from(attached.wait()?));
    }
    attached.leave();
    Ok(ExitCode::SUCCESS)
}

/// Ports inside that lead to ports of the host's loopback address.
fn to_host(args: &Args) -> Vec<(u16, u16)> {
    let ports = args.tcp_ns.iter().filter_map(|spec| match spec {
        Spec::Ports(all) => Some(all),
        Spec::None | Spec::Auto => None,
    });
    ports.flatten().flat_map(|forward| forward.pairs()).collect()
}

/// The options, with the published ports.
pub(super) fn with_ports(args: &Args) -> Result<Options> {
    let mut words = args.words.clone();
    let both = [(&args.tcp, false), (&args.udp, true)];
    let forwards: Vec<(String, usize)> = both
        .into_iter()
        .flat_map(|(specs, udp)| specs.iter().map(move |spec| (spec, udp)))
        .filter_map(|(spec, udp)| match spec {
            Spec::Ports(all) => {
                Some(all.iter().map(move |one| (one.publish(udp), one.pairs().count())))
            }
            Spec::None | Spec::Auto => None,
        })
        .flatten()
        .collect();
    let count: usize = forwards.iter().map(|(_, count)| count).sum();
    let forwards = forwards.into_iter().map(|(text, _)| text);
    if count <= HANDED_OVER_MAX {
        words.extend(forwards.map(|text| format!("--publish={text}")));
        return options(&words);
    }
    let mut options = options(&words)?;
    options.fixed.publish = forwards.collect();
    Ok(options)
}

/// Run a command, or a shell, in a network of its own.
fn spawn(name: &str, args: &Args, options: Options, command: &[OsString]) -> Result<ExitCode> {
    if let Some(path) = &args.pid_file {
        attach::write_pid(path, std::process::id())?;
    }
    let shell = || std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let command = if command.is_empty() { vec![shell()] } else { command.to_vec() };
    let to_host = to_host(args);
    if let Some((port, to)) = to_host.iter().find(|(port, to)| port != to) {
        bail!("-T {port}:{to}: a command's ports lead to the same ports of the host: -T {to}");
    }
    let to_host = to_host.into_iter().map(|(port, _)| port).collect();
    let netns = crate::netns::Args::for_command(options, to_host, command);
    crate::netns::run_as(name, &netns)
}
