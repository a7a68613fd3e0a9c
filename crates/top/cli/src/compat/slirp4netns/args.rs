//! The command line of slirp4netns(1), version 1.3.
//!
//! Called by: `slirp4netns.rs`.

use std::ffi::OsString;
use std::path::PathBuf;

use wirespeed::MacAddr;

use super::super::getopt::{Known, Order, parse};

const KNOWN: &[Known] = &[
    Known::flag(Some('c'), "configure"),
    Known::with(Some('e'), "exit-fd"),
    Known::with(Some('r'), "ready-fd"),
    Known::with(Some('m'), "mtu"),
    Known::flag(Some('6'), "enable-ipv6"),
    Known::with(Some('a'), "api-socket"),
    Known::with(None, "cidr"),
    Known::flag(None, "disable-host-loopback"),
    Known::with(None, "netns-type"),
    Known::with(None, "userns-path"),
    Known::flag(None, "enable-sandbox"),
    Known::flag(None, "create-sandbox"),
    Known::flag(None, "enable-seccomp"),
    Known::with(None, "outbound-addr"),
    Known::with(None, "outbound-addr6"),
    Known::flag(None, "disable-dns"),
    Known::with(None, "macaddress"),
    Known::with(None, "target-type"),
    Known::flag(Some('h'), "help"),
    Known::flag(Some('v'), "version"),
];

/// `--help`. podman and rootlesskit look for these options in it.
pub(super) const HELP: &str = "\
Usage: slirp4netns [OPTION]... PID|PATH [TAPNAME]
wirespeed in the place of slirp4netns: gives a network namespace a private
network whose only way out is our stack.

-c, --configure          bring up the interface, with addresses and routes
-e, --exit-fd=FD         end when this descriptor's other end is closed
-r, --ready-fd=FD        write to this descriptor when the network is there
-m, --mtu=MTU            MTU (default=1500, max=65520)
-6, --enable-ipv6        enable IPv6
-a, --api-socket=PATH    take requests at this Unix socket: add_hostfwd,
                         list_hostfwd, remove_hostfwd
--cidr=CIDR              network (default=10.0.2.0/24)
--disable-host-loopback  10.0.2.2 does not lead to the host's 127.0.0.1
--netns-type=TYPE        the target is a path or a pid ([path|pid], default=pid)
--userns-path=PATH       user namespace to enter, for a path
--disable-dns            no resolver at 10.0.2.3
--macaddress=MAC         hardware address of the interface
-h, --help               show this help and exit
-v, --version            show version and exit

Always so, whether given or not: --enable-sandbox, --enable-seccomp.
Ignored: --outbound-addr=IPv4, --outbound-addr6=IPv6 (the host's routes decide),
--create-sandbox, --target-type=netns.
If there is a TAP of the name TAPNAME it is used; else a veth interface is made.
";

/// What the target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pid,
    Path,
    TapFd,
}

/// The command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Args {
    pub(super) target: String,
    pub(super) kind: Kind,
    pub(super) interface: String,
    pub(super) userns: Option<PathBuf>,
    pub(super) is_configured: bool,
    pub(super) exit_fd: Option<i32>,
    pub(super) ready_fd: Option<i32>,
    pub(super) api_socket: Option<PathBuf>,
    pub(super) disable_host_loopback: bool,
    pub(super) disable_dns: bool,
    pub(super) mac: Option<MacAddr>,
    /// Words for the options that all gateways have.
    pub(super) words: Vec<String>,
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Help,
    Version,
    Run(Box<Args>),
}

