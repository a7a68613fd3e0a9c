//! Either direction, both at once, and many connections, with socat and the kernel's TCP at the
//! other end, which knows nothing of it.

use serde_json::Value;
use testbed::{Need, Running};

use crate::cases::{Case, DEVICE};
use crate::fixture::Fixture;

pub(crate) const CASES: &[Case] = &[
    ("who_connects_receives_and_who_accepts_sends", &[Need::SOCAT], reverse),
    ("both_directions_share_a_connection_whoever_ends_first", &[Need::SOCAT], both),
    ("what_the_peer_sends_is_awaited_long_after_our_end", &[Need::SOCAT], late),
    ("many_connections_are_opened_and_all_end", &[Need::SOCAT], many),
    ("many_connections_are_accepted_and_all_end", &[Need::SOCAT], accepted),
    ("many_connections_move_both_ways", &[Need::SOCAT], many_both),
    ("nobody_listening_fails_many_connections", &[], refused),
];

const LEN: u64 = 3_000_001;

/// Each version's host, and where socat connects to.
const VERSIONS: [(u8, &str, &str); 2] = [(4, "10.9.0.1", "10.9.0.2"), (6, "fd09::1", "[fd09::2]")];

/// socat listens; long enough to be there when a SYN comes.
fn listening(fixture: &Fixture, words: &str) -> Running {
    let running = fixture.start(words);
    std::thread::sleep(std::time::Duration::from_millis(500));
    running
}

/// The document of a run that must succeed.
fn json(fixture: &Fixture, words: &str) -> Value {
    let (code, out, err) = fixture.tool(&format!("ttcp --json {DEVICE} {words}"));
    assert_eq!(code, 0, "{words}: {err}");
    serde_json::from_str(&out).expect("one JSON document")
}

fn reverse(fixture: &Fixture) {
    let sum = fixture.file("in", LEN);
    for (version, host, ours) in VERSIONS {
        let _socat =
            listening(fixture, &format!("socat -u OPEN:in TCP{version}-LISTEN:5001,reuseaddr"));
        let found = json(fixture, &format!("-t {host} -R --file out"));
        assert_eq!(
            (&found["sha256_received"], &found["role"]),
            (&sum.clone().into(), &"receive".into())
        );
        assert_eq!(
            (fixture.sum("out"), &found["sum"]["rx"]["bytes_received"]),
            (sum.clone(), &LEN.into())
        );
        let mut socat = fixture
            .start(&format!("socat -u TCP{version}:{ours}:5001,retry=50,interval=0.2 CREATE:out2"));
        let found = json(fixture, "-r -R --file in");
        assert!(socat.succeeds());
        assert_eq!(
            (&found["sha256_sent"], fixture.sum("out2")),
            (&sum.clone().into(), sum.clone())
        );
        std::fs::remove_file(fixture.folder.join("out2")).expect("socat wrote it");
    }
}

fn both(fixture: &Fixture) {
    let sum = fixture.file("in", LEN);
    let sizes = [10, 40_000_000];
    for ((version, host, ours), len) in VERSIONS.into_iter().zip(sizes) {
        // In one run the peer ends first, in the other run we do.
        let theirs = fixture.file("theirs", len);
        let files = "OPEN:theirs!!CREATE:out";
        let words = format!("socat -t 50 TCP{version}-LISTEN:5001,reuseaddr {files}");
        let mut socat = listening(fixture, &words);
        let (code, _, err) = fixture.tool(&format!("ttcp {DEVICE} -t {host} --bidir < in > got"));
        assert_eq!(code, 0, "{err}");
        assert!(socat.succeeds());
        assert_eq!(
            (fixture.sum("out"), fixture.sum("got")),
            (sum.clone(), theirs.clone()),
            "{err}"
        );
        assert!(err.contains(&sum) && err.contains(&theirs) && err.contains("[  1][RX] "), "{err}");
        let words = format!("socat -t 50 TCP{version}:{ours}:5001,retry=50,interval=0.2 {files}");
        let mut socat = fixture.start(&words);
        let found = json(fixture, "-r --bidir -s --bytes 5000001");
        assert!(socat.succeeds());
        let size = std::fs::metadata(fixture.folder.join("out")).expect("socat wrote it").len();
        assert_eq!((size, &found["sum"]["tx"]["bytes_sent"]), (5_000_001, &5_000_001.into()));
        assert_eq!(found["sum"]["rx"]["bytes_received"], len);
        assert_eq!((&found["role"], &found["bytes"]), (&"both".into(), &(len + 5_000_001).into()));
    }
}

