//! Clients and servers of this crate, joined without a network.

mod hostile;
mod messages;
mod portmap;
mod records;
mod retransmission;
mod rooms;
mod streams;
mod tasks;

use core::net::SocketAddr;

use base::KeyedHash;

use crate::server::{Refusal, Request, Server};

crate::program! {
    /// The program that the tests call.
    pub(crate) trait Sample, service SampleService, client SampleClient,
        program 0x2000_0101, version 3
    {
        /// Returns the sum of an array.
        fn sum(Vec<u32>) -> u64 = 1;
        /// Returns one more than the last call did.
        fn count(()) -> u32 = 2;
        /// Returns the same bytes.
        fn echo(crate::xdr::Bytes) -> crate::xdr::Bytes = 3;
        /// Is never answered.
        fn silence(()) -> () = 4;
        /// Returns the caller's user number, from AUTH_SYS.
        fn user(()) -> u32 = 5;
    }
}

pub(crate) const PROGRAM: u32 = 0x2000_0101;

#[derive(Default)]
struct Counting(u32);

impl Sample for Counting {
    fn sum(&mut self, args: Vec<u32>, _: &Request<'_>) -> Result<u64, Refusal> {
        Ok(args.into_iter().map(u64::from).sum())
    }
    fn count(&mut self, (): (), _: &Request<'_>) -> Result<u32, Refusal> {
        self.0 += 1;
        Ok(self.0)
    }
    fn echo(
        &mut self,
        args: crate::xdr::Bytes,
        _: &Request<'_>,
    ) -> Result<crate::xdr::Bytes, Refusal> {
        Ok(args)
    }
    fn silence(&mut self, (): (), _: &Request<'_>) -> Result<(), Refusal> {
        Err(Refusal::Silence)
    }
    fn user(&mut self, (): (), request: &Request<'_>) -> Result<u32, Refusal> {
        Ok(request.auth_sys()?.uid)
    }
}

pub(crate) fn server() -> Server {
    let mut server = Server::new(KeyedHash::new(1, 2));
    server.add(SampleService(Counting::default()));
    server
}

pub(crate) fn peer() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 1_000))
}
