//! The control socket, by which a tool queries a program that runs a stack: frames on a Unix stream
//! socket, with the client's credentials and, if needed, descriptors.
//!
//! Called by: programs that run a stack ([`Server`]), tools ([`Client`]). A frame's payload is
//! bytes here, and JSON only in [`Client::request`].
//!
//! # The protocol
//! All integers are big-endian. Each side begins with a hello of 12 bytes: [`frame::MAGIC`], the
//! version of the protocol (16 bits), a [`frame::Welcome`] (16 bits; the client's is 0). The hello
//! is the same in every version, so that different versions can report the mismatch. Then come
//! frames, the client's requests and the server's answers in turn: length of the payload (32 bits),
//! number of descriptors (16 bits), zero (16 bits), payload. A server may let a request wait until
//! there is something to say; the client's next request ends the wait. Descriptors travel with the
//! frame's first byte (SCM_RIGHTS, unix(7)) and are close-on-exec at once.
//!
//! # What is bounded
//! Bounded are the number of clients and of those of one user, the length of a frame, its
//! descriptors, the time a frame may take and the time a client may be idle: `control_clients`,
//! `control_user_clients`, `control_frame_bytes`, `control_descriptors`, `control_half_frame_ms`,
//! `control_idle_ms` of [`base::Limit`], each hit counted in the server's [`base::Budget`]. A
//! client that exceeds one is closed, and its data is discarded. The connections of one user in a
//! second are bounded too: `control_user_accepts`.
#![cfg(target_os = "linux")]

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
