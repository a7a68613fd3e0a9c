//! `--addr auto` where routers say that there is a DHCPv6 server: dnsmasq is both, over a TAP. The
//! tools take its address, or its options alone, name hosts by its name server, and give the
//! address back.

use testbed::{Need, Running};

use crate::cases::Case;
use crate::fixture::Fixture;

pub(crate) const CASES: &[Case] = &[
    ("auto_takes_an_address_of_dhcpv6_where_routers_say_so", &[Need::DNSMASQ], stateful),
    ("auto_takes_options_of_dhcpv6_where_routers_say_so", &[Need::DNSMASQ], stateless),
    ("auto_and_dhcp_give_addresses_of_both_versions", &[Need::DNSMASQ], both),
    ("without_the_dhcpv6_server_that_routers_speak_of_a_warning_says_so", &[Need::RADVD], silent),
];

/// The kernel is the router, at fe80::1 and 2001:db8:6::1.
fn tap(fixture: &Fixture) {
    assert!(fixture.ip("tuntap add dev ws1 mode tap vnet_hdr"));
    assert!(fixture.ip("link set ws1 addrgenmode none"));
    assert!(fixture.ip("addr add fe80::1/64 dev ws1 nodad"));
    assert!(fixture.ip("addr add 2001:db8:6::1/64 dev ws1 nodad"));
    assert!(fixture.ip("addr add 10.81.0.1/24 dev ws1"));
    assert!(fixture.ip("link set ws1 up"));
}

fn dnsmasq(fixture: &Fixture, ranges: &[&str]) -> Running {
    tap(fixture);
    let log = fixture.path("log");
    let ranges: String = ranges.iter().map(|range| format!("--dhcp-range={range} ")).collect();
    let running = fixture.start(&format!(
        "dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --pid-file= \
         --user=root --log-facility={log} --log-dhcp --interface=ws1 --bind-interfaces --no-ping \
         --leasefile-ro --dhcp-authoritative --enable-ra {ranges} --local=/test/ \
         --dhcp-option=option6:dns-server,[2001:db8:6::1] --domain=test \
         --host-record=kernel.test,10.81.0.1,2001:db8:6::1"
    ));
    fixture.until(|| logged(fixture, "DHCPv6"));
    running
}

fn logged(fixture: &Fixture, text: &str) -> bool {
    std::fs::read_to_string(fixture.path("log")).unwrap_or_default().contains(text)
}

fn stateful(fixture: &Fixture) {
    let _dnsmasq = dnsmasq(fixture, &["2001:db8:6::100,2001:db8:6::1ff,64,10m"]);
    let tool = "ping --dev tap:ws1 --addr auto -c 2 -i 0.1 kernel.test";
    let (code, out, err) = fixture.tool(tool);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("PING kernel.test (2001:db8:6::1)"), "{out}");
    let (_, rest) = err.split_once("2001:db8:6::1").expect("an address of the range");
    assert!(rest[2..].starts_with("/128 for 600 s (dhcp); router fe80::1; name server"), "{err}");
    let address = format!("2001:db8:6::1{}", &rest[..2]);
    assert!(logged(fixture, &format!("DHCPREPLY(ws1) {address}")), "{address}");
    fixture.until(|| logged(fixture, "DHCPRELEASE(ws1)"));
}

fn stateless(fixture: &Fixture) {
    let _dnsmasq = dnsmasq(fixture, &["2001:db8:6::,ra-stateless"]);
    let tool = "ping --dev tap:ws1 --addr auto -c 2 -i 0.1 kernel.test";
    let (code, out, err) = fixture.tool(tool);
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("(stable-privacy); router fe80::1; name server 2001:db8:6::1\n"), "{err}");
    assert!(logged(fixture, "DHCPINFORMATION-REQUEST(ws1)"), "{err}");
    assert!(!logged(fixture, "DHCPSOLICIT"), "no address is asked for");
}

fn both(fixture: &Fixture) {
    let ranges =
        ["2001:db8:6::100,2001:db8:6::1ff,64,10m", "10.81.0.50,10.81.0.59,255.255.255.0,10m"];
    let _dnsmasq = dnsmasq(fixture, &ranges);
    for version in ["-4", "-6"] {
        let tool = "ping --dev tap:ws1 --addr auto --addr dhcp -c 1";
        let (code, out, err) = fixture.tool(&format!("{tool} {version} kernel.test"));
        assert_eq!(code, 0, "{version}: {out}{err}");
        assert!(err.contains("address: 10.81.0.5") && err.contains("(dhcp)"), "{err}");
    }
}

fn silent(fixture: &Fixture) {
    tap(fixture);
    std::fs::write(
        fixture.folder.join("radvd.conf"),
        "interface ws1 { AdvSendAdvert on; AdvManagedFlag on; MinRtrAdvInterval 3;
         MaxRtrAdvInterval 4; prefix 2001:db8:6::/64 { }; };",
    )
    .expect("room");
    let (config, pid) = (fixture.path("radvd.conf"), fixture.path("radvd.pid"));
    let forward = "sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/forwarding'";
    assert_eq!(fixture.run(forward).0, 0);
    let _radvd = fixture
        .start(&format!("radvd --nodaemon --logmethod stderr --config {config} --pidfile {pid}"));
    let (code, out, err) = fixture.tool("ping --dev tap:ws1 --addr auto -c 1 2001:db8:6::1");
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("(stable-privacy); router fe80::1"), "{err}");
    assert!(err.contains("a DHCPv6 server gives addresses (flag M), but no answer came"), "{err}");
}
