//! Programs on wirespeed that are of use as they are, and small enough to read: a file server and
//! its client over TLS (`https-files`, `https-get`), and a proxy that carries every connection of
//! an interface elsewhere (`proxy`). Their parts are here, their command lines in `bin`.
//!
//! Called by: the programs, and tests, which run them against the kernel and real peers.

pub mod client;
pub mod files;
pub mod patience;
pub mod proxy;
pub mod tls;
pub mod tun;
