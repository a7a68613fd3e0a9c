//! Clients and servers as tokio tasks, over any stream that is `AsyncRead` and `AsyncWrite`, and
//! any socket for datagrams: the system's, or those of a stack of ours.
//!
//! Called by: programs. [`Client`] is a handle that may be cloned: many calls are in flight, and a
//! connection that has ended is made again by the next call. [`Servers`] carries calls out, as many
//! at a time as it has servers; [`listen`] and [`serve_datagrams`] bring it calls. Time is tokio's.
//!
//! ```
//! use rpc::client::Config;
//! use rpc::server::{Refusal, Request, Server};
//! use rpc::tasks::{Client, Limits, Servers, serve_stream};
//! # use wirespeed_rpc as rpc;
//! rpc::program! {
//!     /// Sums.
//!     pub trait Sums, service SumsService, client SumsClient, program 0x2000_0101, version 1 {
//!         /// The sum of an array.
//!         fn sum(Vec<u32>) -> u64 = 1;
//!     }
//! }
//! struct Plain;
//! impl Sums for Plain {
//!     fn sum(&mut self, args: Vec<u32>, _: &Request<'_>) -> Result<u64, Refusal> {
//!         Ok(args.iter().copied().map(u64::from).sum())
//!     }
//! }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let secret = base::KeyedHash::new(1, 2);
//! let servers = Servers::new(4, || {
//!     let mut server = Server::new(secret);
//!     server.add(SumsService(Plain));
//!     server
//! });
//! let (near, far) = tokio::io::duplex(65_536);
//! let from = "192.0.2.1:1000".parse().unwrap();
//! tokio::spawn(serve_stream(servers, far, from, Limits::default()));
//! let mut once = Some(near);
//! let connect = move || {
//!     let stream = once.take().ok_or(std::io::ErrorKind::NotFound.into());
//!     core::future::ready(stream)
//! };
//! let client = Client::over_streams(Config::new(0x2000_0101, 1), 1, connect);
//! let sum: u64 = client.call(1, &vec![1_u32, 2, 3]).await.unwrap();
//! assert_eq!(sum, 6);
//! # });
//! ```

mod client;
mod datagrams;
mod outgoing;
mod over_datagrams;
mod over_streams;
mod room;
mod server;
mod spares;
#[cfg(feature = "net")]
mod stack_sockets;
mod streams;

pub use client::{Client, Results};
pub use datagrams::{Datagrams, serve_datagrams};
pub use outgoing::Data;
pub use server::{Servers, Totals};
#[cfg(feature = "net")]
pub use stack_sockets::Lending;
pub use streams::{Arrived, AtOnce, Connection, Lender, Lent, Limits};
pub use streams::{listen, serve_lending, serve_stream};

use base::Instant;
use tokio::time::Instant as Monotone;

/// Tokio's time as the time of clients and servers.
#[derive(Clone, Copy, Debug)]
struct Clock(Monotone);

/// No task sleeps longer than this without a look at its deadline, which keeps sums in range.
const SLEEP_MAX: core::time::Duration = core::time::Duration::from_secs(3_600);

impl Clock {
    fn start() -> Clock {
        Clock(Monotone::now())
    }

    fn now(self) -> Instant {
        Instant::from_nanos(self.0.elapsed().as_nanos() as u64 + 1)
    }

    /// The same time as tokio's, or in an hour if that is before.
    fn at(self, time: Instant) -> Monotone {
        let within: core::time::Duration = time.since(self.now()).into();
        Monotone::now() + within.min(SLEEP_MAX)
    }
}
