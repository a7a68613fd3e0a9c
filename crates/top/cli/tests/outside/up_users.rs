//! Users of the machine and a running router's control sockets: the requests that are allowed; `ip`
//! with rules and lists, beside the kernel's `ip` and after a reload; clients that lie about their
//! user, stop in the middle of a message or never read.

use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Gid, Signal, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use serde_json::{Value, json};
use testbed::{Case, ip, until};
use wirespeed::control::Client;

use super::up::{CONFIG, TIMEOUT, World};
use super::up_policy::{Bench, FAR, account, settled};

pub(crate) const CASES: &[Case] = &[
    ("up_bounds_clients_that_lie_stop_or_never_read", &[], adversaries),
    ("up_keeps_a_redirect_to_those_of_its_route", &[], redirected),
    ("ip_rule_has_the_words_and_the_keys_of_the_kernels", &[], rules),
    ("up_lets_the_difference_of_rules_and_lists_take_effect", &[], difference),
    ("up_answers_when_a_socket_has_received", &[], waits),
    ("up_admits_users_of_its_groups_to_sockets_alone", &[], strangers),
];

/// Users of no group are not admitted; users of one open sockets and ask nothing else.
fn strangers() {
    let bench = Bench::new();
    let (done, text) = bench.run("games", &["ping", "-c1", FAR]);
    assert!(!done && text.contains("does not answer this user"), "{text}");
    for words in [
        &["ip", "route"][..],
        &["ip", "route", "add", "10.1.0.0/16", "via", "192.0.2.1"],
        &["ip", "rule", "add", "priority", "5", "prohibit"],
        &["show", "connections"],
        &["dump", "-c", "1"],
    ] {
        let (done, text) = bench.run("nobody", words);
        assert!(!done && text.contains("Operation not permitted"), "{words:?}: {text}");
    }
    // A port of root's, and more sockets than one user may have.
    let (done, text) = bench.run("nobody", &["nc", "-l", "80"]);
    assert!(!done && text.contains("ports below 1024 are root's"), "{text}");
}

/// `ip` of the kernel, or ours for a router: exit code and standard output.
fn ip_of(world: Option<&World>, words: &str) -> (i32, String) {
    let mut command = match world {
        None => Command::new("ip"),
        Some(world) => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
            command.env("WIRESPEED_RUNTIME_DIR", world.path("run")).arg("ip");
            command
        }
    };
    let output = command.args(words.split(' ')).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    // The kernel has rules for local addresses and for a table that is empty; here there are none.
    let is_ours = |line: &&str| !line.starts_with("0:") && !line.starts_with("32767:");
    let lines = text.lines().filter(is_ours).map(str::trim_end).collect::<Vec<_>>().join("\n");
    (output.status.code().unwrap_or(-1), lines)
}

fn json_of(world: Option<&World>, words: &str) -> Vec<Value> {
    let (_, text) = ip_of(world, words);
    let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let is_ours = |row: &Value| row["priority"] != 0 && row["priority"] != 32_767;
    rows.into_iter().filter(is_ours).collect()
}

fn rules() {
    let world = World::new(CONFIG);
    assert!(ip("tuntap add wan mode tap"));
    for words in [
        "rule add pref 100 from 192.0.2.0/24 to 198.51.100.7 fwmark 0x10/0xff iif wan table 10",
        "rule add not from 192.0.2.9 priority 101 table main",
        "rule add pref 102 prohibit",
        "rule add pref 103 from 10.0.0.0/8 blackhole",
        "rule add pref 104 fwmark 5 unreachable",
        "rule add from 192.0.2.4 lookup 7",
        "rule add from 192.0.2.4 pref 99 lookup 7",
        "rule del pref 103",
        "rule del pref 103",
        "rule add pref 110 from 2001:db8::/32 table 12",
        "rule del from 192.0.2.4 table 7",
        "rule add",
        "rule del",
    ] {
        let v6 = if words.contains("2001") { "-6 " } else { "" };
        let ((kernels, _), (ours, _)) =
            (ip_of(None, &format!("{v6}{words}")), ip_of(Some(&world), words));
        assert_eq!(ours, kernels, "{words}");
    }
    for words in ["-4 rule", "-4 rule show pref 101", "-4 rule list table 10"] {
        // Rules without a network are of both versions here.
        assert_eq!(ip_of(Some(&world), words), ip_of(None, words), "{words}");
    }
    assert_eq!(json_of(Some(&world), "-4 -j rule"), json_of(None, "-4 -j rule"));
    let v6 = json_of(Some(&world), "-j rule show pref 110");
    assert_eq!(v6, json_of(None, "-6 -j rule show pref 110"));
    assert_eq!(world.end(Signal::TERM), 0);
}

