//! [`PortMapper`]: the service of RFC 1833, versions 2 to 4.
//!
//! Called by: `server/mod.rs`. The service cannot be used as an amplifier. It does not carry out
//! CALLIT, BCAST and INDIRECT, which forward calls. Over datagrams it sends the lists of mappings,
//! addresses and counters only to loopback addresses; other hosts get them over a stream. Only
//! callers that come by loopback or by a Unix socket may set and remove mappings.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::RangeInclusive;

use super::mappings::SUPERUSER;
use super::{
    LOCAL, Mapping, Mappings, PORT, PROGRAM, Rpcb, Statistics, netid_of, network, procedure,
    socket_address, universal_address,
};
use crate::server::{Refusal, Request, Service, Transport};
use crate::xdr::{Bytes, Encode, List};

/// The service.
#[derive(Debug)]
pub struct PortMapper {
    mappings: Mappings,
    since_1970: fn() -> u32,
    /// The counters for versions 2, 3 and 4.
    statistics: [Statistics; 3],
}

impl PortMapper {
    /// A port mapper whose table contains an entry for itself for each network id on which it
    /// listens. `since_1970` returns the time of day in seconds since 1970, for GETTIME.
    pub fn new(netids: &[&str], since_1970: fn() -> u32) -> PortMapper {
        let mut mappings = Mappings::default();
        for netid in netids {
            let Some((_, ip)) = network(netid) else { continue };
            let address = universal_address(SocketAddr::new(ip, PORT));
            for version in [4, 3, 2].into_iter().filter(|&v| v > 2 || ip.is_ipv4()) {
                let (netid, address) = ((*netid).to_owned(), address.clone());
                let owner = SUPERUSER.to_owned();
                let itself = Rpcb { program: PROGRAM, version, netid, address, owner };
                mappings.set(&itself, true).unwrap_or_default();
            }
        }
        PortMapper { mappings, since_1970, statistics: Default::default() }
    }

    /// Note in the table that the port mapper also listens at a Unix socket with this path.
    pub fn at_socket(mut self, path: &str) -> PortMapper {
        for version in [4, 3] {
            let (netid, address, owner) = (LOCAL.to_owned(), path.to_owned(), SUPERUSER.to_owned());
            let itself = Rpcb { program: PROGRAM, version, netid, address, owner };
            self.mappings.set(&itself, true).unwrap_or_default();
        }
        self
    }

    /// The table of mappings.
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// Carry out a call of version 2.
    fn version_2(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match request.procedure {
            procedure::SET => {
                let m: Mapping = request.decode()?;
                let mapping = netid_of(m.protocol).zip(u16::try_from(m.port).ok());
                let done = mapping.is_some_and(|(netid, port)| {
                    let address = universal_address(SocketAddr::from(([0, 0, 0, 0], port)));
                    let (program, version, netid) = (m.program, m.version, netid.to_owned());
                    let owner = String::new();
                    self.set(request, &Rpcb { program, version, netid, address, owner })
                });
                done.encode(out);
            }
            procedure::UNSET => {
                // The protocol and the port are ignored (RFC 1833 section 3.2).
                let m: Mapping = request.decode()?;
                let done =
                    ["udp", "tcp"].map(|netid| self.unset(request, m.program, m.version, netid));
                done.contains(&true).encode(out);
            }
            procedure::GET => {
                let m: Mapping = request.decode()?;
                let netid = netid_of(m.protocol);
                let found = netid
                    .and_then(|netid| self.mappings.find(m.program, m.version, netid, false))
                    .and_then(|found| socket_address(&found.address));
                if let Some(netid) = netid {
                    self.statistics[0].look_up(m.program, m.version, netid, found.is_some());
                }
                // RFC 1833 3.2-a: 0 if the program is not registered.
                u32::from(found.map_or(0, |address| address.port())).encode(out);
            }
            procedure::DUMP => {
                () = request.decode()?;
                may_dump(request)?;
                let over_ipv4 = |m: &Rpcb| {
                    let (protocol, ip) = network(&m.netid)?;
                    let port = u32::from(socket_address(&m.address)?.port());
                    let (program, version) = (m.program, m.version);
                    ip.is_ipv4().then_some(Mapping { program, version, protocol, port })
                };
                List(self.mappings.all().iter().filter_map(over_ipv4).collect()).encode(out);
            }
            procedure::CALLIT => return Err(sends_on(request)),
            _ => return Err(Refusal::ProcedureUnavailable),
        }
        Ok(())
    }

    /// Carry out a call of versions 3 and 4.
    fn version_3(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match request.procedure {
            procedure::SET => {
                let mapping: Rpcb = request.decode()?;
                self.set(request, &mapping).encode(out);
            }
            procedure::UNSET => {
                let m: Rpcb = request.decode()?;
                self.unset(request, m.program, m.version, &m.netid).encode(out);
            }
            procedure::GET => self.address(request, false, out)?,
            procedure::DUMP => {
                () = request.decode()?;
                may_dump(request)?;
                List(self.mappings.all().iter().collect()).encode(out);
            }
            procedure::GETTIME => {
                () = request.decode()?;
                (self.since_1970)().encode(out);
            }
            procedure::UADDR2TADDR => super::to_sockaddr(request.decode()?).encode(out),
            procedure::TADDR2UADDR => {
                let (_, bytes): (u32, Bytes) = request.decode()?;
                super::from_sockaddr(&bytes.0).encode(out);
            }
            procedure::CALLIT => return Err(sends_on(request)),
            _ if request.version == 4 => return self.version_4(request, out),
            _ => return Err(Refusal::ProcedureUnavailable),
        }
        Ok(())
    }

