//! A gateway that answers pings at its addresses, and the launcher's command line.

use std::ffi::OsString;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Instant;

use base::{Cidr, MacAddr};
use device::Device;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stack::{PortConfig, Stack, StackConfig};
use wirespeed_jail::{Error, GatewayEnds, Inside, Options, User, launch as start};

/// Answer until the program has ended, or its link is gone.
pub(crate) fn gateway(ends: GatewayEnds) -> ExitCode {
    let GatewayEnds { link, network, launcher, settings, inside, descriptors } = ends;
    if settings == "fail" {
        launcher.failed(&"the tiny gateway was asked to fail: ask it not to");
        return ExitCode::FAILURE;
    }
    let Some(fd) = link.as_fd().and_then(|fd| fd.try_clone_to_owned().ok()) else {
        return ExitCode::FAILURE;
    };
    let addresses = ["10.0.2.2/24", "fd77::2/64"].map(|text| text.parse::<Cidr>().expect("it is"));
    let mut stack = Stack::new(StackConfig::new([45, 77]));
    let mac = MacAddr([2, 0, 0, 0, 0, 2]);
    let config = PortConfig { mac, addresses: addresses.to_vec(), answer_all: false };
    stack.add_port(Box::new(link), config);
    if launcher.ready().is_err() {
        return ExitCode::FAILURE;
    }
    let began = Instant::now();
    while !launcher.has_ended() {
        let now = base::Instant::from_nanos(began.elapsed().as_nanos() as u64);
        stack.poll(now);
        let mut asked = vec![PollFd::new(&fd, PollFlags::IN)];
        asked.extend(launcher.as_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let left = stack.next_deadline().as_nanos().saturating_sub(now.as_nanos());
        let left = left.min(3_600_000_000_000);
        let patience = Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        };
        let _ = poll(&mut asked, Some(&patience));
        if asked[0].revents().contains(PollFlags::ERR) {
            stack.check_links();
            if launcher.keeps() {
                break;
            }
        }
    }
    drop((network, inside, descriptors));
    ExitCode::SUCCESS
}

/// Launch: options, `--`, the command.
pub(crate) fn launch(arguments: Vec<OsString>) -> ExitCode {
    let mut parts = arguments.splitn(2, |argument| argument == "--");
    let (asked, command) = (parts.next().unwrap_or(&[]), parts.next().unwrap_or(&[]));
    let mut options = Options::new(command);
    options.addresses.extend("fd77::100/64".parse::<Cidr>());
    options.gateways.push("fd77::2".parse::<IpAddr>().expect("it is"));
    for text in asked.iter().filter_map(|text| text.to_str()) {
        match text.split_once('=').unwrap_or((text, "")) {
            ("pid", _) => options.pid = true,
            ("keep", _) => options.keep = true,
            ("root", _) => options.user = User::Root,
            ("hide", path) => options.hide.push(path.into()),
            ("resolv", text) => {
                options.files.push(("/etc/resolv.conf".into(), format!("nameserver {text}\n")));
            }
            ("inside", at) => {
                let at = at.parse().expect("an address and a port");
                options.inside.push(Inside { udp: false, at });
            }
            ("settings", text) => options.settings = text.to_owned(),
            ("interface", name) => options.interface = name.to_owned(),
            other => panic!("{other:?}"),
        }
    }
    let ended: Result<u8, Error> = start(&options, &mut |note| eprintln!("note: {note}"));
    ExitCode::from(ended.unwrap_or_else(|why| {
        eprintln!("error: {why}");
        why.exit_code()
    }))
}
