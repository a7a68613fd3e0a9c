//! Conversations with the kernel: from threads, from tasks, and while the stack has a second port
//! in memory. And a stack that is idle.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use device::mem;
use stack::PortConfig;
use stack::pair::{PairConfig, addresses, end, mac};
use testbed::Case;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_net::{Net, TcpListener, TcpSocket, TcpStream, UdpSocket, blocking};

use crate::ends::{
    KERNEL, OURS, SOON, assert_reads, kernel_listener, pattern, processor_time, stack,
};

pub(crate) const CASES: &[Case] = &[
    ("threads_talk_with_the_kernel", &[], threads),
    ("tasks_talk_with_the_kernel", &[], tasks),
    ("a_runtime_without_our_reactor_looks_at_an_interval", &[], foreign_runtime),
    ("tun_and_memory_side_by_side", &[], side_by_side),
    ("an_idle_stack_over_tun_uses_no_processor_time", &[], idle),
    ("a_blocking_reader_polls_the_descriptor_itself", &[], ping_pong),
    ("ttl_and_traffic_class_are_in_the_packets", &[], ip_header),
    ("a_blocking_close_lingers_until_all_is_acknowledged", &[], linger),
];

const BYTES: usize = 3_000_000;

fn threads() {
    let (stack, _) = stack();
    let (net, driver) = Net::spawn_thread(stack).expect("the thread starts");
    let (listener, at) = kernel_listener();
    let data = pattern(BYTES);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut peer, _) = listener.accept().expect("our stack connects");
            assert_reads(&mut peer, &data);
            peer.write_all(&data).expect("our stack reads");
        });
        let mut stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
        stream.set_read_timeout(Some(SOON)).expect("not zero");
        stream.write_all(&data).expect("the kernel reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        assert_reads(&mut stream, &data);
    });
    driver.stop().expect("it did not panic");
}

async fn conversation(net: &Net, data: &[u8]) {
    let (listener, at) = kernel_listener();
    let kernel = {
        let data = data.to_vec();
        thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("our stack connects");
            assert_reads(&mut peer, &data);
            peer.write_all(&data).expect("our stack reads");
        })
    };
    let mut stream = TcpStream::connect(net, at).await.expect("it listens");
    stream.write_all(data).await.expect("the kernel reads");
    stream.shutdown().await.expect("it is open");
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.expect("until the end");
    assert!(got == data, "{} bytes of {}", got.len(), data.len());
    kernel.join().expect("the kernel's side was content");
}

fn tasks() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (net, _driver) = Net::spawn_tokio(stack().0);
        let data = pattern(BYTES);
        tokio::time::timeout(SOON, conversation(&net, &data)).await.expect("in time");
    });
}

fn foreign_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let (net, driver) = Net::new(stack().0);
        let timer = wirespeed_net::ThreadTimer::new().expect("a thread");
        tokio::spawn(driver.with_timer(timer));
        let data = pattern(100_000);
        tokio::time::timeout(SOON, conversation(&net, &data)).await.expect("in time");
    });
}

fn side_by_side() {
    let (mut ours, _) = stack();
    let (left, right) = mem::pair(&mem::Config::default());
    let memory =
        PortConfig { mac: mac(1), addresses: addresses(1).to_vec(), ..PortConfig::default() };
    let port = ours.add_port(Box::new(left), memory);
    ours.add_neighbour(port, addresses(2)[0].addr, mac(2));
    let other = end(&PairConfig::new([5, 5]), right, 2);
    let at = SocketAddr::new(other.addr, 7);
    let (net, _driver) = Net::spawn_thread(ours).expect("the thread starts");
    let (other, _other_driver) = Net::spawn_thread(other.stack).expect("the thread starts");
    let listener = blocking::TcpListener::bind(&other, at).expect("nobody listens there");
    let (kernel, kernel_at) = kernel_listener();
    let data = pattern(BYTES);
    thread::scope(|scope| {
        scope.spawn(|| assert_reads(&mut kernel.accept().expect("our stack connects").0, &data));
        scope.spawn(|| assert_reads(&mut listener.accept().expect("our stack connects").0, &data));
        for to in [at, kernel_at] {
            let (net, data) = (&net, &data);
            scope.spawn(move || {
                let mut stream = blocking::TcpStream::connect_timeout(net, to, SOON).expect("open");
                stream.write_all(data).expect("the peer reads");
            });
        }
    });
}

fn idle() {
    for threads in [true, false] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let (net, driver) = Net::new(stack().0);
            let driver = if threads {
                Some(driver.spawn_thread().expect("the thread starts"))
            } else {
                tokio::spawn(driver.with_tokio());
                None
            };
            let (listener, at) = kernel_listener();
            let mut stream = TcpStream::connect(&net, at).await.expect("it listens");
            let _peer = listener.accept().expect("our stack connects");
            stream.write_all(b"hello").await.expect("open");
            // After this time IPv6 router solicitations and delayed ACKs are over, or rare.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            let (before, began) = (processor_time(), Instant::now());
            tokio::time::sleep(Duration::from_secs(2)).await;
            let share = (processor_time() - before).as_secs_f64() / began.elapsed().as_secs_f64();
            assert!(
                share < 0.005,
                "the idle stack used {:.3} % of a core, {threads}",
                share * 100.0
            );
            net.shut_down();
            if let Some(driver) = driver {
                driver.join().expect("it did not panic");
            }
        });
    }
}

