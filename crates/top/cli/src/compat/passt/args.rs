//! The command line of passt(1), as of 2026: the options that it shares with pasta, and its own.
//!
//! Called by: `passt.rs`. `help.rs` has the text of `--help`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::super::getopt::{Known, Order, parse};
use super::super::pasta::args::{self as shared, KNOWN};
use super::super::ports::Spec;

/// Options of passt that pasta does not have.
const OWN: &[Known] = &[
    Known::with(Some('s'), "socket"),
    Known::with(None, "socket-path"),
    Known::with(Some('F'), "fd"),
    Known::flag(Some('1'), "one-off"),
    Known::flag(None, "vhost-user"),
    Known::flag(None, "print-capabilities"),
    Known::with(None, "repair-path"),
    Known::flag(None, "migrate-exit"),
    Known::flag(None, "migrate-no-linger"),
];

/// Options of pasta that passt does not have.
const OF_PASTA: &[&str] = &[
    "ns-ifname",
    "tcp-ns",
    "udp-ns",
    "host-lo-to-ns-lo",
    "userns",
    "netns",
    "netns-only",
    "no-netns-quit",
    "no-pidns",
    "config-net",
    "no-copy-routes",
    "no-copy-addrs",
    "ns-mac-addr",
    "no-splice",
    "splice-only",
];

/// The command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Args {
    pub(super) shared: shared::Args,
    /// Where the machine connects; `None`: the first free one of 64 paths.
    pub(super) socket: Option<PathBuf>,
    /// A socket that is connected to the machine.
    pub(super) fd: Option<i32>,
    /// End with the first machine.
    pub(super) is_one_off: bool,
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Help,
    Version,
    /// The abilities of a vhost-user backend.
    Capabilities,
    Run(Box<Args>),
}

/// Read a command line.
///
/// # Errors
/// What is wrong: with the options in the words of getopt_long(3).
pub(super) fn read(words: &[OsString]) -> Result<Asked, String> {
    let of_both = KNOWN.iter().filter(|known| !OF_PASTA.contains(&known.long));
    let known: Vec<Known> = OWN.iter().chain(of_both).copied().collect();
    let line = parse(&known, Order::Anywhere, words)?;
    for (name, _) in &line.options {
        match name.as_str() {
            "help" => return Ok(Asked::Help),
            "version" => return Ok(Asked::Version),
            "print-capabilities" => return Ok(Asked::Capabilities),
            _ => {}
        }
    }
    if let Some(word) = line.rest.first() {
        return Err(format!("'{}' is no option, and passt has no other words", word.display()));
    }
    let mut args = Args::default();
    args.shared.serves.dns = true;
    for (name, value) in &line.options {
        args.option(name, value)?;
    }
    args.check()
}

impl Args {
    fn option(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "socket" | "socket-path" => self.socket = Some(value.into()),
            "fd" => {
                let number = value.parse().ok().filter(|number| *number > 2);
                self.fd = Some(number.ok_or_else(|| format!("Invalid --fd: {value}"))?);
            }
            "one-off" => self.is_one_off = true,
            "vhost-user" => {
                return Err("--vhost-user is not there yet: leave it out, and give QEMU -netdev \
                            stream"
                    .to_owned());
            }
            "repair-path" | "migrate-exit" | "migrate-no-linger" => {}
            // A machine that is told no MTU has this one.
            "mtu" if value == "0" => self.shared.option("mtu", "1500")?,
            "dns" if value.is_empty() || value == "none" => self.shared.serves.dns = false,
            _ => self.shared.option(name, value)?,
        }
        Ok(())
    }

    fn check(self) -> Result<Asked, String> {
        let shared = &self.shared;
        if !shared.versions.v4 && !shared.versions.v6 {
            return Err("--ipv4-only and --ipv6-only leave no network: drop one".to_owned());
        }
        if self.fd.is_some() && self.socket.is_some() {
            return Err("--fd and --socket: give one of them".to_owned());
        }
        if shared.tcp.iter().chain(&shared.udp).any(|spec| *spec == Spec::Auto) {
            return Err("'auto' is for pasta: give ports, such as -t 8080:80".to_owned());
        }
        Ok(Asked::Run(Box::new(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Asked, String> {
        let words: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        read(&words)
    }

    fn args(text: &str) -> Args {
        match asked(text) {
            Ok(Asked::Run(args)) => *args,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn qemus_line_is_understood() {
        let args = args(
            "--quiet --mtu 9000 --address 10.1.2.15 --netmask 24 --gateway 10.1.2.2 --no-map-gw \
             --tcp-ports 18080:80 --udp-ports 53 --fd 3 --pid /run/vm.pid",
        );
        assert_eq!((args.fd, args.socket, args.shared.quiet), (Some(3), None, true));
        assert_eq!(args.shared.pid_file, Some("/run/vm.pid".into()));
        assert_eq!(args.shared.prefix_len, Some(24));
        assert_eq!((args.shared.tcp.len(), args.shared.udp.len()), (1, 1));
        assert!(args.shared.serves.dns && !args.shared.foreground);
    }

    #[test]
    fn libvirts_line_is_understood() {
        let args = args(
            "--one-off --socket /run/vm.sock --pid /run/vm.pid --log-file /tmp/log \
             --interface eth0 --address 172.17.2.4 --netmask 24 --address 2001:db8:ac10:fd01::20 \
             --tcp-ports 2001:db8:ac10:fd01::1:10/22:2022,~2023-2024 --udp-ports 1.2.3.4%eth0/5",
        );
        assert!(args.is_one_off);
        assert_eq!(args.socket, Some("/run/vm.sock".into()));
        assert_eq!(args.shared.addresses.len(), 2);
    }

    #[test]
    fn mistakes_are_those_of_passt_or_say_what_to_do() {
        for (text, says) in [
            ("--nonsense", "unrecognized option '--nonsense'"),
            ("--netns x", "unrecognized option '--netns'"),
            ("-T 80", "invalid option -- 'T'"),
            ("--fd 2", "Invalid --fd: 2"),
            ("--fd x", "Invalid --fd: x"),
            ("--fd 3 -s /tmp/x", "give one of them"),
            ("-t auto", "'auto' is for pasta"),
            ("--vhost-user", "-netdev stream"),
            ("-4 -6", "leave no network"),
            ("vm", "'vm' is no option"),
            ("--socket", "option '--socket' requires an argument"),
        ] {
            let why = asked(text).expect_err("a mistake");
            assert!(why.contains(says), "{text}: {why}");
        }
        assert_eq!(asked("-q -h --nonsense"), asked("--nonsense"));
        assert_eq!(asked("--version"), Ok(Asked::Version));
        assert_eq!(asked("--print-capabilities"), Ok(Asked::Capabilities));
        assert!(!args("-D none").shared.serves.dns);
        assert_eq!(args("-m 0").shared.words, ["--mtu=1500"]);
    }
}
