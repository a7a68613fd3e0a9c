//! Sockets over two hosts with two shards each. The hosts' hashes differ, so that half of the
//! frames arrive in a queue of another shard. Driver threads run all shards.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::{Counter, Limit, MacAddr};
use device::{Device, mem};
use stack::shard::Shard;
use stack::{PortConfig, PortId, StackConfig};
use wirespeed_net::{DriverThread, Shards, ShardsListener, TcpSocket, blocking};

const SOON: Duration = Duration::from_secs(20);
const COUNT: usize = 2;
const SERVER: [u8; 4] = [192, 0, 2, 1];
const CLIENT: [u8; 4] = [192, 0, 2, 2];

struct World {
    server: Shards,
    client: Shards,
    drivers: Vec<DriverThread>,
}

type Queues = Vec<Box<dyn Device>>;

fn queues() -> (Queues, Queues) {
    let depth = mem::Config { depth: 1024, depth_bytes: 4 << 20, ..mem::Config::default() };
    let pair = |_| {
        let (near, far) = mem::pair(&depth);
        (Box::new(near) as Box<dyn Device>, Box::new(far) as Box<dyn Device>)
    };
    (0..COUNT).map(pair).unzip()
}

fn host(seed: u64, ip: [u8; 4], queues: Queues) -> (Shards, Vec<DriverThread>) {
    let mut config = StackConfig::new([seed, 7]);
    config.budget.set(Limit::MbufBytes, 64 << 20);
    let mut shards = Shard::group(&config, COUNT);
    let addresses = vec![base::Cidr { addr: ip.into(), prefix_len: 24 }];
    let port =
        PortConfig { mac: MacAddr([2, 0, 0, 0, 0, ip[3]]), addresses, ..PortConfig::default() };
    Shard::add_port(&mut shards, queues, &port);
    Shards::spawn_threads(shards, &[]).expect("threads")
}

impl World {
    fn new() -> World {
        let (near, far) = queues();
        let (server, mut drivers) = host(11, SERVER, near);
        let (client, others) = host(12, CLIENT, far);
        drivers.extend(others);
        World { server, client, drivers }
    }

    /// Stop all drivers. No shard holds a buffer or a connection then.
    fn end(self) {
        let begun = Instant::now();
        let held = |shards: &Shards| {
            let of = |stack: &mut &mut stack::Stack| {
                stack.connection_count() + stack.pool().outstanding()
            };
            shards
                .with_stacks(|stacks| stacks.iter_mut().map(of).sum::<usize>())
                .expect("the driver runs")
        };
        while held(&self.server) + held(&self.client) != 0 {
            assert!(begun.elapsed() < SOON, "{} {}", held(&self.server), held(&self.client));
            thread::sleep(Duration::from_millis(2));
        }
        self.drivers.into_iter().for_each(|driver| driver.stop().expect("no panic"));
    }
}

fn each(shards: &Shards, counter: Counter) -> Vec<u64> {
    let of = |net: &wirespeed_net::Net| net.with_stack(|stack| stack.counters().of(counter));
    shards.nets().iter().map(|net| of(net).expect("the driver runs")).collect()
}

fn at(ip: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from(ip), port)
}

/// Send back what is received, until the other end closes.
fn echo(mut stream: blocking::TcpStream) {
    let mut room = [0; 2048];
    while let Ok(count @ 1..) = stream.read(&mut room) {
        stream.write_all(&room[..count]).expect("it is open");
    }
}

#[test]
fn a_listener_accepts_the_flows_of_all_shards() {
    const FLOWS: usize = 40;
    let world = World::new();
    let listener = blocking::ShardsListener::bind(&world.server, at(SERVER, 0)).expect("free");
    let to = listener.local_addr().expect("bound");
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..FLOWS {
                let (stream, _) = listener.accept().expect("a connection");
                scope.spawn(|| echo(stream));
            }
        });
        for flow in 0..FLOWS {
            let stream = blocking::TcpStream::connect_timeout(world.client.any(), to, SOON);
            let mut stream = stream.expect("its answers come to its shard");
            stream.set_read_timeout(Some(SOON)).expect("a time");
            let sent = vec![flow as u8; 50_000];
            let mut received = vec![0; sent.len()];
            scope.spawn(move || {
                stream.write_all(&sent).expect("it is open");
                stream.read_exact(&mut received).expect("it comes back");
                assert_eq!(sent, received);
            });
        }
    });
    let taken = each(&world.server, Counter::TcpAccepts);
    assert_eq!(taken.iter().sum::<u64>(), FLOWS as u64, "{taken:?}");
    assert!(taken.iter().all(|&n| n > 4), "{taken:?}");
    let (counters, drops) = world.server.counters().expect("the driver runs");
    assert_eq!(counters.of(Counter::TcpAccepts), FLOWS as u64);
    assert_eq!(drops.total(), 0, "{:?}", drops.nonzero().collect::<Vec<_>>());
    drop(listener);
    world.end();
}

