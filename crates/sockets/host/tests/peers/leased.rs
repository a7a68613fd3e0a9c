//! Leases of our DHCPv4 server to udhcpc and dhclient, and names by DHCPv6 to dhclient. RFC 2131,
//! RFC 8415.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};

use base::MacAddr;
use socket2::{Domain, Protocol, Socket, Type};
use testbed::{Case, Need};
use wirespeed_host::dhcp4::{Destination, Route, Server, ServerConfig, ServerOptions};
use wirespeed_host::{dhcp4, dhcp6};

use crate::link::{Link, SOON, Serving};

const UDHCPC: Need = Need::Program("udhcpc", "udhcpc");
const DHCLIENT: Need = Need::Program("dhclient", "isc-dhcp-client");

pub(crate) const CASES: &[Case] = &[
    ("udhcpc_gets_an_address_and_gives_it_back", &[UDHCPC], udhcpc),
    ("dhclient_gets_an_address_renews_it_after_a_restart_and_gives_it_back", &[DHCLIENT], dhclient),
    ("dhclient_learns_names_by_dhcpv6", &[DHCLIENT], dhclient6),
];

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const NAMES: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);

fn server() -> Server {
    let [first, last] = [100, 109].map(|last| Ipv4Addr::new(10, 0, 2, last));
    let network = "192.0.2.0/24".parse().expect("a network");
    let options = ServerOptions {
        routers: vec![SERVER],
        dns_servers: vec![NAMES],
        domain: Some("mill.example".to_owned()),
        search: vec!["mill.example".to_owned(), "example.org".to_owned()],
        mtu: Some(1_400),
        routes: vec![Route { destination: network, gateway: Some(SERVER) }],
    };
    let config = ServerConfig { options, ..ServerConfig::new(SERVER, 24, first, last) };
    Server::new(config).expect("a good configuration")
}

/// A socket on a port of `ws0` alone.
fn socket(domain: Domain, at: SocketAddr) -> UdpSocket {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).expect("a socket");
    socket.bind_device(Some(b"ws0")).expect("root binds to a device");
    if domain == Domain::IPV4 {
        socket.set_broadcast(true).expect("a datagram socket");
    }
    socket.set_nonblocking(true).expect("a socket");
    socket.bind(&at.into()).expect("a free port");
    socket.into()
}

/// The kernel knows the station of an address before that uses it, as if our frame had its link
/// address.
fn introduce(address: Ipv4Addr, hardware: MacAddr) {
    let line = format!("neigh replace {address} lladdr {hardware} dev ws0 nud reachable");
    assert!(testbed::ip(&line), "ip {line}");
}

fn serve(server: Arc<Mutex<Server>>) -> Serving {
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), dhcp4::SERVER_PORT);
    let socket = socket(Domain::IPV4, any);
    Serving::start(move |now| {
        let mut bytes = [0; 2_000];
        let Ok((length, _)) = socket.recv_from(&mut bytes) else { return false };
        let outcome = server.lock().expect("no panic").receive(now, &bytes[..length]);
        let Ok(Some(reply)) = outcome else { return true };
        let to = match reply.destination {
            Destination::Broadcast => Ipv4Addr::BROADCAST,
            Destination::Address(address) => address,
            Destination::Station { hardware, address } => {
                introduce(address, hardware);
                address
            }
        };
        socket.send_to(&reply.message, (to, dhcp4::CLIENT_PORT)).expect("sent");
        true
    })
}

fn udhcpc() {
    let (link, server) = (Link::new("udhcpc"), Arc::new(Mutex::new(server())));
    let _serving = serve(server.clone());
    let script = link.script();
    let options = "-O mtu -O search -O staticroutes -O domain";
    for (flags, count) in [("", 1), (" -B", 2)] {
        let line = format!("udhcpc -i eth0 -f -n -R -t 20 -T 1 {options} -s {script}{flags}");
        let mut running = link.start(&line);
        let bound = || link.said().matches("lease=3600").count() == count;
        assert!(testbed::until(SOON, bound), "{}", link.said());
        let pid = running.0.id().to_string();
        let is_told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(is_told.is_ok_and(|status| status.success()));
        running.wait();
    }
    let said = link.said();
    for line in [
        "interface=eth0",
        "subnet=255.255.255.0",
        "router=10.0.2.2",
        "dns=10.0.2.3",
        "domain=mill.example",
        "search=mill.example example.org",
        "mtu=1400",
        "lease=3600",
        "serverid=10.0.2.2",
        "staticroutes=192.0.2.0/24 10.0.2.2 0.0.0.0/0 10.0.2.2",
    ] {
        assert!(said.lines().any(|other| other == line), "{line} in {said}");
    }
    let released = || server.lock().expect("no panic").counts().releases == 2;
    assert!(testbed::until(SOON, released), "{:?}", server.lock().expect("no panic").counts());
    let server = server.lock().expect("no panic");
    assert_eq!((server.counts().naks, server.drops().total()), (0, 0), "{}", server.drops());
}

