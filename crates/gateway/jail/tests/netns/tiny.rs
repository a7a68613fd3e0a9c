//! A gateway that answers pings at its addresses, and the launcher's command line.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use base::{Cidr, MacAddr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stack::{PortConfig, Stack, StackConfig};
use wirespeed_jail::{
    Attach, Attaching, Error, GatewayEnds, Inside, Launcher, Options, Sees, Served, Serving, User,
    launch as start,
};

/// Answer until the program has ended, or its link is gone.
pub(crate) fn gateway(ends: GatewayEnds) -> ExitCode {
    let GatewayEnds { link, network, launcher, settings, inside, descriptors, notes } = ends;
    let Some(link) = link else { return service(&launcher, &settings, descriptors, &notes) };
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
    stack.add_port(link, config);
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

/// A gateway without a program: it says what it sees and may do, and waits for its end. `settings`
/// is the path of a datagram socket.
fn service(
    launcher: &Launcher,
    settings: &str,
    mut descriptors: Vec<OwnedFd>,
    notes: &[String],
) -> ExitCode {
    let names = |entries: std::fs::ReadDir| entries.flatten().map(|entry| entry.file_name());
    let root: Vec<_> = std::fs::read_dir("/").into_iter().flat_map(names).collect();
    let mut report = File::from(descriptors.remove(0));
    let socket = UnixDatagram::unbound().expect("a socket");
    if launcher.ready().is_err() {
        return ExitCode::FAILURE;
    }
    let sent = socket.send_to(b"hello", settings).is_ok();
    let opened = File::open("/").err().and_then(|why| why.raw_os_error());
    let said = writeln!(report, "root {root:?} sent {sent} opened {opened:?} notes {notes:?}");
    said.expect("somebody reads");
    let fd = launcher.as_fd().expect("it can end");
    while !launcher.has_ended() {
        let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None);
    }
    ExitCode::SUCCESS
}

/// Serve: what the gateway sees (`all`, or folders separated by colons), and the path of a datagram
/// socket.
pub(crate) fn serve(arguments: &[OsString]) -> ExitCode {
    let [sees, socket] = arguments else { panic!("{arguments:?}") };
    let (sees, socket) = (sees.to_str().expect("text"), socket.to_str().expect("text"));
    let sees = match sees {
        "all" => Sees::All,
        folders => Sees::Folders(folders.split(':').map(PathBuf::from).collect()),
    };
    let report = std::io::stdout().as_fd().try_clone_to_owned().expect("a descriptor");
    let begun =
        Serving::start(&sees).and_then(|serving| serving.begin(socket.to_owned(), &[report], None));
    match begun.and_then(Served::wait) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(why.exit_code())
        }
    }
}

/// Connect the network of a process, print the gateway's number, and leave it.
fn attach(options: Options, pid: &str) -> ExitCode {
    let file = |name: &str| File::open(format!("/proc/{pid}/ns/{name}")).expect("it runs").into();
    let leaves = File::options().write(true).open("/dev/null").expect("it is there");
    let what = Attach {
        network: file("net"),
        user: Some(file("user")),
        options,
        mac: Some(MacAddr([2, 0, 0, 0, 0, 9])),
        may_be_tap: true,
        is_configured: true,
        has_tables: false,
        leaves: Some(leaves.into()),
    };
    let begun = Attaching::start();
    match begun.and_then(|begun| begun.begin(&what, &mut |note| eprintln!("note: {note}"))) {
        Ok(attached) => {
            println!("{}", attached.pid());
            attached.leave();
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
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
            ("attach", pid) => return attach(options, pid),
            other => panic!("{other:?}"),
        }
    }
    let ended: Result<u8, Error> = start(&options, &mut |note| eprintln!("note: {note}"));
    ExitCode::from(ended.unwrap_or_else(|why| {
        eprintln!("error: {why}");
        why.exit_code()
    }))
}
