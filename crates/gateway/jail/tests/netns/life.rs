//! How the three processes end: exit statuses, signals, job control, and the death of each.

use std::os::unix::process::CommandExt;

use nix::sys::signal::{SigSet, Signal as Number};
use rustix::process::{Signal, kill_process_group};
use testbed::{Case, Need, Running, until};

use crate::world::{
    Launched, NEEDS, SOON, as_user, command, has_ended, kill, launcher, run, sh, status,
};

const WITH_UNSHARE: &[Need] = &[Need::SETPRIV, Need::UNSHARE];

pub(crate) const CASES: &[Case] = &[
    ("exit_statuses_are_the_programs", NEEDS, statuses),
    ("a_gateway_that_fails_says_why", NEEDS, failing),
    ("signals_reach_the_program", NEEDS, signals),
    ("ignored_signals_stay_ignored", NEEDS, ignored),
    ("a_blocked_report_of_ends_blocks_nothing", NEEDS, blocked),
    ("the_terminal_stops_and_continues_all", NEEDS, jobs),
    ("the_gateway_has_nothing", NEEDS, confined),
    ("a_killed_launcher_ends_both", NEEDS, launcher_killed),
    ("a_killed_gateway_ends_both", NEEDS, gateway_killed),
    ("a_killed_program_ends_all", NEEDS, program_killed),
    ("what_a_program_leaves_ends_with_its_namespace", NEEDS, leftovers),
    ("keep_waits_for_the_last_process", NEEDS, keep),
    ("no_namespaces_is_one_sentence", WITH_UNSHARE, refused),
    ("a_read_only_run_is_no_obstacle", WITH_UNSHARE, read_only),
    ("too_few_descriptors_are_one_sentence", NEEDS, few_descriptors),
];

fn statuses() {
    for options in ["", "pid", "root"] {
        let of = |command: &[&str]| run(options, command);
        assert_eq!(of(&["true"]).0, 0);
        assert_eq!(of(&["sh", "-c", "exit 3"]).0, 3);
        // It makes a process group of its own.
        assert_eq!(of(&["timeout", "60", "sh", "-c", "exit 4"]).0, 4);
        assert_eq!(of(&["sh", "-c", "kill -9 $$"]).0, 137);
        let (code, _, err) = of(&["no-such-program"]);
        assert!(code == 127 && err.contains("no-such-program: not found"), "{code} {err}");
        let (code, _, err) = of(&["/etc/passwd"]);
        assert!(code == 126 && err.contains("cannot be executed"), "{code} {err}");
        let (code, _, err) = of(&[]);
        assert!(code == 125 && err.contains("give a program"), "{code} {err}");
    }
}

fn failing() {
    let (code, _, err) = run("settings=fail", &["sleep", "1000"]);
    assert!(code == 125 && err.contains("asked to fail"), "{code} {err}");
}

fn signals() {
    for options in ["", "pid"] {
        let script = "trap 'exit 5' TERM; trap 'exit 6' USR1; echo begun; \
                      while :; do sleep 0.1; done";
        for (signal, status) in [(Signal::TERM, 5), (Signal::USR1, 6)] {
            let mut run = command(options, &["sh", "-c", script]);
            let mut running = Running(run.spawn().expect("it starts"));
            let mut line = [0; 6];
            let out = running.0.stdout.as_mut().expect("piped");
            std::io::Read::read_exact(out, &mut line).expect("it begins");
            let pid = rustix::process::Pid::from_child(&running.0);
            kill(pid, Signal::INT);
            kill(pid, signal);
            let (code, _, err) = running.end();
            assert_eq!((code, err.as_str()), (status, ""), "{options}");
        }
    }
}

fn ignored() {
    let line = launcher("");
    let script = format!("trap '' HUP; {line} grep SigIgn /proc/self/status");
    let out = as_user("sh").args(["-c", &script]).output().expect("it starts");
    let out = String::from_utf8_lossy(&out.stdout).into_owned();
    let set = u64::from_str_radix(out.trim_start_matches("SigIgn:").trim(), 16).expect("a set");
    assert_eq!(set & 1, 1, "{out}");
}

/// A program that reads SIGCHLD from a descriptor has it blocked, and may start a launcher.
fn blocked() {
    let set = SigSet::from_iter([Number::SIGCHLD]);
    for options in ["", "pid", "keep pid"] {
        set.thread_block().expect("a signal");
        let started = command(options, &["sh", "-c", "(sleep 0.1 &); exit 4"]).spawn();
        set.thread_unblock().expect("a signal");
        let mut running = Running(started.expect("it starts"));
        let ends = until(SOON, || running.0.try_wait().expect("a child").is_some());
        assert!(ends, "{options}: it waits for ever");
        let (code, _, err) = running.end();
        assert_eq!((code, err.as_str()), (4, ""), "{options}");
    }
}

