//! Recorded command lines of podman 5.8, buildah and rootlesskit 2.0.

use super::*;

fn asked(text: &str) -> Result<Asked, String> {
    let words: Vec<OsString> = text.split_ascii_whitespace().map(OsString::from).collect();
    read(&words)
}

fn args(text: &str) -> Args {
    match asked(text) {
        Ok(Asked::Run(args)) => *args,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn podman_s_line() {
    let args = args(
        "--config-net -t 18080-18080:80-80 --dns-forward 169.254.1.1 -t none -u none -T none \
         -U none --no-map-gw --quiet --netns /run/user/1000/netns/netns-1 --map-guest-addr \
         169.254.1.2",
    );
    assert_eq!(args.target, Target::Path("/run/user/1000/netns/netns-1".into()));
    assert!(args.is_configured && args.quiet && !args.foreground && args.quits);
    assert_eq!(args.tcp.len(), 2);
    assert_eq!(args.tcp[1], Spec::None);
    assert_eq!(args.dns_forward, ["169.254.1.1".parse::<IpAddr>().expect("an address")]);
    assert_eq!(args.loopback, Some(Vec::new()));
    assert_eq!(args.own_address.len(), 1);
    assert_eq!(args.notes, Vec::<String>::new());
}

#[test]
fn rootlesskit_s_line() {
    let args = args(
        "--foreground --stderr --ns-ifname=tap0 --mtu=65520 --no-dhcp --no-ra \
         --address=10.0.2.100 --netmask=24 --gateway=10.0.2.2 --dns-forward=10.0.2.3 --no-map-gw \
         --ipv4-only --tcp-ports=auto --udp-ports=auto 4711",
    );
    assert_eq!(args.target, Target::Pid(4711));
    assert!(args.foreground && !args.is_configured);
    assert_eq!(args.interface.as_deref(), Some("tap0"));
    assert_eq!((args.prefix_len, args.words), (Some(24), vec!["--mtu=65520".to_owned()]));
    assert_eq!(args.serves, Serves { dhcp4: false, ra: false, dhcp6: true, dns: false });
    assert_eq!((args.tcp, args.udp), (vec![Spec::Auto], vec![Spec::Auto]));
}

#[test]
fn probes_are_answered() {
    assert_eq!(asked("--host-lo-to-ns-lo --version"), Ok(Asked::Version));
    assert_eq!(asked("--version"), Ok(Asked::Version));
    assert_eq!(asked("-h"), Ok(Asked::Help));
    assert_eq!(asked("--version --no"), Err("option '--no' is ambiguous".to_owned()));
    assert_eq!(asked("--x"), Err("unrecognized option '--x'".to_owned()));
}

#[test]
fn a_command_is_not_a_process() {
    assert_eq!(args("12").target, Target::Pid(12));
    assert_eq!(args("-- 12").target, Target::Command(vec!["12".into()]));
    assert_eq!(args("-- ls -l").target, Target::Command(vec!["ls".into(), "-l".into()]));
    assert_eq!(args("ls -l").target, Target::Command(vec!["ls".into(), "-l".into()]));
    assert_eq!(args("--netns blue").target, Target::Path("/run/netns/blue".into()));
    assert!(asked("--netns x ls").is_err_and(|why| why.contains("give one")));
}

#[test]
fn values_are_checked() {
    for (text, says) in [
        ("-a x", "Invalid address: x"),
        ("-a 10.0.0.1/33", "Invalid prefix length"),
        ("-n 255.0.255.0", "Invalid netmask"),
        ("-n 0", "Invalid netmask"),
        ("-I a/b", "Invalid interface name"),
        ("--ns-mac-addr 1", "Invalid MAC address"),
        ("-t x", "no port"),
        ("-4 -6", "leave no network"),
    ] {
        let why = asked(text).expect_err("a mistake");
        assert!(why.contains(says), "{text}: {why}");
    }
    assert_eq!(args("-n 255.255.255.0").prefix_len, Some(24));
    assert_eq!(args("-D 9.9.9.9 -D 1.1.1.1").words, ["--dns=9.9.9.9,1.1.1.1"]);
}

#[test]
fn the_help_names_every_option() {
    for known in KNOWN {
        let long = format!("--{}", known.long);
        assert!(super::super::help::TEXT.contains(&long), "{long}");
        if let Some(short) = known.short {
            assert!(super::super::help::TEXT.contains(&format!("-{short}, {long}")), "-{short}");
        }
    }
}
