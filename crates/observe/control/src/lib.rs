//! The control socket, by which a tool queries a program that runs a stack: frames on a Unix stream
//! socket, with the client's credentials and, if needed, file descriptors.
//!
//! Called by: programs that run a stack ([`Server`]), tools ([`Client`]). The payload of a frame is
//! bytes; only [`Client::request`] and its like take it for JSON.
//!
//! # The protocol
//! All integers are big-endian. Each side begins with a hello of 12 bytes: [`frame::MAGIC`], the
//! version of the protocol (16 bits), a [`frame::Welcome`] (16 bits; the client's is 0). The hello
//! is the same in every version, so that different versions can report the mismatch. Then come
//! frames, the client's requests and the server's answers in turn: length of the payload (32 bits),
//! number of descriptors (16 bits), zero (16 bits), payload. A server may delay its answer until
//! there is something to report; the client's next request ends the delay. Descriptors travel with
//! the frame's first byte (SCM_RIGHTS, unix(7)) and are close-on-exec at once.
//!
//! # What is bounded
//! Limits of [`base::Limit`] bound the number of clients (`control_clients`), the clients of one
//! user (`control_user_clients`), the length of a frame (`control_frame_bytes`), its descriptors
//! (`control_descriptors`), the time that a frame may take (`control_half_frame_ms`) and the time
//! that a client may be idle (`control_idle_ms`). The server's [`base::Budget`] counts each hit. A
//! client that exceeds a limit is disconnected, and its data is discarded. `control_user_accepts`
//! bounds the connections of one user in a second.
#![cfg(target_os = "linux")]

pub mod advice;
mod client;
mod error;
pub mod frame;
pub mod path;
mod peer;
pub mod protocol;
mod server;
pub mod text;
mod users;

pub use client::Client;
pub use error::ControlError;
pub use frame::{Message, VERSION};
pub use peer::{Groups, Peer};
pub use server::{Reply, Server, open_to_all, own_user_and_root};
pub use users::{Members, Users};