fn late(fixture: &Fixture) {
    let sum = fixture.file("in", LEN);
    // The pause is longer than the time that a peer with nothing to send has to end.
    let program = "SYSTEM:'cat > out; sleep 3; cat in'";
    let words = format!("socat -t 50 TCP4-LISTEN:5001,reuseaddr {program}");
    let _socat = listening(fixture, &words);
    let (code, _, err) =
        fixture.tool(&format!("ttcp {DEVICE} -t 10.9.0.1 --bidir --bytes 5000001 > got"));
    assert_eq!(code, 0, "{err}");
    let size = std::fs::metadata(fixture.folder.join("out")).expect("it was written").len();
    assert_eq!((size, fixture.sum("got")), (5_000_001, sum), "{err}");
}

/// The counts of the programs behind socat, once as many have ended.
fn counted(fixture: &Fixture, programs: usize) -> Vec<u64> {
    let counts = || {
        let text = std::fs::read_to_string(fixture.folder.join("counts")).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect::<Vec<u64>>()
    };
    fixture.until(|| counts().len() == programs);
    let mut counts = counts();
    counts.sort_unstable();
    std::fs::remove_file(fixture.folder.join("counts")).expect("it is there");
    counts
}

/// The bytes that each flow moved; its intervals have the same sum.
fn streams(found: &Value) -> Vec<(&str, u64)> {
    let of = |flow: &Value| {
        let bytes = flow["bytes_sent"].as_u64().or(flow["bytes_received"].as_u64());
        let intervals = flow["intervals"].as_array().expect("a list").iter();
        let sum = intervals.map(|one| one["bytes"].as_u64().expect("a count")).sum();
        assert_eq!(bytes, Some(sum), "{flow}");
        sum
    };
    let streams = found["streams"].as_array().expect("a list").iter();
    streams.map(|flow| (flow["direction"].as_str().expect("a name"), of(flow))).collect()
}

fn many(fixture: &Fixture) {
    fixture.file("in", LEN);
    for (version, host, _) in VERSIONS {
        let listen = format!("TCP{version}-LISTEN:5001,reuseaddr,fork");
        let socat = listening(fixture, &format!("socat -u {listen} SYSTEM:'wc -c >> counts'"));
        let found = json(fixture, &format!("-t {host} -s -P 3 --bytes 10000000"));
        let shares = [3_333_334, 3_333_333, 3_333_333];
        assert_eq!(streams(&found), shares.map(|bytes| ("tx", bytes)));
        assert_eq!(counted(fixture, 3), [3_333_333, 3_333_333, 3_333_334]);
        assert_eq!((&found["bytes"], &found["interrupted"]), (&10_000_000.into(), &false.into()));
        drop(socat);
        let _socat = listening(fixture, &format!("socat -U {listen} OPEN:in"));
        let found = json(fixture, &format!("-t {host} -s -P 3 -R"));
        assert_eq!(streams(&found), [("rx", LEN); 3]);
    }
}

fn accepted(fixture: &Fixture) {
    fixture.file("in", LEN);
    for (version, _, ours) in VERSIONS {
        let connect = format!("TCP{version}:{ours}:5001,retry=50,interval=0.2");
        let _socats = [(); 3].map(|()| fixture.start(&format!("socat -u OPEN:in {connect}")));
        let (code, out, err) = fixture.tool(&format!("ttcp {DEVICE} -r -s -P 3 -i 0.1"));
        assert!(code == 0 && out.is_empty(), "{err}");
        assert!(err.contains("ttcp-r: 9000003 bytes in"), "{err}");
        assert!(err.contains("[  3] ") && err.contains("[SUM] "), "{err}");
        let count = format!("socat -u {connect} SYSTEM:'wc -c >> counts'");
        let _socats = [(); 3].map(|()| fixture.start(&count));
        let found = json(fixture, "-r -R -s -P 3 --seconds 1");
        let mut sent: Vec<u64> = streams(&found).into_iter().map(|(_, bytes)| bytes).collect();
        sent.sort_unstable();
        assert!(sent[0] > 0, "{found}");
        assert_eq!(counted(fixture, 3), sent);
    }
}

fn many_both(fixture: &Fixture) {
    fixture.file("in", LEN);
    let program = "SYSTEM:'cat in & wc -c >> counts; wait'";
    let listen = "TCP4-LISTEN:5001,reuseaddr,fork,backlog=32";
    let _socat = listening(fixture, &format!("socat -t 50 {listen} {program}"));
    let found = json(fixture, "-t 10.9.0.1 --bidir -s -P 16 --bytes 16000000");
    assert_eq!(streams(&found), [[("tx", 1_000_000); 16], [("rx", LEN); 16]].concat());
    assert_eq!(counted(fixture, 16), [1_000_000; 16]);
}

fn refused(fixture: &Fixture) {
    let (code, _, err) = fixture.tool(&format!("ttcp -t 10.9.0.1 {DEVICE} -s -P 8 --bytes 1K"));
    assert!(code == 1 && err.contains("nobody listens"), "{code} {err}");
}
