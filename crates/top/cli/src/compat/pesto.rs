//! The drop-in `pesto`: adds, deletes and shows published ports of a running `pasta -c SOCKET`.
//!
//! Called by: `compat.rs`. The other end is `orders.rs` of crate `machine`; the protocol is ours.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use machine::parts::{Answer, Order};

use super::getopt::{Known, Order as Words, parse};
use super::ports::{self, Spec};
use crate::{Outcome, output};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

const KNOWN: &[Known] = &[
    Known::flag(Some('A'), "add"),
    Known::flag(Some('D'), "delete"),
    Known::with(Some('C'), "clear"),
    Known::with(Some('t'), "tcp-ports"),
    Known::with(Some('u'), "udp-ports"),
    Known::with(Some('T'), "tcp-ns"),
    Known::with(Some('U'), "udp-ns"),
    Known::flag(Some('s'), "show"),
    Known::flag(Some('d'), "debug"),
    Known::flag(Some('h'), "help"),
    Known::flag(None, "version"),
];

const HELP: &str = "\
Usage: pesto [OPTION]... SOCKET

wirespeed in the place of pesto: publishes ports of a running pasta, which was
started with -c SOCKET.

  -A, --add             Add the ports of the options that follow
  -D, --delete          Close the ports of the options that follow
                        Without either, the ports replace all others
  -C, --clear HOST      Close all ports
  -t, --tcp-ports SPEC  TCP ports: [ADDR[%IF]/]PORT[-PORT][:[GUEST/]PORT[-PORT]],..
                        or none
  -u, --udp-ports SPEC  UDP ports
  -s, --show            Show the ports before and after the change
  -h, --help            Print this
      --version         Print the version
Ignored: -d, --debug; -T, --tcp-ns none; -U, --udp-ns none.
";

/// Be `pesto`.
pub(super) fn main(name: &str, words: &[OsString]) -> ExitCode {
    let asked = match read(words) {
        Ok(asked) => asked,
        Err(why) => {
            output::err(&format!("{name}: {why}\nSee '{name} --help'."));
            return ExitCode::FAILURE;
        }
    };
    let done = match asked {
        Asked::Help => output::out(HELP),
        Asked::Version => output::out(&super::pasta::version(name)),
        Asked::Run(args) => run(&args),
    };
    match done {
        Ok(()) => output::exit_code(Ok(Outcome::Done)),
        Err(why) => {
            output::err(&format!("{name}: {why:#}"));
            ExitCode::FAILURE
        }
    }
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Help,
    Version,
    Run(Args),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Args {
    socket: PathBuf,
    orders: Vec<Order>,
    shows: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Replace,
    Add,
    Delete,
}

fn read(words: &[OsString]) -> Result<Asked, String> {
    let line = parse(KNOWN, Words::Anywhere, words)?;
    let (mut args, mut mode, mut has_cleared) = (Args::default(), Mode::Replace, false);
    for (name, value) in &line.options {
        match name.as_str() {
            "help" => return Ok(Asked::Help),
            "version" => return Ok(Asked::Version),
            "add" => mode = Mode::Add,
            "delete" => mode = Mode::Delete,
            "clear" => args.orders.push(Order::Clear),
            "show" => args.shows = true,
            "tcp-ports" | "udp-ports" => {
                if mode == Mode::Replace && !std::mem::replace(&mut has_cleared, true) {
                    args.orders.push(Order::Clear);
                }
                let spec = ports::parse(value)?;
                args.orders.extend(orders(&spec, name == "udp-ports", mode)?);
            }
            "tcp-ns" | "udp-ns" if !matches!(ports::parse(value)?, Spec::None) => {
                return Err(format!("--{name}: ports inside are those of pasta's own options"));
            }
            _ => {}
        }
    }
    match line.rest.as_slice() {
        [socket] => args.socket = socket.into(),
        _ => return Err("give the path of one socket, that of `pasta -c`".to_owned()),
    }
    Ok(Asked::Run(args))
}

fn orders(spec: &Spec, udp: bool, mode: Mode) -> Result<Vec<Order>, String> {
    let order = |text: String| match mode {
        Mode::Delete => Order::Delete(text),
        Mode::Add | Mode::Replace => Order::Add(text),
    };
    match spec {
        Spec::None => Ok(Vec::new()),
        Spec::Auto => Err("auto is for pasta's own options: name ports".to_owned()),
        Spec::Ports(all) => Ok(all.iter().map(|one| order(one.publish(udp))).collect()),
    }
}

fn run(args: &Args) -> Result<()> {
    let path = args.socket.display();
    let stream = UnixStream::connect(&args.socket);
    let stream = stream.with_context(|| format!("no pasta is reached at {path}"))?;
    stream.set_read_timeout(Some(PATIENCE)).context("the socket is no good")?;
    let mut answers = BufReader::new(stream.try_clone().context("no descriptor is left")?);
    let mut ask = |order: &Order| -> Result<Answer> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        (&stream).write_all(&line).context("pasta has ended")?;
        let mut text = String::new();
        answers.read_line(&mut text).context("pasta does not answer")?;
        serde_json::from_str(&text).context("pasta has ended, or it is not wirespeed's")
    };
    let is_shown = args.shows || args.orders.is_empty();
    let show = |ask: &mut dyn FnMut(&Order) -> Result<Answer>| match ask(&Order::Show)? {
        Answer::Ports(all) => {
            output::out(&all.iter().map(|l| format!("{l}\n")).collect::<String>())
        }
        _ => Ok(()),
    };
    if is_shown {
        show(&mut ask)?;
    }
    for order in &args.orders {
        if let Answer::Failed(why) = ask(order)? {
            bail!("{why}");
        }
    }
    if is_shown && !args.orders.is_empty() {
        show(&mut ask)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Asked, String> {
        let words: Vec<OsString> = text.split_ascii_whitespace().map(OsString::from).collect();
        read(&words)
    }

    #[test]
    fn podman_s_lines() {
        let add = |text: &str| Order::Add(text.to_owned());
        let orders = |text: &str| match asked(text) {
            Ok(Asked::Run(args)) => args.orders,
            other => panic!("{text}: {other:?}"),
        };
        let added = orders("-A -t 127.0.0.1/8080:10.88.0.2/80 -u 53 /run/pesto");
        assert_eq!(added, [add("127.0.0.1/8080-8080:10.88.0.2:80-80"), add("53-53:53-53/udp")]);
        let deleted = orders("-D -t 8080 /run/pesto");
        assert_eq!(deleted, [Order::Delete("8080-8080:8080-8080".to_owned())]);
        assert_eq!(orders("-t 1 -t 2 x"), [Order::Clear, add("1-1:1-1"), add("2-2:2-2")]);
        assert_eq!(orders("-t none x"), [Order::Clear]);
        assert_eq!(orders("-s x"), []);
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, says) in [
            ("", "one socket"),
            ("a b", "one socket"),
            ("--x a", "unrecognized option '--x'"),
            ("-A -t auto a", "name ports"),
            ("-A -T 80 a", "pasta's own"),
            ("-A -t x a", "no port"),
        ] {
            let why = asked(text).expect_err("a mistake");
            assert!(why.contains(says), "{text}: {why}");
        }
        assert!(KNOWN.iter().all(|known| HELP.contains(&format!("--{}", known.long))));
    }
}
