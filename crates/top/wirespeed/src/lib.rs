//! wirespeed is a TCP/IP stack that runs inside your process. This is the crate to depend on: it
//! has no code of its own and re-exports what programs need from the other crates.
//!
//! Called by: programs. There are two ways in:
#![cfg_attr(
    feature = "net",
    doc = "- **Sockets**, blocking or async, with a driver that polls for you: [`net`]. The \
           [`guide`] begins with them, and has routes, DHCP, DNS, hyper and a graceful end."
)]
#![cfg_attr(
    not(feature = "net"),
    doc = "- **Sockets**, blocking or async, with a driver that polls for you: feature `net`."
)]
//! - **A stack that you poll**, in a loop of your own: below.
//!
//! # A stack is polled
//! A [`Stack`] is one shard with its own connections, buffers, timers and counters. It has no lock
//! and no thread, reads no clock and draws no random numbers. Its owner
//! 1. makes it with a secret seed, adds ports (a [`Device`] with addresses), neighbours, routes;
//! 2. calls [`Stack::poll`] with the time when a port has frames or [`Stack::next_deadline`] has
//!    come, and takes [`Stack::next_event`] until there is none;
//! 3. opens, listens, writes and reads in between. No call blocks: a call that cannot be done now
//!    returns [`CallError::WouldBlock`], and an event says when to try again.
//!
//! Every drop is counted under a named reason ([`Stack::drops`]). Every optimisation has a switch
//! ([`Stack::set_switch`]), every queue and table a limit ([`Stack::budget`]).
//!
//! # Two stacks in memory exchange a message
//! ```
//! # #[cfg(feature = "mem")] {
//! use std::net::SocketAddr;
//! use wirespeed::pair::{PairConfig, pair};
//! use wirespeed::tcp::Config;
//! use wirespeed::{CallError, Event, Instant, ListenConfig, Owner};
//!
//! // The seed of a real program is drawn at random; a fixed one gives the same packets each time.
//! let (mut client, mut server) = pair(&PairConfig::new([1, 2]));
//! let mut now = Instant::from_nanos(1);
//!
//! let address = SocketAddr::new(server.addr, 7);
//! let listener = server.stack.tcp_listen(address, ListenConfig::default()).expect("port is free");
//! let sending = client
//!     .stack
//!     .tcp_connect(address, None, &Config::default(), Owner::program(), now)
//!     .expect("the server's network is attached");
//!
//! let (mut receiving, mut sent, mut got) = (None, false, Vec::new());
//! loop {
//!     now = Instant::from_nanos(now.as_nanos() + 1_000);
//!     client.stack.poll(now);
//!     server.stack.poll(now);
//!     if !sent {
//!         // WouldBlock until the handshake is through.
//!         sent = client.stack.tcp_write(sending, b"hello, stack").is_ok();
//!         if sent {
//!             client.stack.tcp_shutdown_write(sending);
//!         }
//!     }
//!     while let Some(event) = server.stack.next_event() {
//!         if let Event::Accept(_) = event {
//!             receiving = server.stack.tcp_accept(listener);
//!         }
//!     }
//!     let Some(connection) = receiving else { continue };
//!     let mut room = [0; 64];
//!     match server.stack.tcp_read(connection, &mut room) {
//!         Ok(0) => break, // the client has closed, and everything was read
//!         Ok(n) => got.extend_from_slice(&room[..n]),
//!         Err(CallError::WouldBlock) => {}
//!         Err(error) => panic!("{error:?}"),
//!     }
//! }
//! assert_eq!(got, b"hello, stack");
//! # }
//! ```
//!
//! # Features
//! - `mem` (default): a link inside a process ([`device::mem`]), and [`pair`], two stacks joined by
//!   one.
//! - `linux` (default): TAP and TUN, which connect to the kernel; packet and AF_XDP sockets, which
//!   use an interface of the kernel. On other systems it adds nothing; write a [`Device`] or use
//!   one end of [`device::channel`].
//! - `net`: sockets for threads and tasks, the driver, the forwarder (`wirespeed::guide`).
//! - `tokio`, `futures`: the traits of these crates for the sockets.
//! - `observe`: this program is seen by `wirespeed show`, `top` and the other tools, and by a
//!   browser; `control` is only the socket that they ask over (Linux; on other systems they add
//!   nothing).
//! - `router`: the router of `wirespeed up`, in a program of yours (Linux).
//! - `smoltcp`: a device of smoltcp as a port, and one of ours for smoltcp (`docs/smoltcp.md`).
//! - `capture`: a wrapper that writes every frame of a device to a pcapng file.
//!
//! `cargo doc -p wirespeed --all-features --no-deps` makes the pages of all of them.

// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(inline)]
pub use base;
pub use base::{
    Budget, Cidr, Counter, Counters, DropReason, Drops, Duration, Instant, IpVersion, KeyedHash,
    Limit, LinkKind, MacAddr, Mss, Mtu, Owner, Switch, Switches, WallTime,
};

pub use mbuf::{Mbuf, Pool};

/// TCP for its users: settings, statistics, events.
pub mod tcp {
    pub use tcp::Error;
    pub use tcp::cc::Algorithm;
    pub use tcp::info::Repair;
    pub use tcp::{Compat, Config, Ecn, Events, Info, State};
}

/// The trait of everything that moves frames, and its implementations.
pub mod device {
    #[cfg(target_os = "linux")]
    pub use device::Alarm;
    #[cfg(feature = "capture")]
    pub use device::capture;
    pub use device::{BURST, Burst, Device, Doorbell, Limits, Offloads};
    pub use device::{channel, counted, fault, mitigation, vlan};
    #[cfg(feature = "mem")]
    pub use device::{mem, nic};
    #[cfg(all(feature = "linux", target_os = "linux"))]
    pub use device::{namespace, packet, peer_groups, pty, tap, vm, xdp};
}
pub use device::Device;

#[cfg(all(feature = "control", target_os = "linux"))]
#[doc(inline)]
pub use control;
#[cfg(all(feature = "observe", target_os = "linux"))]
#[doc(inline)]
pub use observe;
#[cfg(all(feature = "router", target_os = "linux"))]
#[doc(inline)]
pub use router;
#[cfg(feature = "net")]
pub mod guide;
/// Start with the [`guide`].
#[cfg(feature = "net")]
#[doc(inline)]
pub use net;
/// Devices of smoltcp as ports, and devices of ours for smoltcp.
#[cfg(feature = "smoltcp")]
#[doc(inline)]
pub use phy as smoltcp;
#[cfg(feature = "mem")]
pub use stack::pair;
/// README's program is compiled and run as a doctest.
#[cfg(all(doctest, feature = "net"))]
#[doc = include_str!("../../../../README.md")]
struct Readme;
/// The page for those who come from smoltcp; its programs are compiled and run as doctests.
#[cfg(all(doctest, feature = "net", feature = "smoltcp"))]
#[doc = include_str!("../../../../docs/smoltcp.md")]
struct FromSmoltcp;
#[cfg(feature = "virtual-time")]
#[doc(inline)]
pub use virtual_time;
// The users who may use a route, and the rules that choose its table.
pub use stack::route::{Access, Action, GROUPS_MAX, MAIN_PRIORITY, Rule, RuleError};
pub use stack::shard;
pub use stack::snapshot;
pub use stack::{
    Address, AddressError, AddressState, Armed, AutoConfig, AutoconfError, AutoconfStatus, Awaited,
    BroadcastForm, CallError, ConnectError, Datagram, Echo, EchoError, ErrorKind, Event,
    FastConnect, FastOpenConfig, FibFound, FibQuery, FibResult, FilterMode, Foreign,
    ForeignDatagram, ForeignError, ForeignFlow, ForeignKind, GAP_MAX, GapError, GroupError,
    GroupRow, Identifiers, IpSettings, ListenConfig, ListenError, ListenerHandle, Loan,
    MitigationError, MtuDiscovery, MtuError, MulticastOptions, NeighbourState, Origin,
    OtherBroadcaster, PingHandle, PortConfig, PortId, Progress, ReplaceError, RequestHandle, Route,
    RouteOrigin, Router, RouterSolicitation, SourceChange, SourceFilter, Stack, StackConfig, TapId,
    TcpHandle, UdpError, UdpErrorReport, UdpHandle, UdpOptions, UdpReceived, Unreachable,
    VirtualClock, Vrf, check_address, dplpmtud, is_destination, route::MAIN_TABLE,
    route::PATHS_MAX, route::SourceCheck,
};
