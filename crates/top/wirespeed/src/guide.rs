//! How to embed the stack: from the dependency to sockets that carry data. Each code block here is
//! compiled, and run by the tests unless it needs root.
//!
//! Called by: readers.
//!
//! # 1. Depend on it
//! ```toml
//! wirespeed = { path = "../wirespeed/crates/top/wirespeed", features = ["tokio"] }
//! ```
//! The path is that of a checkout beside your program. `net` is enough for threads; `futures` has
//! the traits of futures-io.
//!
//! # 2. Make a stack, and choose its device
//! A stack needs a secret seed, at least one port, and an address on it. On Linux, a TUN interface
//! connects the stack to your machine's kernel (this needs root or `cap_net_admin`):
//! ```no_run
//! # #[cfg(all(feature = "linux", target_os = "linux"))] {
//! use wirespeed::device::tap::{Config, Setup, Tap};
//! use wirespeed::net::Net;
//! use wirespeed::{LinkKind, PortConfig, Stack, StackConfig};
//!
//! let mut tun = Tap::open(&Config { link: LinkKind::Ip, ..Config::default() })?;
//! let kernel = vec!["10.1.0.1/24".parse()?];
//! tun.configure(&Setup { addresses: kernel, up: true, ..Setup::default() })?;
//! let seed = [1, 2]; // 128 random bits, from `getrandom` or the like
//! let mut stack = Stack::new(StackConfig::new(seed));
//! let ours = PortConfig { addresses: vec!["10.1.0.2/24".parse()?], ..PortConfig::default() };
//! stack.add_port(Box::new(tun), ours);
//! let (net, _driver) = Net::spawn_thread(stack)?;
//! # drop(net);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! On other systems, and in tests, join two stacks by a link in memory, write a [`crate::Device`]
//! of your own, or move frames as bytes with [`crate::device::channel`].
//!
//! # 3. Add a default route
//! A port reaches the networks of its own addresses. Everything else needs a route with a gateway,
//! and both versions of IP have their own. Routes and addresses may be added before or while the
//! stack runs ([`crate::net::Net::with_stack`]). The device here is one that a program feeds with
//! packets as plain bytes, and needs no root.
//! ```
//! use wirespeed::device::channel::{self, Config};
//! use wirespeed::{LinkKind, PortConfig, Route, Stack, StackConfig};
//!
//! let mut stack = Stack::new(StackConfig::new([1, 2]));
//! let (device, _packets) = channel::pair(&Config { link: LinkKind::Ip, ..Config::default() });
//! let addresses = vec!["192.0.2.2/24".parse()?, "2001:db8::2/64".parse()?];
//! let port = stack.add_port(Box::new(device), PortConfig { addresses, ..PortConfig::default() });
//! for (to, via) in [("0.0.0.0/0", "192.0.2.1"), ("::/0", "2001:db8::1")] {
//!     let is_added = stack.add_route(Route::new(to.parse()?, Some(via.parse()?), port.0));
//!     assert!(is_added, "the limit `routes` is reached");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # 4. Or ask for an address: DHCP
//! [`crate::net::dhcp`] configures an Ethernet port: address, routes, MTU. The program calls
//! `poll` again and again, also when it has a lease, because leases are renewed. The lease names
//! servers for DNS, and the program decides whether to use them. [`crate::net::dhcp6`] does the
//! same for IPv6, and `Stack::autoconfigure` follows routers' advertisements (SLAAC).
//! ```no_run
//! # #[cfg(all(feature = "linux", target_os = "linux"))] {
//! use std::time::Duration;
//! use wirespeed::device::tap::{self, Setup, Tap};
//! use wirespeed::net::dhcp::{Change, Config, DhcpPort};
//! use wirespeed::net::{Net, dns};
//! use wirespeed::{KeyedHash, PortConfig, Stack, StackConfig};
//!
//! let mut tap = Tap::open(&tap::Config::default())?;
//! tap.configure(&Setup { up: true, ..Setup::default() })?;
//! let mac = tap.our_mac().unwrap_or_default();
//! let mut stack = Stack::new(StackConfig::new([1, 2]));
//! let addresses = Vec::new(); // a server gives one
//! let config = PortConfig { mac, addresses, ..PortConfig::default() };
//! let port = stack.add_port(Box::new(tap), config);
//! let (net, _driver) = Net::spawn_thread(stack)?;
//!
//! let config = Config::new(mac, KeyedHash::new(3, 4)); // 128 more random bits
//! let mut client = net.with_stack(|stack| {
//!     let now = stack.now();
//!     DhcpPort::new(stack, port, config, now)
//! })??;
//! loop {
//!     let change = net.with_stack(|stack| {
//!         let now = stack.now();
//!         client.poll(stack, now)
//!     })?;
//!     match change {
//!         Some(Change::Configured(lease)) => {
//!             let servers = lease.dns_servers.iter().map(|&ip| (ip, dns::PORT).into()).collect();
//!             let config = dns::Config { servers, search: lease.search, ..Default::default() };
//!             net.set_resolver(config, dns::Hosts::default())?;
//!         }
//!         Some(other) => println!("{other}"), // a sentence for a log
//!         None => std::thread::sleep(Duration::from_millis(50)),
//!     }
//! }
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # 5. Drive it
//! [`crate::net::Net::spawn_thread`] drives the stack on a thread, `Net::spawn_tokio` on a task.
//! The driver sleeps until a device, a timer or a call wakes it.
//!
//! # 6. Use the sockets: threads
//! The calls are those of `std::net`, with the stack as first argument.
//! ```
//! # #[cfg(feature = "mem")] {
//! use std::io::{Read, Write};
//! use std::net::{Shutdown, SocketAddr};
//! use wirespeed::net::{Net, blocking};
//! use wirespeed::pair::{PairConfig, pair};
//!
//! let (client, server) = pair(&PairConfig::new([1, 2]));
//! let at = SocketAddr::new(server.addr, 7);
//! let (client, _driver) = Net::spawn_thread(client.stack)?;
//! let (server, _other) = Net::spawn_thread(server.stack)?;
//!
//! let listener = blocking::TcpListener::bind(&server, at)?;
//! let echo = std::thread::spawn(move || -> std::io::Result<u64> {
//!     let (stream, _from) = listener.accept()?;
//!     std::io::copy(&mut &stream, &mut &stream)
//! });
//! let mut stream = blocking::TcpStream::connect(&client, at)?;
//! stream.write_all(b"hello")?;
//! stream.shutdown(Shutdown::Write)?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(answer, "hello");
//! assert_eq!(echo.join().expect("it did not panic")?, 5);
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # 7. Use the sockets: tasks
//! ```
//! # #[cfg(all(feature = "mem", feature = "tokio"))] {
//! use std::net::SocketAddr;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use wirespeed::net::{Net, TcpListener, TcpStream};
//! use wirespeed::pair::{PairConfig, pair};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let (client, server) = pair(&PairConfig::new([1, 2]));
//! let at = SocketAddr::new(server.addr, 7);
//! let (client, _driver) = Net::spawn_tokio(client.stack);
//! let (server, _other) = Net::spawn_tokio(server.stack);
//!
//! let listener = TcpListener::bind(&server, at)?;
//! let mut ours = TcpStream::connect(&client, at).await?;
//! let (mut theirs, _from) = listener.accept().await?;
//! ours.write_all(b"hello").await?;
//! let mut five = [0; 5];
//! theirs.read_exact(&mut five).await?;
//! assert_eq!(&five, b"hello");
//! ours.close().await?; // waits until the peer has acknowledged all of it
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # 8. Look up names: DNS
//! The resolver has no servers before [`crate::net::Net::set_resolver`]. `connect_host` looks a
//! name up and tries its addresses; `lookup_host` only looks it up. A program that follows the
//! system's settings passes the texts of `/etc/resolv.conf` and `/etc/hosts` to
//! `dns::Config::from_resolv_conf` and `dns::Hosts::from_text`.
//! ```
//! # #[cfg(feature = "mem")] {
//! # use std::net::SocketAddr;
//! use wirespeed::net::{Net, blocking, dns};
//! # use wirespeed::pair::{PairConfig, pair};
//!
//! # let (client, server) = pair(&PairConfig::new([1, 2]));
//! # let address = server.addr;
//! # let (net, _driver) = Net::spawn_thread(client.stack)?;
//! # let (server, _other) = Net::spawn_thread(server.stack)?;
//! # let _listener = blocking::TcpListener::bind(&server, SocketAddr::new(address, 80))?;
//! let config = dns::Config { servers: vec!["192.0.2.53:53".parse()?], ..Default::default() };
//! let mut hosts = dns::Hosts::default(); // names that no server is asked for
//! hosts.add("server.example", address)?;
//! net.set_resolver(config, hosts)?;
//!
//! assert_eq!(blocking::lookup_host(&net, "server.example")?, [address]);
//! let stream = blocking::TcpStream::connect_host(&net, "server.example", 80)?;
//! assert_eq!(stream.peer_addr()?.ip(), address);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # 9. End gracefully
//! Dropping a stream closes it, and the stack goes on to send the data that it has. `close` waits
//! until the peer has acknowledged it. When the last [`crate::net::Net`] and the last socket are
//! gone, the driver finishes their connections and ends; a program that waits for it loses nothing.
//! [`crate::net::DriverThread::stop`] does not wait for connections.
//! ```
//! # #[cfg(feature = "mem")] {
//! use std::io::{Read, Write};
//! # use std::net::SocketAddr;
//! use wirespeed::net::{Net, blocking};
//! # use wirespeed::pair::{PairConfig, pair};
//!
//! # let (client, server) = pair(&PairConfig::new([1, 2]));
//! # let at = SocketAddr::new(server.addr, 7);
//! # let (server, _other) = Net::spawn_thread(server.stack)?;
//! # let listener = blocking::TcpListener::bind(&server, at)?;
//! # let peer = std::thread::spawn(move || -> std::io::Result<String> {
//! #     let mut text = String::new();
//! #     listener.accept()?.0.read_to_string(&mut text)?;
//! #     Ok(text)
//! # });
//! let (net, driver) = Net::spawn_thread(client.stack)?;
//! let mut stream = blocking::TcpStream::connect(&net, at)?;
//! stream.write_all(b"the last words")?;
//! drop(stream); // a FIN behind the data
//! drop(net); // no new sockets
//! driver.join()?; // all of it has left, and was acknowledged
//! # assert_eq!(peer.join().expect("it did not panic")?, "the last words");
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//! With tokio, `stream.close().await` and then awaiting the handle of `Net::spawn_tokio` do the
//! same.
//!
//! # 10. Speak HTTP: hyper
//! With feature `tokio` the streams have tokio's traits, so that hyper and tokio-rustls take them
//! as they take tokio's own:
//! ```text
//! let stream = wirespeed::net::TcpStream::connect(&net, at).await?;
//! let io = hyper_util::rt::TokioIo::new(stream);
//! let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
//! ```
//! `examples/src/client.rs` is a client with and without TLS, `examples/src/files.rs` a server, and
//! `examples/src/bin/https-get.rs` and `https-files.rs` are programs of them.
//!
//! # 11. Poll by hand
//! A program with a loop of its own needs neither driver nor lock: [`crate::Stack`] alone. A turn
//! is [`crate::Stack::poll`], the events, and the calls of the program. Before the program sleeps
//! it asks the devices to wake it ([`crate::Stack::arm`]). Devices of Linux have descriptors to
//! sleep at ([`crate::Stack::descriptors`]); those in memory call a waker, as here.
//! ```
//! # #[cfg(feature = "mem")] {
//! use std::sync::Arc;
//! use std::task::{Wake, Waker};
//! use std::thread::Thread;
//! use std::time::Duration;
//! use wirespeed::{Armed, Event, Instant, Owner, Stack};
//! # use wirespeed::net::Net;
//! # use wirespeed::pair::{PairConfig, pair};
//!
//! struct Unpark(Thread);
//!
//! impl Wake for Unpark {
//!     fn wake(self: Arc<Self>) {
//!         self.0.unpark();
//!     }
//! }
//!
//! /// Sleep until a device has something or a timer is due.
//! fn sleep(stack: &mut Stack, waker: &Waker, now: Instant) {
//!     let timer = Duration::from(stack.next_deadline().since(now));
//!     match stack.arm(waker) {
//!         Armed::Ready => {}
//!         Armed::All => std::thread::park_timeout(timer),
//!         _ => std::thread::park_timeout(timer.min(Duration::from_millis(1))),
//!     }
//! }
//!
//! # let (end, other) = pair(&PairConfig::new([1, 2]));
//! # let at = std::net::SocketAddr::new(other.addr, 7);
//! # let (other, _driver) = Net::spawn_thread(other.stack)?;
//! # let socket = wirespeed::net::blocking::UdpSocket::bind(&other, at)?;
//! # std::thread::spawn(move || {
//! #     let mut room = [0; 64];
//! #     let (n, from) = socket.recv_from(&mut room)?;
//! #     socket.send_to(&room[..n], from)
//! # });
//! # let mut stack = end.stack;
//! let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
//! let begin = std::time::Instant::now();
//! let local = (std::net::Ipv4Addr::UNSPECIFIED, 0).into();
//! let socket = stack.udp_bind(local, Owner::program())?;
//! stack.udp_send(socket, at, b"hello", Instant::ZERO)?;
//! let answer = loop {
//!     let now = Instant::ZERO + begin.elapsed().into();
//!     stack.poll(now);
//!     let mut is_ours = false;
//!     while let Some(event) = stack.next_event() {
//!         is_ours |= event == Event::Udp(socket);
//!     }
//!     let mut room = [0; 64];
//!     if is_ours && let Some(datagram) = stack.udp_receive_into(socket, &mut room) {
//!         break room[..datagram.len].to_vec();
//!     }
//!     sleep(&mut stack, &waker, now);
//! };
//! assert_eq!(answer, b"hello");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! The page of this crate has a loop in virtual time.
//!
//! # 12. Errors, and what else there is
//! Errors have the kinds of `std`, and their texts say what to do. If a device fails, its
//! connections fail with `NetworkDown` and the device's reason; [`crate::net::Net::replace_port`]
//! gives the port another device. To accept connections to any address, see
//! [`crate::net::Forwarder`]; for a stack on each core, [`crate::net::Shards`]. Complete programs
//! are in the folder `examples`.
//!
//! # 13. Bring your own device
//! This is `crates/top/wirespeed/examples/bring_your_own.rs`: a device that carries packets inside
//! UDP datagrams, and a TCP connection over it. [`crate::Device`] has the contract of a device.
//! ```
#![doc = include_str!("../examples/bring_your_own.rs")]
//! ```
//!
//! # 14. Be seen
//! With the feature `observe` (Linux), one line has a program seen by `wirespeed show`, `top`,
//! `dump`, `explain` and a browser: by its own user and root, and nobody changes anything unless
//! `allow_changes` is called. It is seen until what the line returned is dropped.
//! ```
//! # #[cfg(all(feature = "observe", feature = "mem", target_os = "linux"))] {
//! # use wirespeed::net::Net;
//! # use wirespeed::pair::{PairConfig, pair};
//! # let (end, _other) = pair(&PairConfig::new([1, 2]));
//! # let (net, _driver) = Net::spawn_thread(end.stack)?;
//! let seen = wirespeed::observe::Observer::new("my-program").page("127.0.0.1:0")?.start(net)?;
//! println!("{}", seen.page().unwrap_or_default()); // where the page is
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//! Then, as the same user, while no other program is seen (else `--pid N` chooses one):
//! ```text
//! wirespeed show tcp       # its connections
//! wirespeed show drops     # what it dropped, by reason
//! wirespeed explain        # what limits its connections
//! ```
//! `examples/src/bin/seen.rs` is a whole program. One that polls its stack by hand calls
//! `wirespeed::observe::Service::poll` between two turns.
//!
//! # 15. Answer questions of your own
//! The socket is of use without that, too (feature `control`): the program defines questions and
//! answers. The kernel, not the client, identifies the client's user and groups, so that the
//! program can decide whom to answer.
//! ```
//! # #[cfg(all(feature = "control", target_os = "linux"))] {
//! use std::time::Duration;
//! use wirespeed::control::{Client, Message, Reply, Server, own_user_and_root};
//! use wirespeed::device::peer_groups;
//! use wirespeed::pair::{PairConfig, pair};
//! use wirespeed::{Budget, Instant};
//!
//! let path = std::env::temp_dir().join(format!("guide-{}.sock", std::process::id()));
//! let mut server = Server::bind(&path, Budget::default(), peer_groups, own_user_and_root)?;
//! let asker = std::thread::spawn(move || -> Result<usize, wirespeed::control::ControlError> {
//!     Client::connect(&path, Duration::from_secs(5))?.request(&"how many connections?")
//! });
//!
//! let (end, _other) = pair(&PairConfig::new([1, 2]));
//! let mut answered = 0;
//! while answered == 0 || server.clients() > 0 {
//!     // A program that has nothing else to do sleeps at `Server::descriptors`.
//!     answered += server.poll(Instant::from_nanos(1), |_asker, _question, _may_wait| {
//!         let payload = end.stack.connection_count().to_string().into_bytes();
//!         Reply::Now(Message { payload, descriptors: Vec::new() })
//!     });
//! }
//! assert_eq!(asker.join().expect("it did not panic")?, 0);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
