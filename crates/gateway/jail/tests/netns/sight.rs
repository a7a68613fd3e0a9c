//! What a program sees inside, and what it cannot do.

use std::net::TcpListener;

use testbed::{Case, Need, Running};

use crate::world::{NEEDS, PINGS, as_user, launcher, run, sh};

const WITH_IP: &[Need] = &[Need::SETPRIV, Need::Program("ip", "iproute2")];

pub(crate) const CASES: &[Case] = &[
    ("an_ordinary_user_pings_the_gateway", PINGS, ping),
    ("the_program_has_no_privilege_and_one_interface", NEEDS, privileges),
    ("interfaces_and_routes_cannot_be_changed", WITH_IP, unchanged),
    ("files_are_replaced_and_hidden", NEEDS, files),
    ("nothing_of_the_host_is_changed", NEEDS, host),
    ("root_inside_has_no_power", NEEDS, root),
    ("a_pid_namespace_shows_no_other_processes", NEEDS, pid),
    ("inherited_sockets_are_closed", NEEDS, sockets),
    ("sockets_inside_are_there_before_the_program", NEEDS, inside),
];

fn ping() {
    for options in ["", "pid", "root", "pid root"] {
        for to in ["10.0.2.2", "fd77::2"] {
            let (code, out, err) = run(options, &["ping", "-c1", "-W5", to]);
            assert_eq!((code, err.as_str()), (0, ""), "{options} {to}: {out}");
            assert!(out.contains("1 received"), "{out}");
        }
    }
    // Nothing else answers.
    let (code, out, _) = run("", &["ping", "-c1", "-W1", "10.0.2.7"]);
    assert!(code != 0 && out.contains("0 received"), "{out}");
}

fn privileges() {
    let mine = rustix::process::geteuid();
    for options in ["", "pid"] {
        let out = sh(options, "grep -E '^(Uid|Cap(Inh|Prm|Eff|Amb|Bnd))' /proc/self/status; id -u");
        let uid = if mine.is_root() { "61999".to_owned() } else { mine.as_raw().to_string() };
        assert!(out.ends_with(&format!("\n{uid}\n")), "{out}");
        // CAP_NET_BIND_SERVICE and CAP_NET_RAW stay possible.
        let bounded = format!("{:016x}", 1 << 10 | 1 << 13);
        for line in out.lines().filter(|line| line.starts_with("Cap")) {
            let (name, set) = line.split_once(":\t").expect("a set");
            let most = if name == "CapBnd" { &bounded } else { "0000000000000000" };
            assert_eq!(set, most, "{out}");
        }
    }
    let interfaces = sh("", "cut -sd: -f1 /proc/net/dev; cat /proc/net/route");
    let names: Vec<&str> = interfaces.lines().take(4).map(str::trim).collect();
    assert!(names.contains(&"lo") && names.contains(&"eth0"), "{interfaces}");
    assert!(!interfaces.contains("far0"), "{interfaces}");
    assert!(interfaces.contains("0202000A"), "a default route by 10.0.2.2: {interfaces}");
    let named = sh("interface=wire", "cat /proc/net/dev");
    assert!(named.contains("wire:"), "{named}");
}

fn unchanged() {
    let out = sh("", "ip -br addr show eth0");
    assert!(out.contains("10.0.2.100/24") && out.contains("fd77::100/64"), "{out}");
    assert!(!out.contains("tentative"), "{out}");
    for options in ["", "pid", "root"] {
        for change in ["link set eth0 down", "addr add 10.9.9.9/24 dev eth0", "route del default"] {
            let (code, _, err) = run(options, &["sh", "-c", &format!("ip {change}")]);
            assert!(code != 0 && err.contains("not permitted"), "{options} {change}: {err}");
        }
    }
}

fn files() {
    let folder = std::env::temp_dir().join(format!("jail-hidden-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("room");
    std::fs::write(folder.join("secret"), "secret").expect("room");
    let file = folder.join("secret");
    let (folder, file) = (folder.display(), file.display());
    let out = sh("resolv=10.0.2.3", "cat /etc/resolv.conf");
    assert_eq!(out, "nameserver 10.0.2.3\n");
    let out = sh(&format!("hide={folder}"), &format!("ls -A {folder}; ls /tmp | wc -l"));
    assert!(out != "0\n" && !out.contains("secret"), "a file of /tmp is covered alone: {out}");
    let out = sh(&format!("hide={file} resolv=10.0.2.3"), &format!("cat {file} /etc/resolv.conf"));
    assert_eq!(out, "nameserver 10.0.2.3\n");
    // The cover stays, for root inside as well.
    let (code, out, _) = run(
        &format!("root hide={folder}"),
        &["sh", "-c", &format!("umount {folder}; ls -A {folder}; unshare -Urm umount {folder}")],
    );
    assert!(code != 0 && !out.contains("secret"), "{code} {out}");
    // The working folder is no way around the cover.
    let mut inside = crate::world::command(&format!("hide={folder}"), &["sh", "-c", "ls; pwd"]);
    inside.current_dir(folder.to_string());
    let (_, out, _) = Running(inside.spawn().expect("it starts")).end();
    assert!(!out.contains("secret"), "{out}");
    let (code, _, err) = run("hide=/no/such/file", &["true"]);
    assert!(code == 125 && err.contains("/no/such/file cannot be hidden"), "{code} {err}");
    std::fs::remove_dir_all(folder.to_string()).expect("it is ours");
}

fn host() {
    let look = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("it is there");
        (mounts, std::fs::read_to_string("/etc/resolv.conf").ok())
    };
    let before = look();
    sh("pid resolv=10.0.2.3 hide=/tmp", "true");
    assert_eq!(look(), before);
}

fn root() {
    let out = sh("root", "id -u; grep -E '^CapEff' /proc/self/status");
    assert!(out.starts_with("0\n"), "{out}");
    let (code, _, err) = run("root", &["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
    assert!(code != 0, "{err}");
}

fn pid() {
    let out = sh("pid", "echo $$; ls -d /proc/[0-9]* | wc -l");
    let lines: Vec<u32> = out.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(lines[0] < 10 && lines[1] < 10, "{out}");
}

fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    let netns = launcher("");
    let script = format!(
        "exec 5<>/dev/tcp/127.0.0.1/{port} 6</etc/passwd; exec {netns} sh -c 'ls -l /proc/self/fd'"
    );
    let mut bash = as_user("bash");
    bash.args(["-c", &script]).stdout(std::process::Stdio::piped());
    bash.stderr(std::process::Stdio::piped());
    let (code, out, err) = Running(bash.spawn().expect("it starts")).end();
    assert!(code == 0 && err.is_empty(), "{err}");
    assert!(out.contains("/etc/passwd") && !out.contains("socket:"), "{out}");
}

fn inside() {
    let connect = ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/7007"];
    let (code, _, err) = run("inside=127.0.0.1:7007", &connect);
    assert!(code == 0 && err.is_empty(), "{err}");
    let (code, _, err) = run("", &connect);
    assert!(code != 0 && err.contains("refused"), "{err}");
    let (code, _, err) = run("inside=192.0.2.1:7007", &connect);
    assert!(code == 125 && err.contains("192.0.2.1:7007 cannot be listened at"), "{code} {err}");
}
