//! ONC RPC version 2 (RFC 5531) over any transport: XDR (RFC 4506), record marking, clients over
//! streams and datagrams, servers, and the port mapper (RFC 1833).
//!
//! Called by: programs, which provide the transport. The core does no I/O, reads no clock and draws
//! no random number: [`client::StreamClient`], [`client::DatagramClient`], [`server::Server`] and
//! [`server::Session`] take bytes and the time, and return bytes and deadlines. [`blocking`] runs
//! them over anything that implements `Read` and `Write`; module `tasks` (feature `tokio`) runs
//! them over anything that implements `AsyncRead` and `AsyncWrite`, and over datagrams. Limits:
//! [`limits`]. Decisions: 0082, 0088.

pub mod auth;
pub mod blocking;
pub mod client;
pub mod limits;
pub mod message;
pub mod portmap;
mod program;
pub mod record;
pub mod server;
#[cfg(feature = "tokio")]
pub mod tasks;
pub mod xdr;

#[cfg(test)]
mod tests;
