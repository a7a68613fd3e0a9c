//! Network cards of virtual machines (virtio-net) in front of a stack. [`VhostUser`]: the machine
//! shares its memory with us by the protocol vhost-user, and frames are copied once. [`Bare`]: a
//! machine's frames come without the card's header, though with its offloads, as libkrun sends
//! them. Linux only.
//!
//! Called by: the stack, once per burst; programs that open one. Counters:
//! [`device::Device::drops`], by reason. Sources: VIRTIO 1.2 sections 2.7 (split virtqueues) and
//! 5.1 (network device); QEMU, `docs/interop/vhost-user.rst`.
//!
//! # A guest is not trusted All that a machine writes into its memory may be wrong, and may change
//! at any time: indices, addresses, lengths and bytes. Each is read once, checked, and used as it
//! was read; no reference to a machine's memory is ever made (docs/decisions/0144). What a ring
//! costs is bounded by its size, and by [`PIECES_MAX`] of a frame. A ring whose index or table is
//! impossible stops until the machine sets it up again.
#![cfg(target_os = "linux")]

mod bare;
mod error;
mod guest;
mod memory;
mod receive;
mod ring;
mod session;
mod transmit;
mod vhost_user;

pub use bare::Bare;
pub use error::VhostError;
pub use ring::PIECES_MAX;
pub use vhost_user::VhostUser;
