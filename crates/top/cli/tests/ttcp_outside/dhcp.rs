//! `--addr dhcp`: dnsmasq gives an address over a TAP; the tools name hosts by the lease's name
//! server, serve on the address, and give it back.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use testbed::{Need, Running};

use crate::cases::{Case, sink};
use crate::fixture::Fixture;

pub(crate) const CASES: &[Case] = &[
    ("dhcp_gives_ping_and_ttcp_an_address_and_name_servers", &[Need::DNSMASQ, Need::SOCAT], tools),
    ("nfs_and_nfsd_keep_an_address_of_dhcp_until_they_end", &[Need::DNSMASQ], shared),
    ("services_keep_an_address_of_dhcp_until_they_end", &[Need::DNSMASQ, Need::SOCAT], services),
    ("without_a_dhcp_server_the_error_says_what_to_do", &[], nobody),
    ("an_address_of_dhcp_that_another_host_has_is_not_used", &[Need::DNSMASQ], in_use),
    ("ctrl_c_ends_the_wait_for_an_address_at_once", &[], stopped),
];

const DEVICE: &str = "--dev tap:ws1 --addr dhcp";

/// A TAP beside the fixture's TUN.
fn tap(fixture: &Fixture) {
    assert!(fixture.ip("tuntap add dev ws1 mode tap vnet_hdr"));
    assert!(fixture.ip("addr add 10.81.0.1/24 dev ws1"));
    assert!(fixture.ip("link set ws1 up"));
}

/// dnsmasq on the TAP, for addresses and for names; its log is the file `log`.
fn dnsmasq(fixture: &Fixture) -> Running {
    tap(fixture);
    serve(fixture, "10.81.0.50,10.81.0.59")
}

fn serve(fixture: &Fixture, range: &str) -> Running {
    let log = fixture.path("log");
    let running = fixture.start(&format!(
        "dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --pid-file= \
         --user=root --log-facility={log} --log-dhcp --interface=ws1 --bind-interfaces --no-ping \
         --leasefile-ro --dhcp-authoritative --dhcp-range={range},255.255.255.0,10m \
         --dhcp-option=option:domain-search,test --local=/test/ \
         --host-record=kernel.test,10.81.0.1"
    ));
    fixture.until(|| logged(fixture, "IP range"));
    running
}

fn logged(fixture: &Fixture, text: &str) -> bool {
    std::fs::read_to_string(fixture.path("log")).unwrap_or_default().contains(text)
}

/// The address in a tool's message.
fn address_in(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("address: ")?;
    let (address, rest) = rest.split_once('/')?;
    let whole = "24 for 600 s, by DHCP from 10.81.0.1; router 10.81.0.1; name server 10.81.0.1\n";
    assert!(rest.starts_with(whole), "{said}");
    Some(address)
}

fn tools(fixture: &Fixture) {
    let _dnsmasq = dnsmasq(fixture);
    let (code, out, err) = fixture.tool(&format!("ping {DEVICE} -c 2 -i 0.1 kernel"));
    assert_eq!(code, 0, "{out}{err}");
    let address = address_in(&err).expect("it says its address");
    assert!(out.contains("PING kernel (10.81.0.1)"), "{out}");
    fixture.until(|| logged(fixture, &format!("DHCPRELEASE(ws1) {address}")));

    let sum = fixture.file("in", 1_000_001);
    let mut socat = sink(fixture, 4);
    let (code, _, err) = fixture.tool(&format!("ttcp -t kernel.test {DEVICE} --file in"));
    assert_eq!(code, 0, "{err}");
    assert!(socat.succeeds());
    assert_eq!(fixture.sum("out"), sum);
    let (code, _, err) = fixture.tool(&format!("ping {DEVICE} -c 1 no.test"));
    assert!(code == 2 && err.contains("there is no host 'no.test'"), "{code} {err}");
}

/// The address that the server gave last, once it has given one.
fn given(fixture: &Fixture) -> String {
    fixture.until(|| logged(fixture, "DHCPACK(ws1)"));
    let log = std::fs::read_to_string(fixture.path("log")).expect("the log");
    let (_, rest) = log.rsplit_once("DHCPACK(ws1) ").expect("it is there");
    rest.split(' ').next().expect("an address").to_owned()
}