/// Read a command line.
///
/// # Errors
/// What is wrong: with the options in the words of getopt_long(3).
pub(super) fn read(words: &[OsString]) -> Result<Asked, String> {
    let line = parse(KNOWN, Order::Anywhere, words)?;
    let mut args = Args {
        target: String::new(),
        kind: Kind::Pid,
        interface: "tap0".to_owned(),
        userns: None,
        is_configured: false,
        exit_fd: None,
        ready_fd: None,
        api_socket: None,
        disable_host_loopback: false,
        disable_dns: false,
        mac: None,
        words: Vec::new(),
    };
    let (mut mtu, mut has_v6) = ("1500".to_owned(), false);
    for (name, value) in &line.options {
        match name.as_str() {
            "help" => return Ok(Asked::Help),
            "version" => return Ok(Asked::Version),
            "configure" => args.is_configured = true,
            "exit-fd" => args.exit_fd = Some(descriptor(name, value)?),
            "ready-fd" => args.ready_fd = Some(descriptor(name, value)?),
            // The most that slirp4netns permits is a byte longer than a frame of ours.
            "mtu" => mtu = if value == "65521" { "65520".to_owned() } else { value.clone() },
            "enable-ipv6" => has_v6 = true,
            "api-socket" => args.api_socket = Some(value.into()),
            "cidr" => args.words.push(format!("--net4={value}")),
            "disable-host-loopback" => args.disable_host_loopback = true,
            "disable-dns" => args.disable_dns = true,
            "userns-path" => args.userns = Some(value.into()),
            "netns-type" => args.kind = kind(value)?,
            "macaddress" => args.mac = Some(mac(value)?),
            "target-type" if value != "netns" => {
                return Err(format!("target type {value} is not there: leave --target-type out"));
            }
            // The rest means nothing here: --help says so.
            _ => {}
        }
    }
    args.words.push(format!("--mtu={mtu}"));
    if !has_v6 {
        args.words.push("--net6=off".to_owned());
    }
    if args.disable_dns {
        args.words.push("--dns=off".to_owned());
    }
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    match line.rest.as_slice() {
        [target] => args.target = text(target),
        [target, interface] => (args.target, args.interface) = (text(target), text(interface)),
        [] => return Err("a PID or a PATH is missing".to_owned()),
        [_, _, word, ..] => return Err(format!("too many words: leave '{}' out", word.display())),
    }
    if args.interface.len() > 15 || args.interface.is_empty() {
        return Err(format!("'{}' is no name of an interface", args.interface));
    }
    Ok(Asked::Run(Box::new(args)))
}

fn descriptor(name: &str, value: &str) -> Result<i32, String> {
    let number = value.parse().ok().filter(|&number: &i32| number >= 0);
    number.ok_or_else(|| format!("--{name} needs the number of an open descriptor, not '{value}'"))
}

fn kind(text: &str) -> Result<Kind, String> {
    match text {
        "pid" => Ok(Kind::Pid),
        "path" => Ok(Kind::Path),
        "tapfd" => Ok(Kind::TapFd),
        _ => Err(format!("--netns-type is path or pid, not '{text}'")),
    }
}

fn mac(text: &str) -> Result<MacAddr, String> {
    text.parse().map_err(|_| format!("'{text}' is no hardware address: write 02:00:00:00:00:01"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Asked, String> {
        let words: Vec<OsString> = text.split_ascii_whitespace().map(OsString::from).collect();
        read(&words)
    }

    #[test]
    fn podman_s_line() {
        let line = "--disable-host-loopback --mtu=65520 --enable-sandbox --enable-seccomp \
                    --enable-ipv6 -c -r 3 -e 4 --netns-type=path /run/user/1000/netns/x tap0";
        let Ok(Asked::Run(args)) = asked(line) else { panic!("{:?}", asked(line)) };
        assert_eq!((args.kind, args.target.as_str()), (Kind::Path, "/run/user/1000/netns/x"));
        assert_eq!((args.ready_fd, args.exit_fd), (Some(3), Some(4)));
        assert!(args.is_configured && args.disable_host_loopback);
        assert_eq!(args.words, ["--mtu=65520"]);
    }

    #[test]
    fn rootlesskit_s_line() {
        let line = "--mtu 65521 -r 3 --disable-host-loopback --cidr 10.0.3.0/24 4711 tap0";
        let Ok(Asked::Run(args)) = asked(line) else { panic!("{:?}", asked(line)) };
        assert_eq!((args.kind, args.target.as_str()), (Kind::Pid, "4711"));
        assert_eq!(args.words, ["--net4=10.0.3.0/24", "--mtu=65520", "--net6=off"]);
    }

    #[test]
    fn the_help_has_the_words_that_callers_look_for() {
        for word in [
            "--disable-host-loopback",
            "--mtu",
            "--enable-sandbox",
            "--enable-seccomp",
            "--cidr",
            "--outbound-addr",
            "--enable-ipv6",
            "--netns-type",
            "--api-socket",
        ] {
            assert!(HELP.contains(word), "{word}");
        }
        assert!(KNOWN.iter().all(|known| HELP.contains(&format!("--{}", known.long))));
        assert_eq!(asked("-h"), Ok(Asked::Help));
        assert_eq!(asked("1 --version"), Ok(Asked::Version));
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, says) in [
            ("", "PID or a PATH"),
            ("1 tap0 x", "'x'"),
            ("--x 1", "unrecognized option '--x'"),
            ("-r x 1", "descriptor"),
            ("--netns-type=x 1", "path or pid"),
            ("--macaddress=x 1", "hardware address"),
            ("--target-type=bess 1", "target type"),
            ("1 a-name-of-sixteen", "interface"),
        ] {
            let why = asked(text).expect_err("a mistake");
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
