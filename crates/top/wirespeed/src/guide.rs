//! How to embed the stack: from the dependency to sockets that carry data. Each code block here is
//! compiled, and run by the tests unless it needs root.
//!
//! Called by: readers.
//!
//! # 1. Depend on it
//! ```toml
//! wirespeed = { version = "0.1", features = ["tokio"] }
//! ```
//! `net` is enough for threads; `futures` has the traits of futures-io.
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
//! # 3. Drive it
//! [`crate::net::Net::spawn_thread`] drives the stack on a thread, `Net::spawn_tokio` on a task.
//! The driver sleeps until a device, a timer or a call wakes it.
//!
//! # 4. Use the sockets: threads
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
//! # 5. Use the sockets: tasks
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
//! # 6. Errors, and what else there is
//! Errors have the kinds of `std`, and their texts say what to do. If a device fails, its
//! connections fail with `NetworkDown` and the device's reason; [`crate::net::Net::replace_port`]
//! gives the port another device. To accept connections to any address, see
//! [`crate::net::Forwarder`]. Complete programs are in the folder `examples`.
//!
//! # 7. Bring your own device
//! This is `crates/top/wirespeed/examples/bring_your_own.rs`: a device that carries packets inside
//! UDP datagrams, and a TCP connection over it. [`crate::Device`] has the contract of a device.
//! ```
#![doc = include_str!("../examples/bring_your_own.rs")]
//! ```
//!
//! # 8. Be seen
//! With the feature `observe` (Linux), one line has a program seen by `wirespeed show`, `top`,
//! `dump`, `explain` and a browser: by its own user and root, and nobody changes anything unless
//! `allow_changes` is called. It is seen until what the line returned is dropped.
//! ```
//! # #[cfg(all(feature = "observe", feature = "mem", target_os = "linux"))] {
//! # use wirespeed::net::Net;
//! # use wirespeed::pair::{PairConfig, pair};
//! # let (end, _other) = pair(&PairConfig::new([1, 2]));
//! # let (net, _driver) = Net::spawn_thread(end.stack)?;
//! let _seen = wirespeed::observe::Observer::new("my-program").page("127.0.0.1:0")?.start(net)?;
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//! `examples/src/bin/seen.rs` is a whole program. One that polls its stack by hand calls
//! `wirespeed::observe::Service::poll` between two turns.
//!
//! # 9. Answer questions of your own
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