/// Tools whose tasks share a stack keep addresses too, know names, and are seen.
fn shared(fixture: &Fixture) {
    let _dnsmasq = dnsmasq(fixture);
    std::fs::create_dir_all(fixture.folder.join("served")).expect("room");
    std::fs::write(fixture.folder.join("served/a"), "a line\n").expect("room");
    let nfsd = fixture.start_tool(&format!("nfsd served {DEVICE}"));
    let address = given(fixture);
    let list = format!("nfs ls nfs://{address}:2049/");
    fixture.until(|| fixture.tool(&list) == (0, "a\n".to_owned(), String::new()));
    let (code, out, err) = fixture.tool("show");
    assert!(code == 0 && out.contains("nfsd"), "{out}{err}");
    let (code, out, err) = fixture.tool("show addresses");
    assert!(code == 0 && out.contains(&address), "{out}{err}");
    let (code, out, err) = nfsd.end_by(Signal::TERM);
    assert!(code == 0 && out.contains("calls answered"), "{out}{err}");
    fixture.until(|| logged(fixture, &format!("DHCPRELEASE(ws1) {address}")));

    assert!(fixture.ip("link set lo up"));
    let _kernels = fixture.start_tool("nfsd served --listen 10.81.0.1:2049");
    fixture.until(|| fixture.tool("nfs ls nfs://10.81.0.1:2049/").0 == 0);
    let (code, out, err) = fixture.tool(&format!("nfs cat nfs://kernel:2049/a {DEVICE}"));
    assert_eq!((code, out.as_str()), (0, "a line\n"), "{err}");
    let address = address_in(&err).expect("it says its address");
    fixture.until(|| logged(fixture, &format!("DHCPRELEASE(ws1) {address}")));
    let (code, _, err) = fixture.tool(&format!("nfs ls nfs://no.test:2049/ {DEVICE}"));
    assert!(code != 0 && err.contains("there is no host 'no.test'"), "{code} {err}");

    // A server whose device is deleted ends, and says why.
    let mut nfsd = fixture.start_tool("nfsd served --dev tap:ws1 --addr 10.81.0.2/24");
    fixture.until(|| fixture.tool("nfs ls nfs://10.81.0.2:2049/").0 == 0);
    assert!(fixture.ip("link del ws1"));
    assert!(!nfsd.succeeds());
}

fn services(fixture: &Fixture) {
    let _dnsmasq = dnsmasq(fixture);
    let services = fixture.start_tool(&format!("services {DEVICE}"));
    let pid = services.0.id();
    let address = given(fixture);
    let echo = format!("sh -c 'echo there | socat -t 2 - TCP4:{address}:7,retry=20,interval=0.1'");
    let (code, out, err) = fixture.run(&echo);
    assert_eq!((code, out.as_str()), (0, "there\n"), "{err}");
    assert!(fixture.run(&format!("kill -TERM {pid}")).0 == 0);
    fixture.until(|| logged(fixture, "DHCPRELEASE(ws1)"));
}

fn nobody(fixture: &Fixture) {
    tap(fixture);
    let began = Instant::now();
    let (code, _, err) = fixture.tool(&format!("ping {DEVICE} -c 1 10.81.0.1"));
    assert_eq!(code, 2, "{err}");
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
    assert!(err.contains("no DHCP server gave an address in 10 s"), "{err}");
    assert!(err.contains("--addr A/B"), "{err}");
    let (code, _, err) = fixture.tool("ping --dev tun:ws0 --addr dhcp -c 1 10.9.0.1");
    assert!(code == 2 && err.contains("DHCP needs a port with link addresses"), "{code} {err}");
}

fn in_use(fixture: &Fixture) {
    tap(fixture);
    // The kernel has all addresses that the server can give; the server does not check that.
    for last in [77, 78, 79, 80] {
        assert!(fixture.ip(&format!("addr add 10.81.0.{last}/32 dev ws1")));
    }
    let _dnsmasq = serve(fixture, "10.81.0.77,10.81.0.80");
    let (code, _, err) = fixture.tool(&format!("ping {DEVICE} -c 1 10.81.0.1"));
    assert_eq!(code, 2, "{err}");
    assert_eq!(err.matches("which the DHCP server gave us").count(), 3, "{err}");
    assert!(err.contains("other hosts have what the DHCP server gave (3 declined)"), "{err}");
    assert!(err.contains("change its range"), "{err}");
    assert!(!err.contains("by DHCP from"), "{err}");
    fixture.until(|| logged(fixture, "DHCPDECLINE(ws1) 10.81.0."));
}

/// Nobody answers, and Ctrl-C comes once (not to the whole group as well: a second one ends a tool
/// on the spot) while each kind of address is waited for.
fn stopped(fixture: &Fixture) {
    tap(fixture);
    for (tool, code) in [
        ("ping --dev tap:ws1 --addr dhcp 10.81.0.1", 1),
        ("ping --dev tap:ws1 --addr auto 2001:db8::1", 1),
        ("ttcp -t 10.81.0.1 --dev tap:ws1 --addr dhcp --addr auto -s", 130),
        ("services --dev tap:ws1 --addr dhcp", 0),
    ] {
        let program = env!("CARGO_BIN_EXE_wirespeed");
        let began = Instant::now();
        let preserved = format!("timeout --foreground --preserve-status -s INT 3 {program} {tool}");
        let (ended, _, err) = fixture.run(&preserved);
        assert_eq!(ended, code, "{tool}: {err}");
        assert!(began.elapsed() < Duration::from_secs(6), "{tool}: {:?}", began.elapsed());
    }
}
