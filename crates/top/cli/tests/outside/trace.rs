//! `wirespeed trace` beside tshark, on captures with losses: of the kernel's TCP over `wire`, and
//! of our own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Namespace, Need, Running, until};

use crate::wire::joined;

const NEEDS: &[Need] = &[Need::TSHARK, Need::SOCAT];

pub(crate) const CASES: &[Case] = &[("a_trace_counts_what_tshark_counts", NEEDS, counts)];

/// The marks that both count.
const NAMES: [&str; 6] = [
    "retransmission",
    "fast_retransmission",
    "spurious_retransmission",
    "out_of_order",
    "lost_segment",
    "duplicate_ack",
];

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// tshark's count of each.
fn by_tshark(path: &Path) -> Vec<u64> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields"]);
    for name in NAMES {
        command.args(["-e", &format!("tcp.analysis.{name}")]);
    }
    let output = command.arg("-r").arg(path).output().expect("tshark is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = |column| {
        let fields = text.lines().filter_map(|line| line.split('\t').nth(column));
        fields.filter(|field| !field.is_empty()).count() as u64
    };
    (0..NAMES.len()).map(count).collect()
}

/// Our counts, with `--together`, because tshark takes all interfaces as one.
fn by_us(path: &Path) -> (Vec<u64>, Value) {
    let page = path.with_extension("html");
    let output = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .args(["trace", "--json", "--together", "-o"])
        .args([&page, path])
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.contains("id=\"sequence-0-client\"") && text.ends_with("</html>\n"));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let count = |name| found["analysis"][name].as_u64().expect("a count");
    (NAMES.map(count).to_vec(), found)
}

/// The kernel sends a megabyte to itself over the wire, once by IPv4 and once by IPv6.
fn transfers(hosts: &[Namespace; 2]) {
    for to in ["TCP4:10.9.0.2:5001", "TCP6:[fd09::2]:5001"] {
        let version = &to[..4];
        let listen = format!("{version}-LISTEN:5001,reuseaddr");
        let server = hosts[1].command("socat").args(["-u", &listen, "OPEN:/dev/null"]).spawn();
        let mut server = Running(server.expect("socat is there"));
        // socat retries until the server listens.
        let to = format!("{to},retry=50,interval=0.1");
        let mut sender = hosts[0].command("sh");
        sender.args(["-c", &format!("head -c 1000000 /dev/zero | socat -u - {to}")]);
        assert!(sender.status().expect("sh is there").success());
        assert!(until(Duration::from_secs(20), || server.0.try_wait().is_ok_and(|s| s.is_some())));
        server.wait();
    }
}

fn counts() {
    let mut seen = [0; NAMES.len()];
    let impairments: [&[&str]; 2] = [
        &["--loss", "2%", "--seed", "5"],
        &["--late", "3%:5ms", "--loss", "1%", "--offload", "off"],
    ];
    for (number, impairment) in impairments.into_iter().enumerate() {
        let captures = ["a", "b"].map(|end| place(&format!("trace-{number}-{end}.pcapng")));
        let [a, b] = captures.each_ref().map(|path| path.to_str().expect("a plain path"));
        let link = ["--delay", "5ms", "--rate", "50Mbit", "--capture-a", a, "--capture-b", b];
        let joined = joined(&[&link[..], impairment].concat());
        transfers(&joined.hosts);
        let (code, _, err) = joined.wire.end_by(Signal::INT);
        assert_eq!(code, 0, "{err}");
        for capture in &captures {
            let (ours, document) = by_us(capture);
            assert_eq!(ours, by_tshark(capture), "{NAMES:?} of {}", capture.display());
            // There are more connections if a client was refused before its server listened.
            let connections = document["connections"].as_array().map_or(0, Vec::len);
            assert!(connections >= 2, "{document}");
            for (seen, count) in seen.iter_mut().zip(ours) {
                *seen += count;
            }
        }
    }
    let mark = |name| seen[NAMES.iter().position(|other| *other == name).expect("a name")];
    for name in ["retransmission", "fast_retransmission", "out_of_order", "lost_segment"] {
        assert!(mark(name) > 0, "none of {name}: {seen:?}");
    }
}
