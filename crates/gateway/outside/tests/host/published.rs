//! Published ports: clients of the kernel and a server in the guest.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use base::Owner;
use gateway::{AllowAll, Around};
use stack::ListenConfig;
use wirespeed_outside::{Bound, Host, Outlet};

use crate::world::{GUEST, SERVER, World, at, set_up};

pub(crate) const CASES: &[testbed::Case] = &[
    ("a published port sees its client's address", &[], sees_its_client),
    ("a client that the guest refuses is reset", &[], refused),
    ("a listener without an address takes both versions", &[], both_versions),
    ("a listener at an interface takes clients of that one", &[], at_an_interface),
    ("datagrams to a published port, and back from it", &[], datagrams),
    ("without descriptors a client is reset, and the next one served", &[], without_descriptors),
];

fn world(port: u16) -> (World, stack::ListenerHandle) {
    set_up();
    let mut world = World::new();
    world.published_to = Some(at(GUEST, port));
    let any = at("0.0.0.0", 80);
    let listener = world.guest.tcp_listen(any, ListenConfig::default()).expect("a free port");
    (world, listener)
}

fn sees_its_client() {
    let (mut world, listener) = world(80);
    let id = world.host.listen(&format!("{SERVER}/0").parse().expect("a listener"));
    let to = world.host.listens_at(id.expect("a free port")).expect("it listens");
    let mut client = TcpStream::connect(to).expect("the host listens");
    let mut there = None;
    world.until(|w| {
        there = w.guest.tcp_accept(listener);
        there.is_some()
    });
    let there = there.expect("it is connected");
    let (_, seen) = world.guest.tcp_addresses(there).expect("it is open");
    assert_eq!(seen, client.local_addr().expect("it is connected"));
    client.write_all(b"question").expect("it is open");
    assert_eq!(world.read(there, 8), b"question");
    assert_eq!(world.guest.tcp_write(there, b"answer"), Ok(6));
    world.guest.tcp_close(there);
    world.turn(std::time::Duration::from_millis(10));
    world.turn(std::time::Duration::from_millis(10));
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("it ends well");
    assert_eq!(all, b"answer");
    drop(client);
    world.until(|w| w.is_empty());
}

