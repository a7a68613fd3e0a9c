//! Moves bytes between standard input and output and a socket in a running stack.
//!
//! Called by: `nc.rs`. It waits for standard input and for the program, whose answer comes when the
//! socket has received something.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wirespeed::control::protocol::{Called, Kind};

use super::Args;
use crate::Outcome;
use crate::clock::Interrupt;
use crate::running::socket::{Remote, bytes};

/// How long an answer of the program may wait for something to come.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same while bytes wait for room in the socket: no answer comes for room.
const ROOM: Duration = Duration::from_millis(10);
/// Bytes read at a time: a datagram.
const BLOCK: usize = 1_400;

/// Do it.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let (end, link) = args.end()?;
    let interrupt = Interrupt::install()?;
    let any = match end.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let any = SocketAddr::new(any, 0);
    let kind = match (args.udp, args.listen) {
        (false, false) => Kind::Connect { remote: end, link },
        (false, true) => Kind::Listen { local: end },
        (true, true) => Kind::Udp { local: end, peer: None, link: None },
        (true, false) => Kind::Udp { local: any, peer: (!args.unconnected).then_some(end), link },
    };
    let mut remote = Remote::open(args.socket.as_deref(), args.pid, kind)?;
    let done = match (args.udp, args.listen) {
        (true, _) => datagrams(args, &mut remote, end, &interrupt),
        (false, true) => match accept(&mut remote, &interrupt)? {
            Some(socket) => {
                remote = remote.accepted(socket);
                stream(args, &mut remote, &interrupt)
            }
            None => Ok(()),
        },
        (false, false) => stream(args, &mut remote, &interrupt),
    };
    if done.is_ok() {
        remote.close()?;
    }
    done.map(|()| if interrupt.noted() { Outcome::Interrupted } else { Outcome::Done })
}

/// Write to standard output.
fn print(data: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(data).and_then(|()| stdout.flush());
    written.context("cannot write to standard output")
}

/// The data that comes next to the socket, or the socket's state if nothing came; `None` after
/// Ctrl-C.
fn next(
    remote: &mut Remote,
    interrupt: &Interrupt,
    patience: Duration,
    seen: &str,
) -> Result<Option<Called>> {
    remote.begin_receive(patience.min(PATIENCE), seen)?;
    while !interrupt.noted() {
        if let [true, _] = remote.wait(interrupt, None, None)? {
            return remote.finish_receive().map(Some);
        }
    }
    Ok(None)
}

fn accept(listener: &mut Remote, interrupt: &Interrupt) -> Result<Option<u64>> {
    while let Some(came) = next(listener, interrupt, PATIENCE, "")? {
        if let Some(accepted) = came.accepted.first() {
            return Ok(Some(accepted.socket));
        }
    }
    Ok(None)
}

fn trouble(came: &Called) -> Result<()> {
    match &came.error {
        Some(why) => bail!("{why}"),
        None => Ok(()),
    }
}

fn stream(args: &Args, remote: &mut Remote, interrupt: &Interrupt) -> Result<()> {
    let until = Instant::now() + args.wait;
    let mut seen = String::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let Some(came) = next(remote, interrupt, left, &seen)? else { return Ok(()) };
        trouble(&came)?;
        seen = came.state;
        if !matches!(seen.as_str(), "SYN-SENT" | "SYN-RECEIVED") {
            print(&bytes(&came.data))?;
            break;
        }
        if left.is_zero() {
            bail!("nobody answers within {} s: is there a route back?", args.wait.as_secs_f32());
        }
    }
    if args.only_try {
        return Ok(());
    }
    exchange(args, remote, interrupt, seen, Data::Stream { unsent: Vec::new() })
}

