//! The calls of `rpcinfo`.
//!
//! Called by: `rpcinfo.rs`.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::OnceLock;
use std::time::{Duration as Time, Instant as Monotone};

use anyhow::{Context, Result, bail, ensure};
use rpc::blocking::{Caller, Tcp, Udp};
use rpc::client::{CallError, Config};
use rpc::portmap::{
    Mapping, MappingList, PORT, PROGRAM, Rpcb, RpcbList, TCP, UDP, procedure, socket_address,
    universal_address,
};
use wirespeed::{Duration, Instant, KeyedHash};

use super::{Args, Names};
use crate::Usage;

/// How long a server may take to accept a connection, and to answer.
const TIMEOUT: Time = Time::from_secs(10);
/// Versions that are tried of a server that says that it has many.
const VERSIONS_MAX: u32 = 64;

/// The time, for the clients.
pub(crate) fn clock() -> Instant {
    static START: OnceLock<Monotone> = OnceLock::new();
    Instant::from_nanos(START.get_or_init(Monotone::now).elapsed().as_nanos() as u64 + 1)
}

/// Carry out the command; returns the text to print.
pub(super) fn run(args: &Args) -> Result<String> {
    let found = (args.host.as_str(), PORT).to_socket_addrs();
    let mapper = found.ok().and_then(|mut all| all.next());
    let mapper = mapper.with_context(|| {
        format!("there is no host '{}': look at its spelling, or give an address", args.host)
    })?;
    let names = Names::read();
    let what = || format!("cannot ask the port mapper of {}", args.host);
    if args.p {
        let list: MappingList = over_tcp(mapper, PROGRAM, 2, procedure::DUMP).with_context(what)?;
        return Ok(super::ports(&list.0, &names));
    }
    if args.s {
        let list: RpcbList = over_tcp(mapper, PROGRAM, 4, procedure::DUMP).with_context(what)?;
        return Ok(super::summary(&list.0, &names));
    }
    let asked = args.program.as_deref().unwrap_or_default();
    let Some(program) = names.number(asked) else {
        bail!(Usage(format!("there is no program '{asked}' in /etc/rpc: give its number")));
    };
    let version = args.version.unwrap_or(0);
    let to = server(mapper, program, version, args.u).with_context(what)?;
    let Some(to) = to else {
        bail!(
            "{} has no program {program} over {}: `wirespeed rpcinfo -p {}` lists what it has",
            args.host,
            if args.u { "UDP" } else { "TCP" },
            args.host
        );
    };
    null_calls(to, program, args)
}

/// Call procedure 0 of the version, or of all that the server says it has.
fn null_calls(to: SocketAddr, program: u32, args: &Args) -> Result<String> {
    let null = |version| match args.u {
        true => udp(to, program, version)?.call::<_, ()>(0, &()),
        false => over_tcp(to, program, version, 0),
    };
    let failed = |version| format!("program {program} version {version} is not available");
    if let Some(version) = args.version {
        null(version).with_context(|| failed(version))?;
        return Ok(super::ready(program, version));
    }
    // No program has a version 0: the server answers with the versions that it has.
    let versions = match null(0) {
        Ok(()) => 0..=0,
        Err(CallError::ProgramMismatch(low, high)) => {
            low..=high.min(low.saturating_add(VERSIONS_MAX))
        }
        Err(error) => return Err(error).with_context(|| failed(0)),
    };
    let mut text = String::new();
    for version in versions {
        if null(version).is_ok() {
            text += &super::ready(program, version);
        }
    }
    ensure!(!text.is_empty(), "no version of program {program} answers: is the server up?");
    Ok(text)
}

/// Where a program listens, by the port mapper.
fn server(
    mapper: SocketAddr,
    program: u32,
    version: u32,
    by_udp: bool,
) -> Result<Option<SocketAddr>, CallError> {
    if mapper.is_ipv4() {
        let protocol = if by_udp { UDP } else { TCP };
        let mapping = Mapping { program, version, protocol, port: 0 };
        let port: u32 = match by_udp {
            true => udp(mapper, PROGRAM, 2)?.call(procedure::GET, &mapping)?,
            false => tcp(mapper, PROGRAM, 2)?.call(procedure::GET, &mapping)?,
        };
        let port = u16::try_from(port).ok().filter(|&port| port > 0);
        return Ok(port.map(|port| at(mapper, port)));
    }
    let netid = if by_udp { "udp6" } else { "tcp6" }.to_owned();
    let address = universal_address(mapper);
    let mapping = Rpcb { program, version, netid, address, owner: String::new() };
    let address: String = match by_udp {
        true => udp(mapper, PROGRAM, 3)?.call(procedure::GET, &mapping)?,
        false => tcp(mapper, PROGRAM, 3)?.call(procedure::GET, &mapping)?,
    };
    // Only the port is used: calls go to the host that the user has named.
    let found = socket_address(&address).filter(|found| found.port() > 0);
    Ok(found.map(|found| at(mapper, found.port())))
}

/// Another port of the host, on the same link if its address is of one.
fn at(mut host: SocketAddr, port: u16) -> SocketAddr {
    host.set_port(port);
    host
}

fn config(program: u32, version: u32) -> Config {
    Config { timeout: Duration::from(TIMEOUT), ..Config::new(program, version) }
}

fn tcp(to: SocketAddr, program: u32, version: u32) -> io::Result<impl Caller> {
    let connect = move || {
        let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(stream)
    };
    Tcp::connect(config(program, version), getrandom::u32().unwrap_or(1), clock, connect)
}

/// One call without arguments over TCP.
fn over_tcp<R: for<'a> rpc::xdr::Decode<'a>>(
    to: SocketAddr,
    program: u32,
    version: u32,
    procedure: u32,
) -> Result<R, CallError> {
    tcp(to, program, version)?.call(procedure, &())
}

/// A client over UDP.
pub(crate) fn udp(to: SocketAddr, program: u32, version: u32) -> io::Result<impl Caller> {
    let own: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(own)?;
    socket.connect(to)?;
    Ok(Udp::new(config(program, version), secret()?, clock, socket))
}

/// A key that nobody else knows.
pub(crate) fn secret() -> io::Result<KeyedHash> {
    let draw = || getrandom::u64().map_err(io::Error::other);
    Ok(KeyedHash::new(draw()?, draw()?))
}
