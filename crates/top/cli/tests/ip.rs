//! `ip` of a running transfer in memory: its output, its changes, its refusals.

use serde_json::Value;

use crate::common::{code, stderr};
use crate::running::Running;

/// Run `ip` on the sender; its exit code, standard output and standard error.
fn ip(running: &Running, words: &str) -> (i32, String, String) {
    let words: Vec<&str> = words.split(' ').collect();
    let output = running.ask(&[&["ip", "-n", "sender"], words.as_slice()].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (code(&output), text, stderr(&output))
}

fn json(running: &Running, words: &str) -> Value {
    let (code, text, error) = ip(running, &format!("-j {words}"));
    assert_eq!(code, 0, "{words}: {error}");
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{words}: {why}: {text}"))
}

#[test]
fn routes_neighbours_and_addresses_are_changed_and_shown() {
    for threads in ["1", "2"] {
        let running = Running::start(threads).ready();
        let done = |words: &str| {
            let (code, text, error) = ip(&running, words);
            assert_eq!((code, text.as_str(), error.as_str()), (0, "", ""), "{words}");
        };
        let port = json(&running, "link")[0]["ifname"].as_str().expect("a name").to_owned();
        done(&format!("addr add 203.0.113.1/24 dev {port}"));
        done("route add 10.0.0.0/8 via 203.0.113.9 metric 5 mtu 1400");
        let (_, text, _) = ip(&running, "r s 10.0.0.0/8");
        let wanted =
            format!("10.0.0.0/8 via 203.0.113.9 dev {port} proto static metric 5 mtu 1400 ");
        assert_eq!(text.trim_end_matches('\n'), wanted);
        let route = &json(&running, "r s 10.0.0.0/8")[0];
        assert_eq!((&route["gateway"], &route["metric"]), (&"203.0.113.9".into(), &5.into()));
        assert_eq!(route["metrics"][0]["mtu"], 1400);
        let got = &json(&running, "r g 10.1.2.3")[0];
        assert_eq!((&got["gateway"], &got["dst"]), (&route["gateway"], &"10.1.2.3".into()));
        assert_eq!(got["prefsrc"], "203.0.113.1");
        done("route add 11.0.0.0/8 nexthop via 203.0.113.2 weight 2 nexthop via 203.0.113.3");
        let hops = &json(&running, "route show 11.0.0.0/8")[0]["nexthops"];
        assert_eq!((hops.as_array().map(Vec::len), &hops[0]["weight"]), (Some(2), &2.into()));
        done(&format!("neigh add 203.0.113.9 lladdr 02:00:00:00:00:09 dev {port}"));
        assert_eq!(json(&running, "neigh show 203.0.113.9")[0]["state"][0], "PERMANENT");
        done("route flush root 10.0.0.0/7");
        assert_eq!(json(&running, "route show root 10.0.0.0/7"), Value::Array(Vec::new()));
        done(&format!("neigh del 203.0.113.9 dev {port}"));
        done(&format!("addr del 203.0.113.1/24 dev {port}"));
        let addresses = json(&running, "addr show to 203.0.113.0/24");
        assert_eq!(addresses, Value::Array(Vec::new()));
        done(&format!("rule add priority 7 from 10.0.0.0/8 iif {port} group 5 table 10"));
        let (_, text, _) = ip(&running, "rule show priority 7");
        assert_eq!(text, format!("7:\tfrom 10.0.0.0/8 iif {port} group 5 lookup 10\n"));
        let (_, text, _) = ip(&running, "rule");
        assert!(text.ends_with("\n32766:\tfrom all lookup main\n"), "{text}");
        for (words, wanted, says) in [
            ("rule add priority 7 from 10.0.0.0/8 group 5 table 10", 0, ""),
            ("rule add priority 7 from 10.0.0.0/8 group 5 table 10", 2, "File exists"),
            ("rule del priority 8", 2, "No such file or directory"),
            ("rule add priority 32766 prohibit", 2, "the main table's"),
            ("rule add", 1, "requires arguments"),
            ("rule add bogus", 1, "not a keyword"),
        ] {
            let (code, _, error) = ip(&running, words);
            assert!(code == wanted && error.contains(says), "{words}: {code} {error}");
        }
        done("rule del priority 7");
        done("rule del from 10.0.0.0/8");
        assert_eq!(json(&running, "rule").as_array().map(Vec::len), Some(1));
        done("route add 12.0.0.0/8 via 192.0.2.9 table 10 include 5,6 no_forward");
        let route = &json(&running, "route show table 10")[0];
        assert_eq!(route["include"].as_array().map(Vec::len), Some(2), "{route}");
        assert_eq!(route["no_forward"], true);
        let (_, text, _) = ip(&running, "route show table all 12.0.0.0/8");
        assert!(text.contains(" table 10 ") && text.contains(" include 5,6 no_forward "), "{text}");
    }
}

#[test]
fn routes_that_drop_packets_are_shown_as_by_the_kernel() {
    let running = Running::start("1").ready();
    let done = |words: &str| {
        let (code, text, error) = ip(&running, words);
        assert_eq!((code, text.as_str(), error.as_str()), (0, "", ""), "{words}");
    };
    for (kind, error) in [
        ("blackhole", "Invalid argument"),
        ("unreachable", "No route to host"),
        ("prohibit", "Permission denied"),
    ] {
        done(&format!("route add {kind} 10.66.0.0/16 metric 7"));
        done(&format!("route add {kind} 2001:db8:66::/48"));
        let (_, text, _) = ip(&running, "route show 10.66.0.0/16");
        assert_eq!(text.trim_end(), format!("{kind} 10.66.0.0/16 proto static metric 7"));
        let (_, text, _) = ip(&running, "-6 route show 2001:db8:66::/48");
        let wanted = format!("{kind} 2001:db8:66::/48 dev lo proto static metric 0 pref medium");
        assert_eq!(text.trim_end(), wanted);
        assert_eq!(json(&running, "route show 10.66.0.0/16")[0]["type"], kind);
        let (code, _, says) = ip(&running, "route get 10.66.1.1");
        assert!(code == 2 && says.contains(error), "{code} {says}");
        let shown = running.ask(&["show", "fib", "lookup", "10.66.1.1"]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(&format!("metric 7 type {kind}")), "{shown}");
        done("route flush 10.66.0.0/16");
        done(&format!("route del {kind} 2001:db8:66::/48"));
    }
}

/// RFC 8950, in the words and with the keys of ip(8).
#[test]
fn an_ipv4_route_has_an_ipv6_gateway() {
    let running = Running::start("1").ready();
    let done = |words: &str| {
        let (code, text, error) = ip(&running, words);
        assert_eq!((code, text.as_str(), error.as_str()), (0, "", ""), "{words}");
    };
    let port = json(&running, "link")[0]["ifname"].as_str().expect("a name").to_owned();
    done(&format!("addr replace fe80::7/64 dev {port} nodad"));
    done(&format!("route add 10.77.0.0/16 via inet6 fe80::5 dev {port}"));
    let (_, text, _) = ip(&running, "route show 10.77.0.0/16");
    assert_eq!(text.trim_end(), format!("10.77.0.0/16 via inet6 fe80::5 dev {port} proto static"));
    let via = serde_json::json!({"family": "inet6", "host": "fe80::5"});
    let row = &json(&running, "route show 10.77.0.0/16")[0];
    assert_eq!((&row["via"], row.get("gateway")), (&via, None));
    assert_eq!(json(&running, "route get 10.77.1.1")[0]["via"], via);
    done(&format!("route add default via inet6 fe80::5 dev {port} metric 9"));
    let row = &json(&running, "-4 route show default metric 9")[0];
    assert_eq!((&row["dst"], &row["via"]), (&"default".into(), &via));
    done(&format!("route del default via inet6 fe80::5 dev {port} metric 9"));
    done("route flush 10.77.0.0/16");
}

#[test]
fn refusals_have_the_kernels_words_and_the_codes_of_ip() {
    let running = Running::start("1").ready();
    let port = json(&running, "link")[0]["ifname"].as_str().expect("a name").to_owned();
    for (words, wanted, says) in [
        ("route add 192.0.2.0/24 dev PORT", 2, "File exists"),
        ("route del 10.0.0.0/8", 2, "No such process"),
        ("route change 10.0.0.0/8 dev PORT", 2, "No such file or directory"),
        ("route add 10.0.0.1/8 dev PORT", 2, "Invalid prefix for given prefix length"),
        ("route add 10.0.0.0/8 via 203.0.113.7", 2, "Nexthop has invalid gateway"),
        ("route add 10.0.0.0/8", 2, "No such device"),
        ("neigh del 203.0.113.7 dev PORT", 2, "No such file or directory"),
        ("neigh add 203.0.113.7 dev PORT", 2, "No link layer address given"),
        ("addr del 203.0.113.7/24 dev PORT", 2, "Address not found"),
        ("route get 203.0.113.7", 2, "Network is unreachable"),
        ("route add 10.0.0.0/8 dev nonsense", 1, "cannot find device"),
        ("route add 10.0.0.0/8 dev", 1, "not complete"),
        ("route add 10.0.0.0/8 metric x dev PORT", 1, "\"metric\" value is invalid"),
        ("route add nonsense dev PORT", 1, "any valid prefix is expected"),
        ("route show table 0", 1, "\"table\" value is invalid"),
        ("route flush", 1, "flush needs a selector"),
        ("neigh add 203.0.113.7 lladdr x dev PORT", 1, "invalid lladdr"),
        ("neigh show nud nonsense", 1, "nud is one of"),
        ("addr add 203.0.113.7/24", 1, "required"),
        ("addr add 203.0.113.7/33 dev PORT", 1, "any valid prefix is expected"),
    ] {
        let (code, text, error) = ip(&running, &words.replace("PORT", &port));
        assert_eq!((code, text.as_str()), (wanted, ""), "{words}: {error}");
        assert!(error.starts_with("error: ") && error.contains(says), "{words}: {error}");
    }
    // Both stacks have routes: one of them is to be chosen.
    let output = running.ask(&["ip", "route"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("sender, receiver"), "{}", stderr(&output));
}

/// Another user is refused by the server, even where the file system lets it come.
#[cfg(target_os = "linux")]
#[test]
fn another_user_changes_nothing() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root, to become another user");
        return;
    }
    let running = Running::start("1").ready();
    let beside = running.beside(&["ip"]);
    let folder = beside.get_envs().find_map(|(key, value)| {
        value.filter(|_| key == "WIRESPEED_RUNTIME_DIR").map(std::path::PathBuf::from)
    });
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    let folder = folder.expect("a folder");
    open(&folder, 0o755);
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
        open(&entry.path(), 0o755);
        for socket in std::fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            open(&socket.path(), 0o777);
            sockets.push(socket.path());
        }
    }
    let program = std::env::temp_dir().join(format!("wsip-{}", std::process::id()));
    std::fs::copy(beside.get_program(), &program).expect("room");
    open(&program, 0o755);
    let mut command = std::process::Command::new(&program);
    command.args(["ip", "--socket"]).arg(&sockets[0]);
    command.args(["-n", "sender", "addr", "flush", "dev", "port0"]).uid(65534).gid(65534);
    let output = command.output().expect("the program starts");
    let _ = std::fs::remove_file(&program);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("does not answer this user"), "{}", stderr(&output));
}