/// Signals of a terminal, which go to the whole process group.
fn jobs() {
    for options in ["", "pid"] {
        let mut grouped = command(options, &["sleep", "1000"]);
        grouped.process_group(0);
        let launched = Launched::start(grouped);
        let group = launched.launcher();
        kill_process_group(group, Signal::TSTP).expect("it runs");
        let is_stopped = || status(launched.launcher(), "State").starts_with('T');
        assert!(until(SOON, is_stopped), "{options}: the shell gets the terminal back");
        assert!(!status(launched.gateway, "State").starts_with('T'));
        kill_process_group(group, Signal::CONT).expect("it is stopped");
        assert!(until(SOON, || !is_stopped()));
        kill_process_group(group, Signal::INT).expect("it runs");
        let (code, _, err) = launched.running.end();
        assert_eq!((code, err.as_str()), (130, ""), "{options}");
    }
}

fn confined() {
    let launched = Launched::start(command("", &["sleep", "1000"]));
    for (key, value) in [
        ("CapEff", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        assert_eq!(status(launched.gateway, key), value, "{key}");
    }
    if rustix::process::geteuid().is_root() {
        let root = format!("/proc/{}/root/", launched.gateway.as_raw_nonzero());
        let files = std::fs::read_dir(&root).expect("root may look").count();
        assert_eq!(files, 0);
    }
    kill(launched.launcher(), Signal::TERM);
    assert_eq!(launched.running.end().0, 143);
}

fn launcher_killed() {
    for options in ["", "pid"] {
        let launched = Launched::start(command(options, &["sleep", "1000"]));
        let (gateway, program) = (launched.gateway, launched.program);
        kill(launched.launcher(), Signal::KILL);
        assert!(until(SOON, || has_ended(gateway) && has_ended(program)), "{options}");
    }
}

fn gateway_killed() {
    let launched = Launched::start(command("", &["sleep", "1000"]));
    let program = launched.program;
    kill(launched.gateway, Signal::KILL);
    let (code, _, err) = launched.running.end();
    assert!(code == 125 && err.contains("the gateway ended (signal 9)"), "{code} {err}");
    assert!(has_ended(program));
}

fn program_killed() {
    let launched = Launched::start(command("", &["sleep", "1000"]));
    let gateway = launched.gateway;
    kill(launched.program, Signal::KILL);
    let (code, _, err) = launched.running.end();
    assert_eq!((code, err.as_str()), (137, ""));
    assert!(has_ended(gateway));
}

fn leftovers() {
    // The number is one of the outer namespace, for the marker is searched from outside.
    let marker = format!("{}", 100_000 + std::process::id());
    sh("pid", &format!("sleep {marker} > /dev/null 2>&1 &"));
    let left = || {
        let folder = std::fs::read_dir("/proc").expect("it is there").flatten();
        let mut lines = folder.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.any(|line| line == format!("sleep\0{marker}\0").as_bytes())
    };
    assert!(!left(), "the launcher's end is the end of all");
}

fn keep() {
    for options in ["keep", "keep pid"] {
        // The second process speaks when the shell is gone.
        let late = "while kill -0 $$ 2> /dev/null; do sleep 0.05; done; echo late";
        let out = sh(options, &format!("({late}) & echo early"));
        assert_eq!(out, "early\nlate\n", "{options}");
    }
}

fn refused() {
    let netns = launcher("");
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces; exec {netns} true");
    let mut unshare = as_user("unshare");
    let output = unshare.args(["-Ur", "sh", "-c", &script]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("sudo sysctl user.max_user_namespaces") && text.lines().count() == 1);
}

fn read_only() {
    let netns = launcher("resolv=10.0.2.3");
    let script = format!("mount -t tmpfs -o ro none /run && exec {netns} cat /etc/resolv.conf");
    let output = as_user("unshare").args(["-Urm", "sh", "-c", &script]).output();
    let output = output.expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "nameserver 10.0.2.3\n", "{output:?}");
}

fn few_descriptors() {
    let netns = launcher("pid");
    for limit in [6, 10, 14, 18, 20, 22, 24, 26, 64] {
        let script = format!("ulimit -n {limit}; exec {netns} true");
        let output = as_user("sh").args(["-c", &script]).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => assert_eq!(text, "", "{limit}"),
            code => {
                assert!(limit < 64 && code == Some(125), "{limit}: {code:?} {text}");
                assert!(text.contains("ulimit -n") && text.lines().count() == 1, "{limit}: {text}");
            }
        }
    }
}
