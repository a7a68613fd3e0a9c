//! Makes the two sides of a transfer in memory: the stacks, the wire between them, and the
//! connections or UDP sockets with what they carry.
//!
//! Called by: `run.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use wirespeed::device::{Doorbell, mem};
use wirespeed::pair::{End, end};
use wirespeed::{Cidr, Duration, Instant, ListenConfig, Owner, TcpHandle, UdpHandle};

use super::data::{Sink, Source, block};
use super::ends::{Receiver, Receiving, Sender, Sending, Side, Stream};
use super::file::{Hashed, Reader};
use super::plan::{Direction, Goal, Plan};
use super::{tcp, udp};

#[derive(Clone, Copy)]
enum Socket {
    Tcp(TcpHandle),
    Udp(UdpHandle),
}

/// Both sides, connected.
pub(super) fn connected(plan: &Plan) -> Result<[Side; 2]> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).context("the system gives no random seed")?;
    let half = |at| u64::from_le_bytes(core::array::from_fn(|i| seed[at + i]));
    let pair = plan.pair([half(0), half(8)]);
    let bells = [Doorbell::new(), Doorbell::new()];
    let (left, right) = mem::pair_with(&pair.wire, bells[0].clone(), bells[1].clone());
    let mut ends = [end(&pair, left, 1), end(&pair, right, 2)];
    let sockets = if plan.udp { bind(plan, &mut ends)? } else { connect(plan, &mut ends)? };
    let mut streams = [Vec::new(), Vec::new()];
    let block = block(plan.length);
    for (n, sockets) in sockets.into_iter().enumerate() {
        for (side, socket) in sockets.into_iter().enumerate() {
            streams[side].push(stream(plan, (&mut ends, side), (n, socket), &block)?);
        }
    }
    let ([left, right], [bell, other_bell], [here, there]) = (ends, bells, streams);
    Ok([Side::new(left, bell, here), Side::new(right, other_bell, there)])
}

/// The end of connection `n` at a side.
fn stream(
    plan: &Plan,
    (ends, side): (&mut [End; 2], usize),
    (n, socket): (usize, Socket),
    block: &Arc<[u8]>,
) -> Result<Stream> {
    let both_ways = plan.directions.len() > 1;
    let (send, receive) = (both_ways || side == 0, both_ways || side == 1);
    let to = (ends[1 - side].addr, plan.udp_port(n)).into();
    let (sender, receiver) = match socket {
        Socket::Tcp(conn) => (
            send.then(|| Sender::Tcp(tcp::Sender::new(plan, conn))),
            receive.then(|| Receiver::Tcp(tcp::Receiver::new(plan, conn))),
        ),
        Socket::Udp(socket) => (
            match send {
                true => Some(Sender::Udp(udp::Sender::new(plan, &mut ends[side], socket, to)?)),
                false => None,
            },
            receive.then(|| Receiver::Udp(udp::Receiver::new(plan, socket))),
        ),
    };
    let send = match sender {
        Some(by) => Some(Sending::new(by, source(plan, block, n)?)),
        None => None,
    };
    let receive = receiver.map(|by| Receiving::new(by, sink(plan)));
    let conn = match socket {
        Socket::Tcp(conn) => Some(conn),
        Socket::Udp(_) => None,
    };
    Ok(Stream::new(conn, send, receive))
}

fn sink(plan: &Plan) -> Sink {
    match plan.goal {
        Goal::File(_) => Sink::File(Box::new(Hashed::new())),
        _ => Sink::pattern(),
    }
}

/// What connection `n` carries one way.
fn source(plan: &Plan, block: &Arc<[u8]>, n: usize) -> Result<Source> {
    let bytes = match &plan.goal {
        Goal::File(path) => return Ok(Source::File(Box::new(Reader::open(path)?))),
        Goal::Bytes(bytes) => plan.share(*bytes, n),
        Goal::Seconds(0.0) => 0,
        Goal::Seconds(_) => u64::MAX,
    };
    Ok(Source::pattern(bytes, block.clone()))
}