#[test]
fn a_chosen_port_belongs_to_the_shard_of_its_flow() {
    let world = World::new();
    let to = at(SERVER, 80);
    let listener = blocking::ShardsListener::bind(&world.server, to).expect("free");
    let again = ShardsListener::bind(&world.server, to);
    assert_eq!(again.err().map(|why| why.kind()), Some(std::io::ErrorKind::AddrInUse));
    for port in 5_000..5_008 {
        for ip in [CLIENT, [0; 4]] {
            let mut socket = TcpSocket::new(&world.client.nets()[0]);
            socket.bind(at(ip, port + if ip == CLIENT { 0 } else { 100 }));
            let socket = world.client.towards(&socket, to).expect("routed");
            let stream = blocking::TcpStream::connect_with(&socket, to, Some(SOON));
            let stream = stream.expect("its answers come to its shard");
            let (_, remote) = listener.accept().expect("a connection");
            assert_eq!(stream.local_addr().expect("open"), remote);
        }
    }
    drop(listener);
    world.end();
}

#[test]
fn datagrams_of_all_flows_are_received_and_answered() {
    let world = World::new();
    let server = blocking::ShardsUdpSocket::bind(&world.server, at(SERVER, 0)).expect("free");
    let to = server.local_addr().expect("bound");
    let client = blocking::ShardsUdpSocket::bind(&world.client, at(CLIENT, 0)).expect("free");
    let mut more = Vec::new();
    for _ in 0..20 {
        more.push(blocking::ShardsUdpSocket::bind(&world.client, at([0; 4], 0)).expect("free"));
    }
    for socket in more.iter().chain([&client]) {
        for number in 0..10_u8 {
            socket.set_read_timeout(Some(SOON)).expect("a time");
            server.set_read_timeout(Some(SOON)).expect("a time");
            let mut room = [0; 8];
            assert_eq!(socket.send_to(&[number; 3], to).expect("sent"), 3);
            let (count, from) = server.recv_from(&mut room).expect("it comes");
            assert_eq!((count, room[0]), (3, number));
            server.send_to(&room[..count], from).expect("sent");
            assert_eq!(socket.recv_from(&mut room).expect("it comes back"), (3, to));
        }
    }
    let seen = each(&world.server, Counter::UdpIn);
    assert!(seen.iter().all(|&n| n > 20), "{seen:?}");
    server.set_read_timeout(Some(Duration::from_millis(10))).expect("a time");
    let late = server.recv_from(&mut [0; 8]).map_err(|why| why.kind());
    assert_eq!(late, Err(std::io::ErrorKind::WouldBlock));
    drop((server, client, more));
    world.end();
}

#[test]
fn a_shard_that_sleeps_hears_what_the_first_one_publishes() {
    let world = World::new();
    let listener = blocking::ShardsListener::bind(&world.server, at(SERVER, 80)).expect("free");
    // Open connections of both shards. Their readers sleep, because nothing is sent.
    let mut readers = Vec::new();
    let mut others = Vec::new();
    for net in world.client.nets() {
        let stream = blocking::TcpStream::connect_timeout(net, at(SERVER, 80), SOON);
        let mut stream = stream.expect("it is accepted");
        others.push(listener.accept().expect("a connection"));
        readers.push(thread::spawn(move || {
            stream.set_read_timeout(Some(SOON)).expect("a time");
            stream.read(&mut [0; 4]).map_err(|why| why.kind())
        }));
    }
    thread::sleep(Duration::from_millis(100));
    let first = &world.client.nets()[0];
    let removed = first.with_stack(|stack| stack.remove_address(PortId(0), CLIENT.into()));
    assert!(removed.expect("the driver runs"));
    for reader in readers {
        let ended = reader.join().expect("no panic");
        assert!(ended.is_err_and(|why| why != std::io::ErrorKind::WouldBlock), "{ended:?}");
    }
    drop((listener, others));
    world.server.shut_down();
    world.client.shut_down();
}

