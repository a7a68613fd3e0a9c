//! Echo requests from the stack of a running program, as the user that runs this tool.
//!
//! Called by: `ping.rs`, with `--socket` or `--pid`. Times are the stack's.

use std::time::{Duration, Instant as Monotone};

use anyhow::Result;
use wirespeed::Instant;
use wirespeed::control::protocol::{Called, Kind};

use super::Args;
use super::report::Tally;
use crate::clock::Interrupt;
use crate::running::Refused;
use crate::running::socket::Remote;
use crate::{Usage, network, output};

/// How long an answer of the program may wait for an echo to come.
const PATIENCE: Duration = Duration::from_secs(1);

/// Send requests until it is time to stop; `true` if any was answered.
pub(super) fn run(args: &Args) -> Result<bool> {
    let (address, link) = network::with_link(&args.host)
        .map_err(|why| Usage(format!("'{}' is no address of a host: {why}", args.host)))?;
    let interrupt = Interrupt::install()?;
    let kind = Kind::Ping { host: address, link };
    let mut remote = Remote::open(args.socket.as_deref(), args.pid, kind)?;
    let mut tally = Tally::new(&args.host, address, args.size, args.json);
    tally.begin()?;
    let payload: Vec<u8> = (0..args.size).map(|i| i as u8).collect();
    let (started, wait) = (Monotone::now(), Duration::from(args.wait));
    let (mut sent, mut next, mut ends) = (0_u64, started, None);
    let mut ended = Ok(());
    while !interrupt.noted() && ends.is_none_or(|at| Monotone::now() < at) {
        if Monotone::now() >= next && args.count.is_none_or(|count| sent < count) {
            sent += 1;
            match remote.send(None, sent as u16, &payload) {
                Ok((_, at)) => tally.sent(sent as u16, at),
                // The path, the route or the address may have changed and may change again.
                Err(error) if sent > 1 && error.is::<Refused>() => {
                    tally.unsent(sent as u16, Instant::ZERO);
                    output::err(&format!("local error: {error:#}"));
                }
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
            next += Duration::from(args.interval);
            ends = (args.count == Some(sent)).then(|| Monotone::now() + wait);
        }
        let due = ends.unwrap_or(next).saturating_duration_since(Monotone::now());
        match receive(&mut remote, &interrupt, due) {
            Ok(Some(came)) => hear(&came, &mut tally)?,
            Ok(None) => {}
            // The end of the program ends the requests, not what is known of them.
            Err(error) => {
                ended = Err(error);
                break;
            }
        }
        if ends.is_some() && tally.settled() >= sent {
            break;
        }
    }
    if ended.is_err() && tally.is_empty() {
        ended?;
        return Ok(false);
    }
    tally.end(wirespeed::Duration::from_nanos(started.elapsed().as_nanos() as u64))?;
    ended?;
    remote.close()?;
    Ok(tally.received > 0)
}

/// What came within this time.
fn receive(remote: &mut Remote, interrupt: &Interrupt, due: Duration) -> Result<Option<Called>> {
    remote.begin_receive(PATIENCE, "")?;
    let [is_answered, _] = remote.wait(interrupt, None, Some(due))?;
    if is_answered { remote.finish_receive().map(Some) } else { Ok(None) }
}

fn hear(came: &Called, tally: &mut Tally) -> Result<()> {
    for echo in &came.echoes {
        match &echo.error {
            Some(error) => tally.error(echo.from, echo.seq, error)?,
            None => {
                let (at, bytes) = (Instant::from_nanos(echo.at_ns), echo.bytes.unwrap_or(0));
                tally.reply(echo.from, echo.seq, echo.ttl, bytes as usize, at)?;
            }
        }
    }
    Ok(())
}
