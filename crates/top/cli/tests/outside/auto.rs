//! `--addr auto`: with a router on the link, and without one.

use std::path::PathBuf;
use std::process::{Command, Output};

use testbed::{Case, Need, Running, ip};

use crate::host::{KERNEL, TAP, set_up_tap};

pub(crate) const CASES: &[Case] = &[
    ("a_ping_configures_itself_by_radvd", &[Need::RADVD], with_a_router),
    ("without_a_router_the_link_alone_is_reached", &[], without_a_router),
    ("autoconfiguration_wants_link_addresses", &[], of_ip_packets),
];

fn ping(device: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .args(["ping", "--dev", device, "--addr", "auto"])
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn tap() -> String {
    format!("tap:{TAP}")
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// radvd's files, removed when this is dropped.
struct Files([PathBuf; 2]);

impl Drop for Files {
    fn drop(&mut self) {
        // radvd may have removed its own.
        self.0.iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}

fn with_a_router() {
    set_up_tap();
    assert!(ip(&format!("addr add fe80::1/64 dev {TAP} nodad")));
    std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").expect("root may");
    let name = |what: &str| {
        std::env::temp_dir().join(format!("wirespeed-auto-{}.{what}", std::process::id()))
    };
    let files = Files([name("conf"), name("pid")]);
    let config = format!(
        "interface {TAP} {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4;
         prefix 2001:db8::/64 {{ }}; RDNSS 2001:db8::53 {{ }}; }};"
    );
    std::fs::write(&files.0[0], config).expect("room");
    let mut command = Command::new("radvd");
    command.args(["--nodaemon", "--logmethod", "stderr", "--config"]).arg(&files.0[0]);
    command.arg("--pidfile").arg(&files.0[1]);
    let _radvd = Running(command.spawn().expect("radvd starts"));
    // The TAP has no carrier before the program opens it: radvd waits for that.
    let output = ping(&tap(), &["-c", "2", "-i", "0.1", KERNEL[1]]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.contains("2 packets transmitted, 2 received, 0% packet loss"), "{out}");
    assert!(err.contains("addresses: fe80::") && err.contains("2001:db8::"), "{err}");
    assert!(err.contains("(stable-privacy); router fe80::"), "{err}");
    assert!(err.contains("; name server 2001:db8::53\n"), "{err}");
}

fn without_a_router() {
    set_up_tap();
    assert!(ip(&format!("addr add fe80::1/64 dev {TAP} nodad")));
    let output = ping(&tap(), &["-c", "1", "fe80::1"]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(err.contains("warning: no router answered in 10 s"), "{err}");
    assert!(err.contains("give an address by --addr A/B"), "{err}");
}

fn of_ip_packets() {
    let output = ping("tun:ws1", &["-c", "1", "fe80::1"]);
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("give it an address"), "{err}");
}
