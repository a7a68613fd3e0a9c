//! Echoes: the kernel's ping against our stack, `wirespeed ping` against the kernel.

use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, ChildStdout, Command, Output, Stdio};
use testbed::{Case, Need, Running, ip};

use crate::host::{Host, KERNEL, OURS, TAP, set_up_tap};

pub(crate) const CASES: &[Case] = &[
    ("iputils_ping_of_the_kernel_reaches_us", &[Need::PING], the_kernel_pings_us),
    ("we_ping_the_kernel", &[], we_ping_the_kernel),
    ("a_ping_to_nobody_says_so_and_exits_with_1", &[], nobody_answers),
    ("a_ping_that_cannot_be_tried_exits_with_2", &[], cannot_be_tried),
    ("a_ping_in_json_is_one_document", &[], one_document),
    ("ctrl_c_prints_the_summary", &[], interrupted),
    ("a_request_that_cannot_be_sent_does_not_end_ping", &[], too_long),
    ("the_end_of_the_device_prints_the_summary", &[], device_gone),
    ("a_link_local_host_and_gateway_are_reached", &[], link_local),
    ("a_link_local_host_is_reached_by_a_routers_port", &[], by_a_router),
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

/// A `wirespeed ping` in the background. It ends by itself after 200 requests.
struct Pinging {
    process: Running,
    replies: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
}

impl Pinging {
    fn start(arguments: &[&str]) -> Pinging {
        let ours = format!("{}/24", OURS[0]);
        let ping = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
            .args(["ping", "--dev", &format!("tap:{TAP}"), "--addr", &ours, "-c", "200"])
            .args(["-i", "0.2"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut process = Running(ping.expect("the program starts"));
        let replies = BufReader::new(process.0.stdout.take().expect("piped"));
        let errors = BufReader::new(process.0.stderr.take().expect("piped"));
        Pinging { process, replies, errors }
    }

    /// Wait for the first reply. A TAP device that has just come up may lose packets for a second.
    fn is_answered(&mut self) {
        assert!(is_followed_by(&mut self.replies, " bytes from "), "no reply");
    }

    /// Wait for the end. Returns the exit code, the rest of standard output and of standard error.
    fn end(mut self) -> (i32, String, String) {
        let code = self.process.wait().code().unwrap_or(-1);
        let (mut text, mut errors) = (String::new(), String::new());
        self.replies.read_to_string(&mut text).expect("text");
        self.errors.read_to_string(&mut errors).expect("text");
        (code, text, errors)
    }
}

/// Read lines to the first that contains `part`. False if there is none.
fn is_followed_by(lines: &mut impl BufRead, part: &str) -> bool {
    lines.lines().map_while(Result::ok).any(|line| line.contains(part))
}

fn interrupted() {
    set_up_tap();
    let mut ping = Pinging::start(&[KERNEL[0]]);
    ping.is_answered();
    ping.process.signal(Signal::INT);
    let (code, text, errors) = ping.end();
    assert_eq!(code, 0, "{errors}");
    assert!(text.contains("ping statistics"), "{text}");
}

/// The kernel forwards over a link with a smaller MTU.
fn too_long() {
    set_up_tap();
    assert!(ip("link add narrow mtu 1300 type veth peer name wide") && ip("link set narrow up"));
    assert!(ip("addr add 198.51.100.1/24 dev narrow"));
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("our namespace");
    let arguments = ["--via", KERNEL[0], "-W", "1", "-M", "do", "-s", "1400", "198.51.100.2"];
    let mut ping = Pinging::start(&arguments);
    for _ in 0..2 {
        let told = is_followed_by(&mut ping.errors, "message too long, mtu=1300");
        assert!(told, "the kernel did not say what its link carries");
    }
    ping.process.signal(Signal::INT);
    let (code, text, errors) = ping.end();
    assert_eq!(code, 1, "{text}{errors}");
    assert!(text.contains(" packets transmitted, 0 received, +"), "{text}");
}

fn device_gone() {
    set_up_tap();
    let mut ping = Pinging::start(&[KERNEL[0]]);
    ping.is_answered();
    assert!(ip(&format!("link del {TAP}")));
    let (code, text, errors) = ping.end();
    assert_eq!(code, 2, "{text}{errors}");
    assert!(text.contains("ping statistics") && text.contains("rtt min"), "{text}{errors}");
}

// RFC 4291 section 2.1, RFC 4007 section 11.
fn link_local() {
    set_up_tap();
    assert!(ip(&format!("addr add fe80::1/64 dev {TAP} nodad")) && ip("link set lo up"));
    assert!(ip("addr add 2001:db8:2::1/64 dev lo"));
    std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").expect("our namespace");
    let zoned = format!("fe80::1%{TAP}");
    for host in [&["fe80::1"][..], &[&zoned], &["--via", "fe80::1", "2001:db8:2::1"]] {
        let output = wirespeed_ping(&[&["-c", "2", "-i", "0.2", "-W", "5"], host].concat());
        assert_eq!(output.status.code(), Some(0), "{host:?}: {output:?}");
    }
    let output = wirespeed_ping(&["-c", "1", "fe80::1%eth7"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains(&zoned), "{error}");
}

/// A router with a port that is called `lan`.
fn by_a_router() {
    set_up_tap();
    assert!(ip(&format!("addr add fe80::1/64 dev {TAP} nodad")));
    let dir = std::env::temp_dir().join(format!("ws-link-local-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("room");
    let (socket, file) = (dir.join("control"), dir.join("router.toml"));
    let text = format!(
        "[[port]]\nname = \"lan\"\ndevice = \"tap:{TAP}\"\naddresses = [\"{}/64\"]\n\
         [groups]\nroot = [\"root\"]\n[control]\nsocket = \"{}\"\ngroups = [\"root\"]\n",
        OURS[1],
        socket.display()
    );
    std::fs::write(&file, text).expect("room");
    let wirespeed = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let router = wirespeed(&["up", file.to_str().expect("text")]).spawn().map(Running);
    let router = router.expect("the program starts");
    let socket = socket.to_str().expect("text");
    let ask = |words: &[&str]| {
        let output = wirespeed(words).args(["--socket", socket]).output();
        output.expect("the program starts")
    };
    let answered = || ask(&["ping", "-c", "1", "-W", "2", "fe80::1%lan"]).status.success();
    assert!(testbed::until(std::time::Duration::from_secs(20), answered), "no answer");
    let error = |words: &[&str]| String::from_utf8_lossy(&ask(words).stderr).into_owned();
    for words in [&["ping", "-c", "1", "fe80::1%lan9"][..], &["nc", "-z", "fe80::1%lan9", "9"]] {
        assert!(error(words).contains("there is no port 'lan9', but lan"), "{}", error(words));
    }
    // The kernel refuses: it was reached.
    assert!(error(&["nc", "-z", "fe80::1%lan", "9"]).contains("Connection refused"));
    assert_eq!(router.end_by(Signal::TERM).0, 0);
    std::fs::remove_dir_all(&dir).expect("it is ours");
}
