//! `wirespeed rpcbind` and `rpcinfo` beside Debian's rpcinfo, which asks by version 4, over UDP,
//! TCP and the socket of the machine. The port mapper has a `/run` of its own for that socket.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Need, Running, ip, until};

pub(crate) const CASES: &[Case] = &[
    (
        "debians_rpcinfo_has_all_that_it_asks_of_our_port_mapper",
        &[Need::RPCINFO, Need::UNSHARE],
        debians,
    ),
    ("rpcinfo_takes_programs_by_name", &[Need::UNSHARE], by_name),
];

const WIRESPEED: &str = env!("CARGO_BIN_EXE_wirespeed");
const TIMEOUT: Duration = Duration::from_secs(20);

/// A port mapper at loopback and at an address that is none.
fn mapper() -> Running {
    assert!(ip("link set lo up") && ip("addr add 192.0.2.1/24 dev lo"));
    // A `/run` that nobody else has.
    let script = format!("mount -t tmpfs run /run && exec {WIRESPEED} rpcbind");
    let running = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Running)
        .expect("it starts");
    let answers = || run(&[WIRESPEED, "rpcinfo", "-p"]).status.success();
    assert!(until(TIMEOUT, answers), "the port mapper does not answer");
    running
}

fn run(words: &[&str]) -> Output {
    Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output().expect("it starts")
}

fn debians() {
    let running = mapper();
    // rpcinfo runs in the `/run` of the port mapper.
    let pid = running.0.id().to_string();
    let debian = |words: &[&str]| run(&[&["nsenter", "-m", "-t", &pid, "rpcinfo"], words].concat());
    let ask = |words: &str| {
        let output = debian(&words.split(' ').collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "rpcinfo {words}: {output:?}");
        text
    };
    let all = ask("-p 192.0.2.1");
    assert!(all.contains("100000    4   tcp    111  portmapper"), "{all}");
    let list = ask("-l 192.0.2.1 100000 4");
    assert!(list.contains("192.0.2.1.0.111"), "{list}");
    let counters = ask("-m 192.0.2.1");
    assert!(counters.contains("PORTMAP") || counters.contains("RPCBIND"), "{counters}");
    ask("-s 192.0.2.1");
    ask("-t 192.0.2.1 100000 4");
    ask("-u 127.0.0.1 portmapper");
    // Without a host rpcinfo asks at the socket.
    let own = debian(&[]);
    let text = String::from_utf8_lossy(&own.stdout).into_owned();
    assert!(text.contains("local") && text.contains("/run/rpcbind.sock"), "{own:?}");
    let (code, text, _) = running.end_by(Signal::INT);
    assert_eq!(code, 0);
    assert!(text.contains("/run/rpcbind.sock"), "{text}");
}

fn by_name() {
    let _mapper = mapper();
    let ask = |words: &[&str]| run(&[&[WIRESPEED], words].concat());
    for program in ["portmapper", "rpcbind", "100000"] {
        let output = ask(&["rpcinfo", "-t", "127.0.0.1", program, "4"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "program 100000 version 4 ready and waiting\n", "{output:?}");
    }
    let output = ask(&["rpcinfo", "-t", "127.0.0.1", "no-such-program"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains("give its number"), "{error}");
}