fn datagrams(
    args: &Args,
    remote: &mut Remote,
    end: SocketAddr,
    interrupt: &Interrupt,
) -> Result<()> {
    // A socket without a peer needs a destination for each datagram; a listener answers the host
    // that asked last.
    let to = args.unconnected.then_some(end);
    if args.only_try {
        remote.send(to, 0, &[])?;
        return Ok(());
    }
    let data = Data::Datagrams { to, is_server: args.listen };
    exchange(args, remote, interrupt, String::new(), data)
}

/// The kind of data that is moved, and the part of it that waits.
enum Data {
    /// Bytes that the socket had no room for.
    Stream { unsent: Vec<u8> },
    /// Datagrams, and where they go.
    Datagrams { to: Option<SocketAddr>, is_server: bool },
}

impl Data {
    /// Can more be sent?
    fn has_room(&self) -> bool {
        match self {
            Data::Stream { unsent } => unsent.is_empty(),
            Data::Datagrams { to, is_server } => !is_server || to.is_some(),
        }
    }

    /// Does something wait for room in the socket?
    fn is_unsent(&self) -> bool {
        matches!(self, Data::Stream { unsent } if !unsent.is_empty())
    }

    /// Send a block, or the rest of the last one; returns whether anything left.
    fn send(&mut self, remote: &mut Remote, block: &[u8]) -> Result<bool> {
        match self {
            Data::Stream { unsent } => {
                unsent.extend_from_slice(block);
                let (sent, _) = remote.send(None, 0, unsent)?;
                unsent.drain(..sent);
                Ok(sent > 0)
            }
            Data::Datagrams { to, .. } => remote.send(*to, 0, block).map(|_| true),
        }
    }

    /// Print the received data; returns whether there was any.
    fn print(&mut self, came: &Called) -> Result<bool> {
        match self {
            Data::Stream { .. } => {
                let data = bytes(&came.data);
                print(&data)?;
                Ok(!data.is_empty())
            }
            Data::Datagrams { to, is_server } => {
                for datagram in &came.datagrams {
                    print(&bytes(&datagram.data))?;
                    if *is_server {
                        *to = Some(datagram.from);
                    }
                }
                Ok(!came.datagrams.is_empty())
            }
        }
    }
}

/// Move data both ways until the other end has closed, or until standard input has ended and
/// nothing has come for as long as the command line says.
fn exchange(
    args: &Args,
    remote: &mut Remote,
    interrupt: &Interrupt,
    mut seen: String,
    mut data: Data,
) -> Result<()> {
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    // A standard input that is closed has nothing to send.
    let mut input = input.ok().map(File::from);
    let mut quiet_since = Instant::now();
    while !interrupt.noted() {
        let left = args.wait.saturating_sub(quiet_since.elapsed());
        if input.is_none() && left.is_zero() {
            return Ok(());
        }
        let patience = if input.is_none() { left.min(PATIENCE) } else { PATIENCE };
        let patience = if data.is_unsent() { ROOM } else { patience };
        remote.begin_receive(patience, &seen)?;
        let wanted = input.as_ref().filter(|_| data.has_room());
        let [is_answered, is_input] = remote.wait(interrupt, wanted.map(File::as_fd), None)?;
        let mut has_moved = false;
        if let Some(file) = input.as_mut().filter(|_| is_input) {
            let mut block = [0; BLOCK];
            match file.read(&mut block) {
                Ok(count @ 1..) => has_moved = data.send(remote, &block[..count])?,
                Ok(0) | Err(_) => {
                    input = None;
                    if let Data::Stream { .. } = data {
                        remote.shutdown()?;
                    }
                }
            }
        } else if data.is_unsent() {
            has_moved = data.send(remote, &[])?;
        }
        if is_answered || remote.is_answered() {
            let came = remote.finish_receive()?;
            let is_news = data.print(&came)?;
            trouble(&came)?;
            if came.eof && !is_news {
                return Ok(());
            }
            seen = came.state;
            has_moved |= is_news;
        }
        if has_moved {
            quiet_since = Instant::now();
        }
    }
    Ok(())
}