/// A UDP socket at each side for every pair.
fn bind(plan: &Plan, ends: &mut [End; 2]) -> Result<Vec<[Socket; 2]>> {
    if let Some(gap) = plan.gap {
        for side in 0..plan.directions.len() {
            let to = Cidr::host(ends[1 - side].addr);
            ends[side].stack.set_burst_gap(to, Some(gap))?;
        }
    }
    let mut sockets = Vec::new();
    for n in 0..plan.parallel {
        let [left, right] = &mut *ends;
        let bind = |end: &mut End| udp::bind(plan.udp_port(n), end).map(Socket::Udp);
        sockets.push([bind(left)?, bind(right)?]);
    }
    Ok(sockets)
}

/// Do the handshakes in a few nanoseconds of simulated time; the run's clock begins after them.
/// Returns both ends of each connection.
fn connect(plan: &Plan, [left, right]: &mut [End; 2]) -> Result<Vec<[Socket; 2]>> {
    // The side that sends connects, and in reverse the one that receives.
    let reverse = plan.directions == [Direction::Rx];
    let (active, passive) = if reverse { (right, left) } else { (left, right) };
    let to = (passive.addr, plan.port).into();
    let listen = ListenConfig { tcp: plan.tcp, ..ListenConfig::default() };
    let listener = passive
        .stack
        .tcp_listen(to, listen)
        .map_err(|e| anyhow!("cannot listen on port {}: {e}", plan.port))?;
    let now = |ns| Instant::ZERO + Duration::from_nanos(ns);
    let mut open = || active.stack.tcp_connect(to, None, &plan.tcp, Owner::program(), now(1));
    let opened = (0..plan.parallel).map(|_| open()).collect::<Result<Vec<_>, _>>();
    let opened = opened.map_err(|e| anyhow!("cannot connect to {to}: {e}"))?;
    let mut accepted = HashMap::new();
    for turn in 2..100 {
        active.stack.poll(now(turn));
        passive.stack.poll(now(turn));
        while passive.stack.next_event().is_some() {}
        while let Some(conn) = passive.stack.tcp_accept(listener) {
            accepted.insert(passive.stack.tcp_addresses(conn).map(|(_, remote)| remote), conn);
        }
        if accepted.len() == opened.len() {
            passive.stack.tcp_unlisten(listener);
            break;
        }
    }
    let pair = |&conn: &TcpHandle| {
        let local = active.stack.tcp_addresses(conn).map(|(local, _)| local);
        let (here, there) = (Socket::Tcp(conn), Socket::Tcp(*accepted.get(&local)?));
        Some(if reverse { [there, here] } else { [here, there] })
    };
    if let Some(pairs) = opened.iter().map(pair).collect() {
        return Ok(pairs);
    }
    let drops = active.stack.drops().nonzero().chain(passive.stack.drops().nonzero());
    let dropped: Vec<_> = drops.map(|(reason, n)| format!("{n} {}", reason.name())).collect();
    bail!("the two stacks did not connect with these switches; dropped: {}", dropped.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::Args;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// Local ports of the side that sends.
    fn ports(words: &str) -> Vec<u16> {
        let line = Line::try_parse_from(words.split(' ')).expect("good words");
        let plan = Plan::new(&line.args).expect("a good plan");
        let [sender, _] = connected(&plan).expect("they connect");
        let stack = &sender.end.stack;
        let conns = sender.streams.iter().filter_map(|stream| stream.conn);
        conns.filter_map(|conn| Some(stack.tcp_addresses(conn)?.0.port())).collect()
    }

    #[test]
    fn who_sends_connects_and_in_reverse_listens() {
        assert_eq!(ports("ttcp -R -P 3"), [5001; 3]);
        for words in ["ttcp -P 128", "ttcp --bidir -P 3"] {
            let mut ports = ports(words);
            let all = ports.len();
            ports.sort_unstable();
            ports.dedup();
            assert!(all == ports.len() && !ports.contains(&5001), "{words}: {ports:?}");
        }
    }
}
