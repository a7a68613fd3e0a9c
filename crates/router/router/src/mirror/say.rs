//! Says to the first process what the ports with mirrors are like, whenever that changes.
//!
//! Called by: `frames.rs`. It does not wait: a message for which there is no room is said later.

use std::os::fd::AsFd;

use base::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use stack::{Origin, Stack};

use super::{ADDRESSES_MAX, State};
use crate::applied::AppliedPort;

/// The time after which a state is said again while there is no descriptor of the mirror: the first
/// process tries again to make it.
const AGAIN: Duration = Duration::from_secs(1);

/// The last state of a port that was said.
#[derive(Debug, Default)]
pub(super) struct Said {
    state: Option<State>,
    at: Option<Instant>,
}

impl Said {
    /// Say `state` to `listener`, if that is news; returns when to try again.
    pub(super) fn say(&mut self, state: State, now: Instant, listener: impl AsFd) -> Instant {
        let is_news = self.state.as_ref() != Some(&state);
        let due =
            if state.has_device { Instant::NEVER } else { self.at.map_or(now, |at| at + AGAIN) };
        if !is_news && now < due {
            return due;
        }
        // It is text and numbers, and bounded.
        let Ok(bytes) = serde_json::to_vec(&state) else { return Instant::NEVER };
        match send(listener, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => now + Duration::from_millis(20),
            // The first process is gone, and so will we be.
            _ => {
                let has_device = state.has_device;
                (self.state, self.at) = (Some(state), Some(now));
                if has_device { Instant::NEVER } else { now + AGAIN }
            }
        }
    }
}

/// What a port is like.
pub(super) fn state(
    name: &str,
    port: &AppliedPort,
    has_device: bool,
    stacks: &[&mut Stack],
) -> Option<State> {
    let first = stacks.first()?;
    let all = first.addresses(port.id).iter();
    // Those of programs come from there.
    let usable = all.filter(|a| a.is_usable() && a.origin != Origin::Program);
    let addresses = usable.map(|address| (address.ip(), address.cidr.prefix_len));
    let is_up = |stack: &&mut Stack| stack.device(port.id).is_some_and(|device| device.link_up());
    Some(State {
        port: name.to_owned(),
        mac: port.mac.0,
        mtu: State::mtu(first.device(port.id)?.limits().mtu.bytes()),
        carrier: stacks.iter().all(is_up),
        addresses: addresses.take(ADDRESSES_MAX).collect(),
        has_device,
    })
}