#[test]
fn ports_come_and_go_while_the_shards_run() {
    let world = World::new();
    let (near, far) = queues();
    let of = |ip: [u8; 4]| PortConfig {
        mac: MacAddr([2, 0, 0, 0, 1, ip[3]]),
        addresses: vec![base::Cidr { addr: ip.into(), prefix_len: 24 }],
        ..PortConfig::default()
    };
    let (ours, theirs) = ([198, 51, 100, 1], [198, 51, 100, 2]);
    let id = world.server.add_port(near, &of(ours)).expect("the driver runs");
    assert_eq!(world.client.add_port(far, &of(theirs)).expect("the driver runs"), id);
    let listener = blocking::ShardsListener::bind(&world.server, at(ours, 80)).expect("free");
    let mut streams = Vec::new();
    for net in world.client.nets() {
        let stream = blocking::TcpStream::connect_timeout(net, at(ours, 80), SOON);
        streams.push((stream.expect("by the new port"), listener.accept().expect("accepted")));
    }
    world.server.remove_port(id).expect("it was there");
    for (stream, (mut accepted, _)) in streams {
        let ended = accepted.read(&mut [0; 4]).map_err(|why| why.kind());
        assert_eq!(ended, Err(std::io::ErrorKind::NetworkDown));
        drop(stream);
    }
    let again = world.server.remove_port(id).map_err(|why| why.kind());
    assert_eq!(again, Err(std::io::ErrorKind::NotFound));
    drop(listener);
    world.client.shut_down();
    world.server.shut_down();
}

#[test]
fn many_threads_open_use_and_close_connections_while_routes_change() {
    const THREADS: u64 = 6;
    const ROUNDS: u64 = 40;
    let world = World::new();
    let listener = blocking::ShardsListener::bind(&world.server, at(SERVER, 80)).expect("free");
    let (over, served) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while served.fetch_add(1, Ordering::Relaxed) < THREADS * ROUNDS {
                    let (stream, _) = listener.accept().expect("a connection");
                    scope.spawn(|| echo(stream));
                }
            });
        }
        scope.spawn(|| {
            let dest = "203.0.113.0/24".parse().expect("a network");
            let via = Some(IpAddr::from(CLIENT));
            while !over.load(Ordering::Relaxed) {
                let change = |stacks: &mut [&mut stack::Stack]| {
                    stacks[0].add_route(stack::Route::new(dest, via, 0));
                    stacks[0].remove_route(dest, PortId(0))
                };
                world.server.with_stacks(change).expect("the driver runs");
                thread::sleep(Duration::from_micros(300));
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let client = &world.client;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let net = client.any();
                        let opened =
                            blocking::TcpStream::connect_timeout(net, at(SERVER, 80), SOON);
                        let mut stream = opened.expect("accepted");
                        stream.set_read_timeout(Some(SOON)).expect("a time");
                        let sent = [(number * ROUNDS + round) as u8; 3_000];
                        let mut received = [0; 3_000];
                        stream.write_all(&sent).expect("it is open");
                        stream.read_exact(&mut received).expect("it comes back");
                        assert_eq!(sent, received);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        over.store(true, Ordering::Relaxed);
    });
    let taken = each(&world.server, Counter::TcpAccepts);
    assert_eq!(taken.iter().sum::<u64>(), THREADS * ROUNDS, "{taken:?}");
    drop(listener);
    world.server.shut_down();
    world.client.shut_down();
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_is_pinned_if_that_is_asked_for() {
    let pinned = |cores: &[usize]| {
        let shards = Shard::group(&StackConfig::new([1, 2]), COUNT);
        Shards::spawn_threads(shards, cores)
    };
    let refused = pinned(&[usize::MAX]).map(|_| ()).map_err(|why| why.to_string());
    assert!(refused.is_err_and(|why| why.contains("choose another, or none")));
    let (shards, drivers) = pinned(&[0]).expect("every machine has core 0");
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc is there");
    let of = |name: &str, text: &str| {
        text.lines().any(|line| line.strip_prefix("Name:").is_some_and(|n| n.trim() == name))
    };
    let status =
        tasks.flatten().filter_map(|t| std::fs::read_to_string(t.path().join("status")).ok());
    let status: Vec<String> = status.collect();
    let first = status.iter().find(|text| {
        of("wirespeed-0", text) && text.lines().any(|line| line == "Cpus_allowed_list:\t0")
    });
    assert!(first.is_some(), "{status:#?}");
    shards.shut_down();
    drivers.into_iter().for_each(|driver| driver.join().expect("no panic"));
}
