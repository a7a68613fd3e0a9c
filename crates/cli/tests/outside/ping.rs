//! Echoes: the kernel's ping against our stack, `wirespeed ping` against the kernel.

use rustix::process::Signal;
use std::process::{Command, Output, Stdio};
use testbed::{Case, Need, Running};

use crate::host::{Host, KERNEL, OURS, TAP, set_up_tap};

pub(crate) const CASES: &[Case] = &[
    ("iputils_ping_of_the_kernel_reaches_us", &[Need::PING], the_kernel_pings_us),
    ("we_ping_the_kernel", &[], we_ping_the_kernel),
    ("a_ping_to_nobody_says_so_and_exits_with_1", &[], nobody_answers),
    ("a_ping_that_cannot_be_tried_exits_with_2", &[], cannot_be_tried),
    ("a_ping_in_json_is_one_document", &[], one_document),
    ("ctrl_c_prints_the_summary", &[], interrupted),
];

fn the_kernel_pings_us() {
    let mut host = Host::new();
    for (ours, size) in OURS.iter().flat_map(|ours| [(ours, "56"), (ours, "3000"), (ours, "65000")])
    {
        let command = ["-n", "-c", "3", "-i", "0.2", "-W", "5", "-s", size, ours];
        let mut ping = Command::new("ping")
            .args(command)
            .stdout(Stdio::null())
            .spawn()
            .expect("looked for before");
        let mut status = None;
        host.until("the end of ping", |_| {
            status = ping.try_wait().expect("our child");
            status.is_some()
        });
        assert!(status.expect("ended").success(), "{ours}");
    }
}

fn wirespeed_ping(arguments: &[&str]) -> Output {
    let ours = [format!("{}/24", OURS[0]), format!("{}/64", OURS[1])];
    Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .args(["ping", "--dev", &format!("tap:{TAP}"), "--addr", &ours[0], "--addr", &ours[1]])
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn we_ping_the_kernel() {
    set_up_tap();
    // The last two in fragments.
    let sizes = [1_000, 3_000, 65_000];
    for (option, kernel, size) in
        sizes.iter().flat_map(|size| [("-4", KERNEL[0], size), ("-6", KERNEL[1], size)])
    {
        let arguments = [option, "-c", "3", "-i", "0.1", "-s", &size.to_string(), kernel];
        let output = wirespeed_ping(&arguments);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(0), "{text}{output:?}");
        let last = format!("{} bytes from {kernel}: icmp_seq=3 ttl=64", size + 8);
        assert!(text.contains(&last), "{text}");
        assert!(text.contains("3 packets transmitted, 3 received, 0% packet loss"), "{text}");
        assert!(text.contains("rtt min/avg/max/mdev = "), "{text}");
    }
}

fn nobody_answers() {
    set_up_tap();
    let output = wirespeed_ping(&["-c", "1", "192.0.2.77"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("icmp_seq=1 Destination Host Unreachable"), "{text}");
    assert!(text.contains("1 packets transmitted, 0 received, +1 errors, 100% packet"), "{text}");
}

fn cannot_be_tried() {
    set_up_tap();
    let errors = |arguments: &[&str]| {
        let output = wirespeed_ping(arguments);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(errors(&["-c", "1", "198.51.100.1"]).contains("--via GATEWAY"));
    assert!(errors(&["-c", "1", "-s", "65508", KERNEL[0]]).contains("smaller -s"));
    assert!(errors(&["-c", "1", "--via", "198.51.100.1", KERNEL[0]]).contains("networks"));
    assert!(errors(&["-c", "0", KERNEL[0]]).contains("--help"));
}

fn one_document() {
    set_up_tap();
    let output = wirespeed_ping(&["--json", "-c", "2", "-i", "0.1", KERNEL[0]]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["received"], 2);
    assert_eq!(document["replies"][1]["seq"], 2);
}

fn interrupted() {
    set_up_tap();
    let ours = format!("{}/24", OURS[0]);
    let ping = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .args(["ping", "--dev", &format!("tap:{TAP}"), "--addr", &ours, KERNEL[0]])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let ping = Running(ping.expect("the program starts"));
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let (code, out, err) = ping.end_by(Signal::INT);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("ping statistics"), "{out}");
}
