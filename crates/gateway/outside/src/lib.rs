//! Outsides of a gateway that somebody can use: [`Host`] carries the flows of guests by sockets of
//! the host. The engine, crate `gateway`, makes no system call; this crate makes them all, without
//! `unsafe`.
//!
//! Called by: programs with an event loop. Read `host.rs` first; `tcp.rs` has connections,
//! `datagrams.rs` sockets for datagrams and echoes, `listen.rs` published ports, `via.rs`
//! proxies, `tunnel.rs` WireGuard; `egress.rs` joins all ways out; `relay.rs` joins connections of
//! two network namespaces past the engine. Decisions 0140 and 0143 have the reasons.
//!
//! # A loop
//!
//! One thread waits for everything in one `epoll_pwait2`: sockets of the host, the guest's device,
//! and other descriptors of the program.
//!
//! ```no_run
//! use base::{Instant, LinkKind};
//! use gateway::{AllowAll, Around, Config, Gateway, Ready};
//! use wirespeed_outside::{Host, Wake};
//! use stack::{Foreign, PortConfig, Stack, StackConfig};
//!
//! # fn run(
//! #     device: Box<dyn device::Device>,
//! #     descriptor: std::net::UdpSocket,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let foreign = Foreign { udp: true, echo: true, unclaimed: true, newcomers: false };
//! let mut stack = Stack::new(StackConfig { foreign, ..StackConfig::new([1, 2]) });
//! let addresses = vec!["10.0.2.2/24".parse()?];
//! stack.add_port(device, PortConfig { addresses, ..PortConfig::default() });
//! let mut engine = Gateway::new(&mut stack, Config::default())?;
//!
//! wirespeed_outside::raise_descriptors();
//! let mut host = Host::new(wirespeed_outside::descriptors())?;
//! const GUEST: u32 = 0;
//! host.watch(descriptor, GUEST, Ready::READABLE)?;
//! let web = host.listen(&"127.0.0.1/8080".parse()?)?;
//!
//! let began = std::time::Instant::now();
//! loop {
//!     let now = Instant::from_nanos(began.elapsed().as_nanos() as u64 + 1);
//!     let mut work = stack.poll_before_flush(now);
//!     while let Some(event) = stack.next_event() {
//!         engine.event(event);
//!     }
//!     while let Some(wake) = host.next_wake() {
//!         match wake {
//!             Wake::Outside(token, ready) => engine.ready(token, ready),
//!             Wake::Own(GUEST, _) => {} // the stack's poll has taken the frames
//!             Wake::Own(..) => {}
//!         }
//!     }
//!     let mut around =
//!         Around { stack: &mut stack, outside: &mut host, policy: &mut AllowAll, now };
//!     while let Some(accepted) = around.outside.accept() {
//!         if accepted.listener == web {
//!             let to = "10.0.2.100:80".parse()?;
//!             engine.accept_published(accepted.tcp, accepted.client, to, &mut around);
//!         }
//!     }
//!     engine.turn(&mut around);
//!     stack.flush();
//!     let is_busy = work > 0 || engine.has_work();
//!     let until = if is_busy { now } else { stack.next_deadline().min(engine.next_deadline()) };
//!     host.wait(now, until)?;
//! }
//! # }
//! ```

mod counts;
mod datagrams;
mod egress;
mod engine;
mod errors;
mod host;
mod info;
mod limits;
mod listen;
mod relay;
mod tcp;
mod tunnel;
mod via;

pub use self::host::{Host, Wake};
pub use counts::Counts;
pub use datagrams::Socket;
pub use egress::{Egress, EgressSocket, EgressTcp, Outlet};
pub use engine::{AnyPolicy, HostGateway, event, ready, turn};
pub use info::TcpInfo;
pub use limits::{RESERVED, descriptors, raise_descriptors};
pub use listen::{Accepted, Bound, Listen, ListenParseError, ListenerId};
pub use relay::{Relay, RelayCounts};
pub use tcp::Tcp;
pub use tunnel::{Clock, Tunnel, TunnelConfig, TunnelParseError};
pub use via::{Via, ViaParseError};
