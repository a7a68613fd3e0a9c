//! NFS version 3 and MOUNT version 3 (RFC 1813): a server of one directory, and a client.
//!
//! Called by: programs, `wirespeed nfsd` and `wirespeed nfs`. [`server`] carries out the calls that
//! a server of crate `rpc` receives; [`client`] makes its calls through a client of crate `rpc`.
//! [`proto`] and [`mount`] define the formats of messages. Limits: [`limits`]. Reasons:
//! docs/decisions, 0088 and 0091.

pub mod client;
pub mod limits;
pub mod mount;
pub mod proto;
#[cfg(target_os = "linux")]
pub mod server;

#[cfg(test)]
mod tests;
