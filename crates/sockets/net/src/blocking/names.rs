//! Names for threads.
//!
//! Called by: programs. `wait.rs` does the waiting.

use core::net::{IpAddr, SocketAddr};
use std::io;

use super::TcpStream;
use crate::Net;
use crate::dns::{Families, Lookups, Step};
use crate::inner::Inner;
use crate::wait;
use crate::waiting::Readiness;

/// [`Net::lookup_host`] for threads: the addresses of a host.
///
/// # Errors
/// As [`Net::lookup_host`].
pub fn lookup_host(net: &Net, host: &str) -> io::Result<Vec<IpAddr>> {
    let shared = net.shared();
    let mut lookups = Lookups::new(net, host, Families::Both)?;
    loop {
        let until = shared.system_time(lookups.deadline());
        let look = |inner: &mut Inner| lookups.look(inner, shared.now());
        if let Some(Step::Found(addresses)) =
            wait::block_on(shared, Readiness::Lookup, until, look)?
        {
            return Ok(addresses);
        }
    }
}

impl TcpStream {
    /// Connect to a host by name: its addresses are tried one after the other, as
    /// `std::net::TcpStream::connect` does.
    ///
    /// # Errors
    /// As [`Net::lookup_host`]; the last address's.
    pub fn connect_host(net: &Net, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in lookup_host(net, host)? {
            match TcpStream::connect(net, SocketAddr::new(address, port)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