/// A reload changes the rule and the route whose list differs, and nothing else.
fn difference() {
    let bench = Bench::new();
    let route = "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"192.0.2.1\"\n";
    let other = "[[route]]\nto = \"10.8.0.0/16\"\nvia = \"192.0.2.1\"\nexclude = \"guests\"\n";
    let rule = |n: u32| format!("[[rule]]\npriority = {n}\nfrom = \"10.0.0.0/8\"\ntable = 10\n");
    bench.set(&format!("{route}include = \"staff\"\n{other}{}{}", rule(5), rule(6)));
    let before = bench.world.log().len();
    let group = "[[rule]]\npriority = 7\ngroup = \"guests\"\naction = \"prohibit\"\n";
    bench.set(&format!("{route}exclude = \"staff\"\nno_forward = true\n{other}{}{group}", rule(6)));
    let log = bench.world.log()[before..].to_owned();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 4, "{log}");
    assert_eq!(
        lines[..3],
        [
            "rule 5: removed",
            "rule 7: from all group guests prohibit",
            "route to 10.9.0.0/16 by port wan via 192.0.2.1 exclude staff no_forward",
        ]
    );
    assert!(lines[3].ends_with(": 3 changes took effect, 0 failed"), "{log}");
    // The tools show the same.
    let world = Some(&bench.world);
    let (_, text) = ip_of(world, "rule show pref 7");
    assert_eq!(text, "7:\tfrom all group guests prohibit");
    let (_, text) = ip_of(world, "route show 10.9.0.0/16");
    assert!(text.contains(" exclude staff no_forward"), "{text}");
    // A lookup is for the packet's user, whoever asks for it: the user `nobody` is a guest.
    let (nobody, _) = account("nobody");
    assert_eq!(ip_of(world, &format!("route get 10.8.0.1 uid {nobody}")).0, 2);
    assert_eq!(ip_of(world, "route get 10.8.0.1").0, 0);
}

/// The kernel, as the gateway of a route for some users, names another gateway to one of them: the
/// others gain nothing by it.
fn redirected() {
    const TO: &str = "10.9.7.1";
    let bench = Bench::new();
    for key in ["ip_forward", "conf/all/send_redirects", "conf/ws0/send_redirects"] {
        std::fs::write(format!("/proc/sys/net/ipv4/{key}"), "1").expect("root may");
    }
    assert!(ip("neigh replace 192.0.2.77 lladdr 02:00:00:00:01:77 dev ws0 nud permanent"));
    assert!(ip("route add 10.9.7.0/24 via 192.0.2.77 dev ws0"));
    // A router follows no redirects.
    let neighbour = "[[neighbour]]\nport = \"wan\"\naddress = \"192.0.2.77\"\n\
                     mac = \"02:00:00:00:01:77\"\n";
    let route = "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"192.0.2.1\"\ninclude = \"staff\"\n";
    bench.set_with("forwarding = false\n", &format!("{neighbour}{route}"));
    let sends = |user: &str| bench.run(user, &["nc", "-u", "-z", TO, "7007"]);
    let redirect = format!("{TO}/32");
    assert!(!sends("nobody").0 && !bench.world.show("routes").contains(&redirect));
    assert!(until(TIMEOUT, || {
        sends("daemon").0 && bench.world.show("routes").contains(&redirect)
    }));
    // Frames to the named gateway are not for this host: it forwards none of them.
    let forwarded = || {
        let text = std::fs::read_to_string("/proc/net/snmp").expect("a table");
        let row = text.lines().filter(|line| line.starts_with("Ip:")).nth(1).expect("a row");
        row.split(' ').nth(6).and_then(|n| n.parse::<u64>().ok()).expect("a count")
    };
    let (before, frames) = (forwarded(), settled());
    assert!(sends("daemon").0);
    assert_eq!((settled()[0] - frames[0], forwarded() - before), (1, 0));
    let (done, text) = sends("nobody");
    assert!(!done && text.contains("Network is unreachable"), "{text}");
    assert_eq!(settled()[0] - frames[0], 1);
    let (nobody, _) = account("nobody");
    assert_eq!(ip_of(Some(&bench.world), &format!("route get {TO} uid {nobody}")).0, 2);
}

/// Do something on a thread that is another user's.
fn by<T: Send>(user: &str, act: impl FnOnce() -> T + Send) -> T {
    let (uid, gid) = account(user);
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            set_thread_groups(&[gid]).expect("root may");
            set_thread_gid(gid).expect("root may");
            set_thread_uid(uid).expect("root may");
            act()
        });
        other.join().expect("no panic")
    })
}

/// Ask something; returns the answer, or the program's refusal.
fn asks(client: &mut Client, question: &Value) -> Value {
    let answer: Value = client.request(question).expect("an answer");
    if answer["error"].is_string() { answer["error"].clone() } else { answer["body"].clone() }
}

/// A call of a socket, with what an adversary adds.
fn call(call: &Value) -> Value {
    let root = json!({ "uid": 0, "groups": [] });
    json!({ "socket": { "stack": 0, "call": call, "uid": 0, "owner": root, "peer": root } })
}