fn dhclient() {
    let (link, server) = (Link::new("dhclient"), Arc::new(Mutex::new(server())));
    let script = link.script();
    let files = format!("-sf {script} -lf {} -pf {}", link.path("leases"), link.path("pid"));
    let has = |word: &str| link.said().lines().any(|line| line == word);
    let serving = serve(server.clone());
    let running = link.start(&format!("dhclient -4 -d -v {files} eth0"));
    assert!(testbed::until(SOON, || has("reason=BOUND")), "{}", link.said());
    let said = link.said();
    for line in [
        "new_subnet_mask=255.255.255.0",
        "new_routers=10.0.2.2",
        "new_domain_name_servers=10.0.2.3",
        "new_domain_name=mill.example",
        "new_domain_search=mill.example. example.org.",
        "new_interface_mtu=1400",
        "new_dhcp_lease_time=3600",
        "new_dhcp_renewal_time=1800",
        "new_dhcp_rebinding_time=3150",
    ] {
        assert!(has(line), "{line} in {said}");
    }
    // Client and server are started anew; the client remembers its address, once it has written it.
    let written = || std::fs::read_to_string(link.path("leases")).unwrap_or_default();
    assert!(testbed::until(SOON, || written().contains("expire ")), "{}", written());
    drop((running, serving));
    *server.lock().expect("no panic") = self::server();
    let serving = serve(server.clone());
    let running = link.start(&format!("dhclient -4 -d -v {files} eth0"));
    assert!(testbed::until(SOON, || has("reason=REBOOT")), "{}", link.said());
    assert_eq!(server.lock().expect("no panic").counts().offers, 0);
    // dhclient's release is unicast from the address, which the script did not configure.
    let address = link
        .said()
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("new_ip_address=").map(str::to_owned));
    let address = address.expect("it has one");
    assert!(link.guest.ip(&format!("addr add {address}/24 dev eth0")));
    link.run(&format!("dhclient -4 -r {files} eth0"));
    let released = || server.lock().expect("no panic").counts().releases == 1;
    assert!(testbed::until(SOON, released), "{:?}", server.lock().expect("no panic").counts());
    drop((running, serving));
}

fn dhclient6() {
    let link = Link::new("dhclient6");
    let duid = dhcp6::duid_of_link_address(MacAddr([2, 0, 0, 0, 0, 9]));
    let names: Ipv6Addr = "fd00::3".parse().expect("an address");
    let search = vec!["mill.example".to_owned()];
    let information = dhcp6::Information { dns_servers: vec![names], search };
    let config = dhcp6::ServerConfig { duid, information, refresh: None };
    let mut server = dhcp6::Server::new(config).expect("a good configuration");
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), dhcp6::SERVER_PORT);
    let socket = socket(Domain::IPV6, any);
    let index = std::fs::read_to_string("/sys/class/net/ws0/ifindex").ok();
    // sysfs may show another namespace's; then the kernel chooses by the bound device.
    let index = index.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    socket.join_multicast_v6(&dhcp6::SERVERS, index).expect("a group");
    let _serving = Serving::start(move |_| {
        let mut bytes = [0; 2_000];
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { return false };
        if let Ok(answer) = server.receive(dhcp6::SERVERS, &bytes[..length]) {
            socket.send_to(&answer, from).expect("sent");
        }
        true
    });
    let script = link.script();
    let files = format!("-sf {script} -lf {} -pf {}", link.path("leases"), link.path("pid"));
    // The link-local address has to be past its duplicate check.
    let usable = || {
        let text = link.run("ip -6 addr show dev eth0 scope link");
        text.contains("fe80::") && !text.contains("tentative")
    };
    assert!(testbed::until(SOON, usable));
    let _running = link.start(&format!("dhclient -6 -S -d -v {files} eth0"));
    let has = |word: &str| link.said().lines().any(|line| line == word);
    assert!(testbed::until(SOON, || has("new_dhcp6_name_servers=fd00::3")), "{}", link.said());
    assert!(has("new_dhcp6_domain_search=mill.example."), "{}", link.said());
}
