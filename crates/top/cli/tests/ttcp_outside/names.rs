//! Hosts by name: `ping` and `ttcp -t` ask dnsmasq over the TUN.

use testbed::{Need, Running};

use crate::cases::{Case, DEVICE, sink};
use crate::fixture::Fixture;

pub(crate) const CASES: &[Case] = &[
    ("hosts_are_named_in_ping_and_ttcp", &[Need::DNSMASQ, Need::SOCAT], named),
    ("names_that_are_not_found_say_what_to_do", &[Need::DNSMASQ], not_found),
];

/// dnsmasq, which knows the kernel as kernel.test, once it answers.
fn dnsmasq(fixture: &Fixture) -> Running {
    let running = fixture.start(
        "dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --pid-file= \
         --user=root --log-facility=/dev/null --bind-interfaces --listen-address=10.9.0.1 \
         --listen-address=fd09::1 --local=/test/ --host-record=kernel.test,10.9.0.1,fd09::1",
    );
    let asked = format!("ping {DEVICE} --dns 10.9.0.1 -c 1 kernel.test");
    fixture.until(|| fixture.tool(&asked).0 == 0);
    running
}

fn named(fixture: &Fixture) {
    let _dnsmasq = dnsmasq(fixture);
    for (version, dns, address) in
        [("-4", "10.9.0.1", "10.9.0.1"), ("-6", "fd09::1", "fd09::1"), ("", "10.9.0.1", "fd09::1")]
    {
        let line = format!("ping {DEVICE} --dns {dns} -c 1 {version} kernel.test");
        let (code, out, err) = fixture.tool(&line);
        assert_eq!(code, 0, "{out}{err}");
        assert!(out.contains(&format!("PING kernel.test ({address})")), "{out}");
    }
    let sum = fixture.file("in", 100_001);
    for (version, listens) in [("", 6), ("-4", 4), ("-6", 6)] {
        let mut socat = sink(fixture, listens);
        let line = format!("ttcp {version} -t Kernel.Test. {DEVICE} --dns 10.9.0.1 --file in");
        let (code, _, err) = fixture.tool(&line);
        assert_eq!(code, 0, "{version} {err}");
        assert!(socat.succeeds());
        assert_eq!(fixture.sum("out"), sum);
    }
}

fn not_found(fixture: &Fixture) {
    let _dnsmasq = dnsmasq(fixture);
    let fails = |line: &str, expected: i32, text: &str| {
        let (code, out, err) = fixture.tool(&format!("{line} {DEVICE}"));
        assert_eq!(code, expected, "{line}: {out}{err}");
        assert!(err.contains(text), "{line}: {err}");
    };
    fails("ping no.test --dns 10.9.0.1", 2, "there is no host 'no.test'");
    fails("ttcp -t no.test --dns 10.9.0.1 -s --bytes 1", 1, "there is no host 'no.test'");
    // Nobody is on that port.
    fails("ping kernel.test --dns 10.9.0.1:54", 2, "no name server can answer");
    fails("ping kernel..test --dns 10.9.0.1", 2, "nothing between two dots");
    fails("ping 10.9.0.256 --dns 10.9.0.1", 2, "write four numbers");
    fails("ping kernel.test --dns dns.test", 2, "expected an address, as 192.0.2.53");
}