fn refused() {
    let (mut world, _) = world(81);
    let id = world.host.listen(&format!("{SERVER}/0").parse().expect("a listener"));
    let to = world.host.listens_at(id.expect("a free port")).expect("it listens");
    let mut client = TcpStream::connect(to).expect("the host listens");
    world.until(|w| w.engine.counts().refused_inbound == 1);
    let error = client.read(&mut [0]).expect_err("it was reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(world.is_empty());
}

fn both_versions() {
    let (mut world, listener) = world(80);
    let id = world.host.listen(&"0".parse().expect("a listener")).expect("a free port");
    let port = world.host.listens_at(id).expect("it listens").port();
    for ip in ["127.0.0.1", "::1"] {
        let client = TcpStream::connect(at(ip, port)).expect("the host listens");
        let mut there = None;
        world.until(|w| {
            there = w.guest.tcp_accept(listener);
            there.is_some()
        });
        // Loopback addresses mean something else to the guest.
        let (_, seen) = world.guest.tcp_addresses(there.expect("it is there")).expect("open");
        assert_eq!(seen.ip(), at("10.0.2.2", 0).ip());
        drop(client);
    }
    world.host.unlisten(id);
    TcpStream::connect(at("127.0.0.1", port)).expect_err("nobody listens");
    // What a client is called, and listeners of both versions at one port.
    let mut host = Host::new(8).expect("a descriptor");
    let both: Vec<_> = ["::", "0.0.0.0"]
        .map(|ip| host.listen(&format!("{ip}/{port}").parse().expect("a listener")))
        .into_iter()
        .map(|id| host.listens_at(id.expect("a free port")).expect("it listens"))
        .collect();
    assert_eq!(both, [at("::", port), at("0.0.0.0", port)]);
    let any = host.listen(&"0".parse().expect("a listener")).expect("a free port");
    let to = at("127.0.0.1", host.listens_at(any).expect("it listens").port());
    let client = TcpStream::connect(to).expect("the host listens");
    host.wait(base::Instant::ZERO, base::Instant::NEVER).expect("the descriptors are ours");
    assert_eq!(host.next_wake(), None);
    let accepted = host.accept().expect("a client");
    let own = client.local_addr().expect("it is connected");
    assert_eq!((accepted.listener, accepted.client), (any, own));
    assert!(host.accept().is_none());
}

fn at_an_interface() {
    let (mut world, listener) = world(80);
    assert!(testbed::ip("link add here type veth peer name there"));
    assert!(testbed::ip("address add 192.0.2.1/32 dev here"));
    assert!(testbed::ip("link set here up"));
    let here = world.host.listen(&"%here/8080".parse().expect("a listener"));
    here.expect("a free port");
    // A connection to an address of one's own comes by the interface that has it.
    TcpStream::connect(at("127.0.0.1", 8080)).expect_err("it came by another interface");
    let _client = TcpStream::connect(at("192.0.2.1", 8080)).expect("the host listens");
    world.until(|w| w.guest.tcp_accept(listener).is_some());
    let nowhere = world.host.listen(&"%nowhere/8082".parse().expect("a listener"));
    assert_eq!(nowhere.expect_err("no such interface").raw_os_error(), Some(19));
}

fn datagrams() {
    set_up();
    let mut world = World::new();
    let socket = world.guest.udp_bind(at("0.0.0.0", 53), Owner::program()).expect("a free port");
    for ip in [SERVER, "127.0.0.1", "::1"] {
        let fd = Bound::udp(&format!("{ip}/0").parse().expect("a listener")).expect("a free port");
        let own = Outlet::Host(world.host.adopt_udp(fd.into_fd()).expect("room"));
        let to = own.host().and_then(|own| own.local()).expect("it is bound");
        let now = world.now();
        let (stack, outside) = (&mut world.inner, &mut world.host);
        let mut around = Around { stack, outside, policy: &mut AllowAll, now };
        assert!(world.engine.publish_udp(own, at(GUEST, 53), Vec::new(), &mut around).is_some());
        let clients = [0, 0].map(|_| UdpSocket::bind(at(ip, 0)).expect("a free port"));
        let mut seen = Vec::new();
        for client in &clients {
            client.set_nonblocking(true).expect("a socket");
            client.send_to(b"question", to).expect("it is bound");
            let mut got = None;
            world.until(|w| {
                got = w.guest.udp_receive(socket);
                got.is_some()
            });
            let got = got.expect("it has come");
            assert_eq!(got.payload.as_slice(), b"question");
            let own = client.local_addr().expect("it is bound");
            let expected = if ip == SERVER { own.ip() } else { at("10.0.2.2", 0).ip() };
            assert_eq!((got.from.ip(), got.from.port()), (expected, own.port()));
            seen.push(got.from);
        }
        for (client, seen) in clients.iter().zip(seen) {
            let now = world.now();
            world.guest.udp_send(socket, seen, b"answer", now).expect("a route");
            let mut into = [0; 64];
            let mut got = None;
            world.until(|_| {
                got = client.recv_from(&mut into).ok();
                got.is_some()
            });
            assert_eq!(got, Some((6, to)));
        }
    }
    // The first socket carries what the guest sends to others.
    let there = UdpSocket::bind(at(SERVER, 0)).expect("a free port");
    there.set_nonblocking(true).expect("a socket");
    let (to, now) = (there.local_addr().expect("it is bound"), world.now());
    world.guest.udp_send(socket, to, b"hello", now).expect("a route");
    let mut from = None;
    world.until(|_| {
        from = there.recv_from(&mut [0; 64]).ok();
        from.is_some()
    });
    assert_eq!(from.expect("it has come").1.ip(), at(SERVER, 0).ip());
    assert_eq!((world.engine.session_counts(), world.host.open_count()), ((3, 0), 3));
    let now = world.now();
    let (stack, outside) = (&mut world.inner, &mut world.host);
    let mut around = Around { stack, outside, policy: &mut AllowAll, now };
    world.engine.shut_down(&mut around);
    assert!(world.is_empty());
}

fn without_descriptors() {
    set_up();
    let mut world = World::with(gateway::Config::default(), 1);
    world.published_to = Some(at(GUEST, 80));
    let any = at("0.0.0.0", 80);
    let listener = world.guest.tcp_listen(any, ListenConfig::default()).expect("a free port");
    let id = world.host.listen(&format!("{SERVER}/0").parse().expect("a listener"));
    let to = world.host.listens_at(id.expect("a free port")).expect("it listens");
    let first = TcpStream::connect(to).expect("the host listens");
    let mut there = None;
    world.until(|w| {
        there = w.guest.tcp_accept(listener);
        there.is_some()
    });
    let mut second = TcpStream::connect(to).expect("the host listens");
    world.until(|w| w.host.counts().clients_reset == 1);
    assert!(second.read(&mut [0]).is_err(), "it was reset");
    drop(first);
    world.guest.tcp_close(there.expect("it is connected"));
    world.until(|w| w.is_empty());
    let _third = TcpStream::connect(to).expect("the host listens");
    world.until(|w| w.guest.tcp_accept(listener).is_some());
}
