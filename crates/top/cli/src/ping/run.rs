//! Sends the requests when they are due, collects the results, and decides when to stop.
//!
//! Called by: `ping.rs`.

use core::net::IpAddr;

use anyhow::{Result, anyhow, bail};
use wirespeed::{DropReason, Event, Instant, IpVersion, Owner, PingHandle, UdpError};

use super::Args;
use super::report::Tally;
use crate::clock::Interrupt;
use crate::network::Network;
use crate::{names, output};

/// Send requests until it is time to stop; `true` if any was answered.
pub(super) fn run(args: &Args) -> Result<bool> {
    let version = match (args.v4, args.v6) {
        (true, _) => Some(IpVersion::V4),
        (_, true) => Some(IpVersion::V6),
        _ => None,
    };
    let interrupt = Interrupt::install()?;
    let Some(mut network) = Network::open(&args.network, "ping", &interrupt)? else {
        return Ok(false);
    };
    let names = (&args.network, &args.names);
    let Some(address) = names::resolve(&mut network, names, &args.host, version, &interrupt)?
    else {
        return Ok(false);
    };
    let socket = network.stack.ping_open(Owner::program());
    let socket = socket.map_err(|error| anyhow!("no echo socket can be had: {error}"))?;
    let hint = network.stack.ping_set_mtu_discovery(socket, args.hint.discovery());
    hint.map_err(|error| anyhow!("the echo socket is gone: {error}"))?;
    let mut tally = Tally::new(&args.host, address, args.size, args.json);
    tally.begin()?;
    let started = network.clock.now();
    let mut asker = Asker { args, address, socket, next: started, sent: 0, ends: Instant::NEVER };
    let mut ended = Ok(());
    while !interrupt.noted() {
        network.turn();
        while let Some(event) = network.stack.next_event() {
            if event == Event::Ping(socket) {
                hear(&mut network, socket, &mut tally)?;
            }
        }
        let now = network.clock.now();
        if asker.is_over(now, &tally) {
            break;
        }
        asker.ask(&mut network, now, &mut tally)?;
        // The end of the device ends the requests, not what is known of them.
        if let Err(error) = network.rest(asker.next.min(asker.ends), [interrupt.descriptor()]) {
            ended = Err(error);
            break;
        }
    }
    tally.end(network.clock.now().since(started))?;
    ended?;
    if tally.received == 0 && tally.unsent == 0 {
        match network.trouble() {
            Some(trouble) => output::err(&format!("warning: {trouble}")),
            None => args.network.hint(address).iter().for_each(|hint| output::err(hint)),
        }
    }
    Ok(tally.received > 0)
}

/// When to send, and when to stop.
struct Asker<'a> {
    args: &'a Args,
    address: IpAddr,
    socket: PingHandle,
    /// When the next request is due.
    next: Instant,
    sent: u64,
    /// When to stop waiting for answers.
    ends: Instant,
}

impl Asker<'_> {
    fn is_through(&self) -> bool {
        self.args.count.is_some_and(|count| self.sent >= count)
    }

    fn is_over(&self, now: Instant, tally: &Tally) -> bool {
        self.is_through() && (now >= self.ends || tally.settled() >= self.sent)
    }

    /// Send a request if one is due.
    fn ask(&mut self, network: &mut Network, now: Instant, tally: &mut Tally) -> Result<()> {
        if now < self.next || self.is_through() {
            return Ok(());
        }
        let seq = (self.sent + 1) as u16;
        let payload: Vec<u8> = (0..self.args.size).map(|i| i as u8).collect();
        match network.stack.ping_send(self.socket, self.address, seq, &payload, now) {
            Ok(_) => tally.sent(seq, now),
            Err(UdpError::WouldBlock) => {
                // The device is full: the request stays due.
                return Ok(());
            }
            // As ping(8): what the path carries, the route or the address may have changed since
            // the last request, and may change again.
            Err(error) if self.sent > 0 || matches!(error, UdpError::TooBig(_)) => {
                tally.unsent(seq, now);
                output::err(&format!("local error: {}", self.unsendable(error)));
            }
            Err(error) => bail!(self.unsendable(error)),
        }
        self.sent += 1;
        self.next = now + self.args.interval;
        if self.is_through() {
            self.next = Instant::NEVER;
            // As ping(8): after a reply wait for two round trips only, not for all of the timeout.
            let answers = tally.slowest().map(|rtt| rtt.saturating_mul(2).max(self.args.interval));
            self.ends = now + answers.map_or(self.args.wait, |time| time.min(self.args.wait));
        }
        Ok(())
    }

    fn unsendable(&self, error: UdpError) -> String {
        let address = self.address;
        match error {
            UdpError::Unsendable(DropReason::IpNoRoute) => {
                format!("no route to {address}: give --addr A/B of its network, or --via GATEWAY")
            }
            UdpError::NoAddress => {
                format!("none of our addresses is of {address}'s version: give another --addr A/B")
            }
            UdpError::Unsendable(DropReason::IpTooBig) => format!(
                "{} bytes are more than an IPv4 packet holds (65507): ask with a smaller -s",
                self.args.size
            ),
            UdpError::Broadcast => {
                format!("{address} is a broadcast address: ask one host")
            }
            UdpError::TooBig(mtu) => format!(
                "message too long, mtu={}; ask with a smaller -s, or for fragments with -M want",
                mtu.bytes()
            ),
            UdpError::Unsendable(reason) => {
                format!("cannot send to {address}: {}", reason.meaning())
            }
            other => format!("cannot send to {address}: {other}"),
        }
    }
}

/// Collect the results of requests.
fn hear(network: &mut Network, socket: PingHandle, tally: &mut Tally) -> Result<()> {
    while let Some(echo) = network.stack.ping_receive(socket) {
        match echo.outcome {
            Ok(payload) => {
                tally.reply(echo.from, echo.seq, echo.ttl, payload.len(), echo.at)?;
                network.stack.give_back(payload);
            }
            Err(error) => tally.error(echo.from, echo.seq, &error.to_string())?,
        }
    }
    Ok(())
}
