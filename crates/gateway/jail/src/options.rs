//! What a launch is asked for, and the part of it that the program's process needs.
//!
//! Called by: callers of `launch`; `launch.rs` and `program.rs` pass [`Setup`] between processes.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use base::{Cidr, Mtu};
use serde::{Deserialize, Serialize};

/// The user that the program sees itself as. Files are accessed as the caller in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum User {
    /// The caller.
    #[default]
    Own,
    /// Root, who may not change the interface, its addresses and its routes.
    Root,
}

/// A socket that is made in the program's network before the program starts, for the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inside {
    /// UDP instead of TCP, which listens.
    pub udp: bool,
    /// The address that it is bound to: an unspecified one or one of the program's network.
    pub at: SocketAddr,
}

/// A program and its network.
#[derive(Debug)]
pub struct Options {
    /// The program, looked up in PATH, and its arguments.
    pub command: Vec<OsString>,
    /// The name of the program's interface, at most 15 bytes.
    pub interface: String,
    /// The interface's MTU.
    pub mtu: Mtu,
    /// Addresses of the interface. They are usable at once: nothing checks for duplicates.
    pub addresses: Vec<Cidr>,
    /// Next hops of the default routes, at most one of each version.
    pub gateways: Vec<IpAddr>,
    /// The interface takes its default route of IPv6, and nothing else, from router advertisements,
    /// which the gateway sends: so the route can change while the program runs.
    pub is_routed: bool,
    /// Files that have other contents for the program, such as /etc/resolv.conf; the file that a
    /// symbolic link leads to is covered.
    pub files: Vec<(PathBuf, String)>,
    /// Files and folders that are empty for the program. If one does not exist, that is an error.
    pub hide: Vec<PathBuf>,
    /// The user that the program sees itself as.
    pub user: User,
    /// Give the program a PID namespace: it sees no other processes, and all processes that it
    /// leaves behind end with it.
    pub pid: bool,
    /// Stay until the last process in the program's network has ended; the launcher's death does
    /// not end the program.
    pub keep: bool,
    /// Sockets in the program's network for the gateway.
    pub inside: Vec<Inside>,
    /// Passed to the gateway as it is.
    pub settings: String,
    /// Passed to the gateway: it can open nothing itself after it is ready.
    pub descriptors: Vec<OwnedFd>,
}

impl Options {
    /// `command` with the network 10.0.2.0/24 of slirp: the program has 10.0.2.100, the gateway
    /// 10.0.2.2; an MTU of 1,500 bytes, all of the host's files.
    pub fn new<A: Into<OsString>>(command: impl IntoIterator<Item = A>) -> Options {
        let own = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 100));
        Options {
            command: command.into_iter().map(Into::into).collect(),
            interface: "eth0".to_owned(),
            mtu: Mtu::ETHERNET,
            addresses: Cidr::new(own, 24).into_iter().collect(),
            gateways: vec![IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2))],
            is_routed: false,
            files: Vec::new(),
            hide: Vec::new(),
            user: User::Own,
            pid: false,
            keep: false,
            inside: Vec::new(),
            settings: String::new(),
            descriptors: Vec::new(),
        }
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup {
            interface: self.interface.clone(),
            mtu: self.mtu.bytes() as u32,
            addresses: self.addresses.iter().map(|a| (a.addr, a.prefix_len)).collect(),
            gateways: self.gateways.clone(),
            is_routed: self.is_routed,
            files: self.files.clone(),
            hide: self.hide.clone(),
            user: self.user,
            pid: self.pid,
            keep: self.keep,
            inside: self.inside.clone(),
        }
    }
}

/// The part of [`Options`] for the program's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) interface: String,
    pub(crate) mtu: u32,
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) is_routed: bool,
    pub(crate) files: Vec<(PathBuf, String)>,
    pub(crate) hide: Vec<PathBuf>,
    pub(crate) user: User,
    pub(crate) pid: bool,
    pub(crate) keep: bool,
    pub(crate) inside: Vec<Inside>,
}
