//! Echo requests from the stack of a running program, as the user that runs this tool.
//!
//! Called by: `ping.rs`, with `--socket` or `--pid`. Times are the stack's.

use core::net::IpAddr;
use std::time::{Duration, Instant as Monotone};

use anyhow::{Result, bail};
use serde_json::Value;
use wirespeed::Instant;

use super::args::Args;
use super::report::Tally;
use crate::clock::Interrupt;
use crate::running::Kind;
use crate::running::socket::Remote;
use crate::{Usage, output};

/// How long an answer of the program may wait for an echo to come.
const PATIENCE: Duration = Duration::from_secs(1);

/// Send requests until it is time to stop; `true` if any was answered.
pub(super) fn run(args: &Args) -> Result<bool> {
    let Ok(address) = args.host.parse::<IpAddr>() else {
        bail!(Usage(format!("'{}' is no address: give one, as 192.0.2.1", args.host)));
    };
    let interrupt = Interrupt::install()?;
    let kind = Kind::Ping { host: address };
    let mut remote = Remote::open(args.socket.as_deref(), args.pid, kind)?;
    let mut tally = Tally::new(&args.host, address, args.size, args.json);
    tally.begin()?;
    let payload: Vec<u8> = (0..args.size).map(|i| i as u8).collect();
    let (started, wait) = (Monotone::now(), Duration::from(args.wait));
    let (mut sent, mut next, mut ends) = (0_u64, started, None);
    while !interrupt.noted() && ends.is_none_or(|at| Monotone::now() < at) {
        if Monotone::now() >= next && args.count.is_none_or(|count| sent < count) {
            sent += 1;
            let (_, at) = remote.send(None, sent as u16, &payload)?;
            tally.sent(sent as u16, at);
            next += Duration::from(args.interval);
            ends = (args.count == Some(sent)).then(|| Monotone::now() + wait);
        }
        remote.begin_receive(PATIENCE, "")?;
        let due = ends.unwrap_or(next).saturating_duration_since(Monotone::now());
        let [is_answered, _] = remote.wait(&interrupt, None, Some(due))?;
        if is_answered {
            hear(&remote.finish_receive()?, &mut tally)?;
        }
        if ends.is_some() && tally.settled() >= sent {
            break;
        }
    }
    remote.close()?;
    tally.end(wirespeed::Duration::from_nanos(started.elapsed().as_nanos() as u64))?;
    Ok(tally.received > 0)
}

fn hear(came: &Value, tally: &mut Tally) -> Result<()> {
    for echo in came["echoes"].as_array().into_iter().flatten() {
        let number = |key: &str| echo[key].as_u64().unwrap_or(0);
        let text = |key: &str| output::plain(echo[key].as_str().unwrap_or_default());
        let Ok(from) = text("from").parse() else { continue };
        let seq = number("seq") as u16;
        match echo["error"].is_string() {
            true => tally.error(from, seq, &text("error"))?,
            false => {
                let at = Instant::from_nanos(number("at_ns"));
                tally.reply(from, seq, number("ttl") as u8, number("bytes") as usize, at)?;
            }
        }
    }
    Ok(())
}
