//! Sockets for programs that have a stack of their own: for tasks of any runtime ([`TcpStream`],
//! [`TcpListener`], [`UdpSocket`]), for threads ([`blocking`]), and the [`Forwarder`], which takes
//! connections to any destination.
//!
//! Called by: programs.
//!
//! # How it works
//! [`Net::new`] puts a stack under one lock and returns a [`Driver`], which must run: as a thread
//! ([`Driver::spawn_thread`]), as a task ([`Driver::with_timer`], with feature `tokio`
//! `Driver::with_tokio`). No connection has a thread or a task of its own. An idle stack uses no
//! processor time: its driver sleeps until a device, a timer or a call wakes it. A call that writes
//! sends the data before it returns. A thread that waits in a blocking call drives the stack itself
//! while no other thread does, so that a frame wakes only that thread.
//!
//! A program with an event loop of its own, or with a clock of its own, polls the stack by steps
//! instead ([`Net::stepped`]).
//!
//! [`Shards`] is a host of several stacks, one for each core, with sockets over all of them.
//!
//! Errors have the kinds that `std` returns on Linux.
//!
//! The scope identifier of a `SocketAddrV6` with a link-local address or group names a port: it is
//! the port's number plus one ([`stack::PortId::scope_id`]). With 0 the routes choose the port. A
//! port with a static IPv6 address gets no link-local address by itself: `Stack::follow_link_local`
//! adds one.
//!
//! # Features
//! - `tokio`: tokio's `AsyncRead` and `AsyncWrite`, and a driver with tokio's timer.
//! - `futures`: `AsyncRead` and `AsyncWrite` of futures-io.

mod bell;
pub mod blocking;
mod calls;
mod clock;
#[cfg(target_os = "linux")]
mod descriptors;
pub mod dhcp;
pub mod dhcp6;
pub mod dns;
mod driver;
mod driver_state;
#[cfg(target_os = "linux")]
mod errno;
mod error;
mod eyeballs;
mod fast_open;
mod forwarder;
#[cfg(feature = "futures")]
mod futures_traits;
mod given;
mod inner;
mod listener;
mod loan;
pub mod managed;
mod net;
mod options;
mod shards;
mod split;
mod stepped;
mod stream;
mod timer;
#[cfg(feature = "tokio")]
mod tokio_traits;
mod udp;
mod urgent;
mod wait;
mod waiting;

pub use bell::LOOK_INTERVAL;
pub use driver::{Driver, DriverFuture, DriverThread};
#[cfg(target_os = "linux")]
pub use errno::errno;
pub use eyeballs::ATTEMPT_DELAY;
pub use forwarder::{Forwarder, Request};
pub use listener::TcpListener;
pub use loan::{Loan, Received};
pub use net::Net;
pub use options::{TcpKeepalive, TcpSocket};
pub use shards::{Shards, ShardsListener, ShardsUdpSocket};
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
/// The types of UDP socket options, and of the results of calls with options.
pub use stack::{MtuDiscovery, UdpErrorReport, UdpOptions, UdpReceived, dplpmtud};
pub use stepped::{Next, StepClock, Stepped};
pub use stream::TcpStream;
#[cfg(feature = "tokio")]
pub use timer::TokioTimer;
pub use timer::{ThreadTimer, Timer};
pub use udp::UdpSocket;