fn ping_pong() {
    let (net, _driver) = Net::spawn_thread(stack().0).expect("the thread starts");
    let (listener, at) = kernel_listener();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut peer, _) = listener.accept().expect("our stack connects");
            let mut room = [0; 64];
            while peer.read_exact(&mut room).is_ok() {
                peer.write_all(&room).expect("our stack reads");
            }
        });
        let mut stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
        stream.set_nodelay(true).expect("open");
        stream.set_read_timeout(Some(SOON)).expect("not zero");
        for round in 0..2_000_u32 {
            let sent = [round as u8; 64];
            let mut got = [0; 64];
            stream.write_all(&sent).expect("open");
            stream.read_exact(&mut got).expect("the echo");
            assert_eq!(sent, got);
        }
    });
}

/// The kernel's raw sockets receive our packets. Their TTL and Differentiated Services field are
/// those that the program has set. RFC 9293 MUST-48, SHLD-21, SHLD-22, MUST-49 (sections 3.9.1.9
/// and 3.9.2).
fn ip_header() {
    let (net, _driver) = Net::spawn_thread(stack().0).expect("the thread starts");
    let raw = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::RAW,
        Some(socket2::Protocol::TCP),
    );
    let raw = raw.expect("root opens one");
    raw.set_read_timeout(Some(SOON)).expect("not zero");
    let next = |raw: &socket2::Socket| -> (u8, u8) {
        let mut bytes = [0_u8; 2048];
        loop {
            let n = (&*raw).read(&mut bytes).expect("a packet");
            if n >= 20 && bytes[12..16] == [10, 77, 0, 2] {
                return (bytes[1], bytes[8]);
            }
        }
    };
    let (_listener, at) = kernel_listener();
    let mut socket = TcpSocket::new(&net);
    socket.set_ttl(7).expect("valid").set_tos(0xb8 | 1).expect("valid");
    let mut stream =
        blocking::TcpStream::connect_with(&socket, at, Some(SOON)).expect("it listens");
    assert_eq!(next(&raw), (0xb8, 7), "the SYN's");
    assert_eq!((stream.ttl().unwrap(), stream.tos().unwrap()), (7, 0xb8));
    stream.set_ttl(9).expect("valid");
    stream.set_tos(0x28).expect("valid");
    assert!(stream.set_ttl(0).is_err() && stream.set_ttl(256).is_err());
    assert!(stream.set_tos(256).is_err());
    stream.write_all(b"with other headers").expect("open");
    while next(&raw) != (0x28, 9) {}
    let udp = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::RAW,
        Some(socket2::Protocol::UDP),
    );
    let udp = udp.expect("root opens one");
    udp.set_read_timeout(Some(SOON)).expect("not zero");
    let ours = UdpSocket::bind(&net, SocketAddr::new(OURS, 0)).expect("free");
    ours.set_ttl(3).expect("valid");
    ours.set_tos(4).expect("valid");
    ours.try_send_to(b"x", SocketAddr::new(KERNEL, 9)).expect("room");
    assert_eq!(next(&udp), (4, 3));
    // Accepted connections have the settings of their listener, beginning with the SYN-ACK.
    let at = SocketAddr::new(OURS, 80);
    let listener = TcpSocket::new(&net).bind(at).set_ttl(5).expect("valid").listen(1);
    let _listener: TcpListener = listener.expect("free");
    let _client = std::net::TcpStream::connect(at).expect("our stack listens");
    while next(&raw).1 != 5 {}
}

fn linger() {
    let (net, _driver) = Net::spawn_thread(stack().0).expect("the thread starts");
    let (listener, at) = kernel_listener();
    let mut stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
    let (mut peer, _) = listener.accept().expect("our stack connects");
    stream.set_linger(Some(SOON)).expect("open");
    assert_eq!(stream.linger().expect("open"), Some(SOON));
    stream.write_all(&pattern(40_000)).expect("room");
    let stats = |net: &Net| net.with_stack(|s| s.connection_count()).expect("the driver runs");
    drop(stream);
    // The kernel has all the data, because dropping the stream waited for the acknowledgments.
    peer.set_nonblocking(true).expect("open");
    let mut got = vec![0; 300_000];
    let mut done = 0;
    loop {
        match peer.read(&mut got[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) => panic!("{error} after {done} bytes, {} connections", stats(&net)),
        }
    }
    assert!(got[..done] == pattern(40_000));
    // Without acknowledgments, dropping the stream waits for the linger time at most.
    let mut stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
    let _peer = listener.accept().expect("our stack connects");
    stream.set_linger(Some(Duration::from_millis(20))).expect("open");
    crate::ends::ip("link set ws0 down");
    stream.write_all(b"lost").expect("room");
    drop(stream);
    assert_eq!(
        stats(&net),
        2,
        "both connections go on without their sockets; one waits for the peer's FIN"
    );
}