    /// Carry out a procedure that only version 4 has.
    fn version_4(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match request.procedure {
            procedure::GETVERSADDR => self.address(request, true, out)?,
            procedure::INDIRECT => return Err(sends_on(request)),
            procedure::GETADDRLIST => {
                let m: Rpcb = request.decode()?;
                may_dump(request)?;
                let family = super::family(default_netid(request));
                let is_meant = |of: &&Rpcb| {
                    (of.program, of.version) == (m.program, m.version)
                        && super::family(&of.netid) == family
                };
                let entry =
                    |of: &Rpcb| super::entry(of, reachable(&of.address, &m.address, request));
                let all = self.mappings.all().iter().filter(is_meant).map(entry);
                List(all.collect()).encode(out);
            }
            procedure::GETSTAT => {
                () = request.decode()?;
                may_dump(request)?;
                self.statistics.iter().for_each(|of| of.encode(out));
            }
            _ => return Err(Refusal::ProcedureUnavailable),
        }
        Ok(())
    }

    /// The address of a program on the transport over which the caller asks for it; empty if there
    /// is none.
    fn address(
        &mut self,
        request: &Request<'_>,
        exact: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let m: Rpcb = request.decode()?;
        // RFC 1833 section 2.2.1: the network id in the arguments is ignored. We use it if it is
        // known, because callers such as rpcinfo use one transport to ask about another.
        let is_known = super::family(&m.netid).is_some();
        let netid = if is_known { m.netid.as_str() } else { default_netid(request) };
        let found = self.mappings.find(m.program, m.version, netid, exact);
        let text = found.map(|found| reachable(&found.address, &m.address, request));
        self.of_version(request).look_up(m.program, m.version, netid, text.is_some());
        text.unwrap_or_default().encode(out);
        Ok(())
    }

    /// The counters of the version that the request calls.
    fn of_version(&mut self, request: &Request<'_>) -> &mut Statistics {
        &mut self.statistics[(request.version.clamp(2, 4) - 2) as usize]
    }

    fn set(&mut self, request: &Request<'_>, mapping: &Rpcb) -> bool {
        let is_set = is_local(request) && self.mappings.set(mapping, is_root(request)).is_ok();
        self.of_version(request).set += u32::from(is_set);
        is_set
    }

    fn unset(&mut self, request: &Request<'_>, program: u32, version: u32, netid: &str) -> bool {
        let is_unset = is_local(request)
            && self.mappings.unset(program, version, netid, is_root(request)) == Ok(true);
        self.of_version(request).unset += u32::from(is_unset);
        is_unset
    }
}

/// The network id of the transport over which the call came.
fn default_netid(request: &Request<'_>) -> &'static str {
    let is_v4 = request.from.ip().to_canonical().is_ipv4();
    match (request.transport, is_v4) {
        (Transport::Datagram, true) => "udp",
        (Transport::Datagram, false) => "udp6",
        (Transport::Stream, true) => "tcp",
        (Transport::Stream, false) => "tcp6",
        (Transport::Local, _) => LOCAL,
    }
}

/// The address of a mapping as the caller can reach it. An unspecified address is replaced: by the
/// address at which the caller reaches the port mapper, if the arguments contain it, or by loopback
/// if the caller is on this machine.
fn reachable(address: &str, called: &str, request: &Request<'_>) -> String {
    let (mapped, called) = (socket_address(address), socket_address(called));
    let here = |mapped: &SocketAddr| {
        let ip: IpAddr = match mapped {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        SocketAddr::new(ip, PORT)
    };
    let is_here = request.transport == Transport::Local;
    let called = called.or_else(|| mapped.as_ref().filter(|_| is_here).map(here));
    match (mapped, called) {
        (Some(mapped), Some(called))
            if mapped.ip().is_unspecified() && mapped.is_ipv4() == called.is_ipv4() =>
        {
            universal_address(SocketAddr::new(called.ip(), mapped.port()))
        }
        _ => address.to_owned(),
    }
}

fn is_local(request: &Request<'_>) -> bool {
    let ip: IpAddr = request.from.ip();
    ip.to_canonical().is_loopback()
}

fn is_root(request: &Request<'_>) -> bool {
    request.from.port() < 1024
}

/// Check whether the caller may get a list. A long reply to a short datagram with a forged source
/// would be an amplification.
fn may_dump(request: &Request<'_>) -> Result<(), Refusal> {
    match request.transport {
        Transport::Datagram if !is_local(request) => Err(Refusal::Silence),
        _ => Ok(()),
    }
}

/// RFC 1833 3.2-b: an indirect call is not carried out, and gets no reply over UDP.
fn sends_on(request: &Request<'_>) -> Refusal {
    match request.transport {
        Transport::Datagram => Refusal::Silence,
        Transport::Stream | Transport::Local => Refusal::ProcedureUnavailable,
    }
}

impl Service for PortMapper {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        2..=4
    }

    fn call(&mut self, request: &Request<'_>, results: &mut Vec<u8>) -> Result<(), Refusal> {
        self.of_version(request).call(request.procedure);
        match request.version {
            2 => self.version_2(request, results),
            _ => self.version_3(request, results),
        }
    }
}
