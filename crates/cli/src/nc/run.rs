//! Moves bytes between standard input and output and a socket in a running stack.
//!
//! Called by: `nc.rs`. A thread reads standard input; nothing tells us of what the socket receives,
//! so it is asked every [`LOOK`].

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::args::Args;
use crate::clock::Interrupt;
use crate::running::{Kind, Remote, bytes};
use crate::{Outcome, output};

/// How often the socket is asked while nothing moves.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes read at a time: a datagram.
const BLOCK: usize = 1_400;

/// Do it.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let end = args.end()?;
    let interrupt = Interrupt::install()?;
    let any = match end.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let any = SocketAddr::new(any, 0);
    let kind = match (args.udp, args.listen) {
        (false, false) => Kind::Connect { remote: end },
        (false, true) => Kind::Listen { local: end },
        (true, true) => Kind::Udp { local: end, peer: None },
        (true, false) => Kind::Udp { local: any, peer: (!args.unconnected).then_some(end) },
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

/// Standard input in blocks; an empty one is its end.
fn input() -> Receiver<Vec<u8>> {
    let (blocks, read) = sync_channel(4);
    std::thread::spawn(move || {
        let mut room = [0; BLOCK];
        while let Ok(count) = std::io::stdin().lock().read(&mut room) {
            if blocks.send(room[..count].to_vec()).is_err() || count == 0 {
                break;
            }
        }
    });
    read
}

/// Write to standard output.
fn print(data: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(data).and_then(|()| stdout.flush());
    written.context("cannot write to standard output")
}

fn accept(listener: &mut Remote, interrupt: &Interrupt) -> Result<Option<u64>> {
    while !interrupt.noted() {
        let came = listener.receive()?;
        if let Some(socket) = came["accepted"][0]["socket"].as_u64() {
            return Ok(Some(socket));
        }
        sleep(LOOK);
    }
    Ok(None)
}

fn trouble(came: &Value) -> Result<()> {
    match came["error"].as_str() {
        Some(why) => bail!("{}", output::plain(why)),
        None => Ok(()),
    }
}

fn stream(args: &Args, remote: &mut Remote, interrupt: &Interrupt) -> Result<()> {
    let until = Instant::now() + args.wait;
    loop {
        let came = remote.receive()?;
        trouble(&came)?;
        match came["state"].as_str() {
            Some("SYN-SENT" | "SYN-RECEIVED") if interrupt.noted() => return Ok(()),
            Some("SYN-SENT" | "SYN-RECEIVED") if Instant::now() >= until => {
                bail!("nobody answers within {} s: is there a route back?", args.wait.as_secs_f32())
            }
            Some("SYN-SENT" | "SYN-RECEIVED") => sleep(LOOK),
            _ => {
                print(&bytes(&came, "data"))?;
                break;
            }
        }
    }
    if args.only_try {
        return Ok(());
    }
    let (read, mut waiting, mut is_over) = (input(), Vec::new(), false);
    let mut quiet_since = Instant::now();
    while !interrupt.noted() {
        let mut moved = false;
        if waiting.is_empty() && !is_over {
            match read.try_recv() {
                Ok(block) if !block.is_empty() => waiting = block,
                Err(TryRecvError::Empty) => {}
                _ => {
                    is_over = true;
                    remote.shutdown()?;
                }
            }
        }
        if !waiting.is_empty() {
            let (sent, _) = remote.send(None, 0, &waiting)?;
            waiting.drain(..sent);
            moved |= sent > 0;
        }
        let came = remote.receive()?;
        let data = bytes(&came, "data");
        print(&data)?;
        trouble(&came)?;
        moved |= !data.is_empty();
        if came["eof"] == true && data.is_empty() {
            return Ok(());
        }
        if moved {
            quiet_since = Instant::now();
        } else if is_over && quiet_since.elapsed() >= args.wait {
            return Ok(());
        } else {
            sleep(LOOK);
        }
    }
    Ok(())
}

fn datagrams(
    args: &Args,
    remote: &mut Remote,
    end: SocketAddr,
    interrupt: &Interrupt,
) -> Result<()> {
    // Without a peer it is to be said where each goes; a listener answers who asked last.
    let mut to = args.unconnected.then_some(end);
    if args.only_try {
        remote.send(to, 0, &[])?;
        return Ok(());
    }
    let (read, mut is_over, mut quiet_since) = (input(), false, Instant::now());
    while !interrupt.noted() {
        let mut moved = false;
        if !is_over && (!args.listen || to.is_some()) {
            match read.try_recv() {
                Ok(block) if !block.is_empty() => {
                    remote.send(to, 0, &block)?;
                    moved = true;
                }
                Err(TryRecvError::Empty) => {}
                _ => is_over = true,
            }
        }
        let came = remote.receive()?;
        for datagram in came["datagrams"].as_array().into_iter().flatten() {
            print(&bytes(datagram, "data"))?;
            if args.listen {
                to = datagram["from"].as_str().and_then(|from| from.parse().ok());
            }
            moved = true;
        }
        trouble(&came)?;
        if moved {
            quiet_since = Instant::now();
        } else if is_over && quiet_since.elapsed() >= args.wait {
            return Ok(());
        } else {
            sleep(LOOK);
        }
    }
    Ok(())
}