fn adversaries() {
    let bench = Bench::new();
    let guests = "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"192.0.2.1\"\nexclude = \"guests\"\n";
    bench.set(guests);
    let client = |user: &str| by(user, || Client::connect(&bench.socket, TIMEOUT));
    let echo = json!({ "open": { "ping": { "host": FAR } } });
    let says = |answer: &Value, what: &str| {
        assert!(answer.as_str().is_some_and(|text| text.contains(what)), "{answer}");
    };
    // The client says that it is root, and is not.
    let before = settled();
    let mut nobody = client("nobody").expect("guests are admitted");
    let opened = asks(&mut nobody, &call(&echo));
    let socket = opened["socket"].as_u64().expect("a socket");
    let send = json!({ "send": { "socket": socket, "to": null, "seq": 1, "data": "eHh4" } });
    says(&asks(&mut nobody, &call(&send)), "Network is unreachable");
    // It cannot use the sockets of others either: to know their numbers is not enough.
    let mut daemon = client("daemon").expect("staff is admitted");
    says(&asks(&mut daemon, &call(&send)), "Bad file descriptor");
    assert_eq!(settled(), before);
    let listen = json!({ "open": { "listen": { "local": "0.0.0.0:80" } } });
    says(&asks(&mut nobody, &call(&listen)), "ports below 1024 are root's");
    // The number of sockets is limited, over all connections, and so is the number of connections.
    for _ in 1..16 {
        assert!(asks(&mut nobody, &call(&echo))["socket"].is_u64());
    }
    let mut again = client("nobody").expect("guests are admitted");
    says(&asks(&mut again, &call(&echo)), "control_user_sockets");
    let more: Vec<_> = (0..7).map(|_| client("nobody")).collect();
    assert_eq!(more.iter().filter(|client| client.is_ok()).count(), 6);
    let full = more.into_iter().find_map(Result::err).expect("the last one");
    assert!(full.to_string().contains("control_user_clients"), "{full}");
    // Other users get sockets meanwhile, and sockets end with their connections.
    assert!(asks(&mut daemon, &call(&echo))["socket"].is_u64());
    drop(nobody);
    assert!(until(TIMEOUT, || asks(&mut again, &call(&echo))["socket"].is_u64()));
    drop(again);
    stopped(&bench, &mut daemon);
}

/// A call that waits is answered when something comes, and at once if its client makes another one.
fn waits() {
    let bench = Bench::new();
    let mut client = Client::connect(&bench.socket, TIMEOUT).expect("root is admitted");
    let udp = json!({ "open": { "udp": { "local": "192.0.2.2:7100", "peer": null } } });
    let socket = asks(&mut client, &call(&udp))["socket"].as_u64().expect("a socket");
    let receive = call(&json!({ "receive": { "socket": socket, "wait": { "ms": 2_000 } } }));
    let is_answered = |client: &Client, within: Duration| {
        let mut asked = [PollFd::new(client, PollFlags::IN)];
        let within = Timespec::try_from(within).expect("it is short");
        poll(&mut asked, Some(&within)).expect("it is open") == 1
    };
    let other = UdpSocket::bind("192.0.2.1:0").expect("it is ours");
    for _ in 0..3 {
        client.begin_request(&receive).expect("it reads");
        assert!(!is_answered(&client, Duration::from_millis(200)), "nothing came");
        other.send_to(b"news", "192.0.2.2:7100").expect("room");
        assert!(is_answered(&client, Duration::from_secs(1)), "it waits no longer");
        let answer: Value = client.finish_request().expect("an answer");
        assert_eq!(answer["body"]["datagrams"][0]["data"], "bmV3cw==", "{answer}");
    }
    client.begin_request(&receive).expect("it reads");
    client.begin_request(&json!("program")).expect("it reads");
    let answer: Value = client.finish_request().expect("an answer");
    assert_eq!(answer["body"]["datagrams"], json!([]), "{answer}");
    let answer: Value = client.finish_request().expect("an answer");
    assert_eq!(answer["program"]["command"], "up");
}

/// A client that stops in the middle of a message, and one that asks and never reads.
fn stopped(bench: &Bench, other: &mut Client) {
    let connected = || {
        let mut stream = UnixStream::connect(&bench.socket).expect("everybody may connect");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
        stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a time");
        stream.write_all(b"wirespd\n\0\x01\0\0").expect("it reads");
        stream
    };
    let mut half = by("nobody", connected);
    half.write_all(&[0, 0, 0, 9, 0]).expect("it reads");
    let mut mute = by("nobody", connected);
    let question = b"\0\0\0\x09\0\0\0\0\"program\"";
    while mute.write_all(question).is_ok() {}
    // Somebody else is answered while they wait.
    let program: Value = other.request(&json!("program")).expect("an answer");
    assert_eq!(program["program"]["command"], "up");
    let mut rest = Vec::new();
    half.read_to_end(&mut rest).expect("it is closed in time");
    assert!(until(TIMEOUT, || {
        mute.write_all(question).is_err_and(|why| why.kind() == ErrorKind::BrokenPipe)
    }));
}
