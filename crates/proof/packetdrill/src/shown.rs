//! Measures how long a connection was sending, limited by the peer's window, or limited by its own
//! send buffer, and when data last arrived. `TCP_INFO` reports these times; the stack does not keep
//! them.
//!
//! Called by: `world.rs`, whenever time has moved; `info.rs` reads the times.

use core::net::{IpAddr, SocketAddr};
use std::fmt::Write as _;

use base::{Duration, Instant};
use tcp::Info;

use super::file::{Endpoint, File};
use super::world::State;

/// The times of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    looked: Option<Instant>,
    received: u64,
    kind: Kind,
    pub(super) data_at: Option<Instant>,
    pub(super) busy: Duration,
    pub(super) window_limited: Duration,
    pub(super) buffer_limited: Duration,
}

/// What the connection did between two calls of `look`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Idle,
    Busy,
    Window,
    Buffer,
}

impl Usage {
    /// Account for the time since the last call. `blocked` says whether a writer waits.
    pub(super) fn look(&mut self, now: Instant, info: &Info, blocked: bool) {
        let passed = now.since(self.looked.unwrap_or(now));
        match self.kind {
            Kind::Idle => {}
            Kind::Busy => self.busy = self.busy + passed,
            Kind::Window => {
                self.busy = self.busy + passed;
                self.window_limited = self.window_limited + passed;
            }
            Kind::Buffer => {
                self.busy = self.busy + passed;
                self.buffer_limited = self.buffer_limited + passed;
            }
        }
        if self.looked.is_none() || info.bytes_received > self.received {
            self.data_at = Some(now);
        }
        (self.looked, self.received) = (Some(now), info.bytes_received);
        let room = info.snd_wnd.saturating_sub(info.in_flight) as usize;
        self.kind = if info.unsent > 0 && room < info.snd_mss.min(info.unsent) {
            Kind::Window
        } else if blocked && info.unsent == 0 {
            Kind::Buffer
        } else if info.unsent > 0 || info.in_flight > 0 {
            Kind::Busy
        } else {
            Kind::Idle
        };
    }
}

// Lists the listening sockets in the format of Linux's /proc/net/tcp, in a file in the same
// directory as the one with the sysctls. Scripts `grep` in /proc/net/tcp; another `grep`, found
// first on their PATH, reads this file instead.
//
// Errors of the write are ignored. Source of the format: Linux's proc_net_tcp.

/// `TCP_LISTEN`.
const LISTEN: u8 = 10;

/// Write the list of the sockets that are listening now.
pub(super) fn write(state: &State) {
    let Some(sysctls) = &state.profile.sysctls else { return };
    let mut text = String::from("  sl  local_address rem_address   st\n");
    let listening = state.files.values().filter_map(|file| match file {
        File::Socket(socket) if matches!(socket.endpoint, Endpoint::Listening(_)) => socket.local,
        _ => None,
    });
    for (index, local) in listening.enumerate() {
        let _ = writeln!(text, "{index:4}: {} 00000000:0000 {LISTEN:02X} ", words(local));
    }
    let mut file = sysctls.clone().into_os_string();
    file.push(".sockets");
    let _ = std::fs::write(file, text);
}

/// An address as the kernel prints it: 32-bit words in host byte order, then the port.
fn words(local: SocketAddr) -> String {
    let mut text = String::new();
    let mut word = |octets: &[u8]| {
        let word = octets.iter().rev().fold(0u32, |sum, &octet| sum << 8 | u32::from(octet));
        let _ = write!(text, "{word:08X}");
    };
    match local.ip() {
        IpAddr::V4(ip) => word(&ip.octets()),
        IpAddr::V6(ip) => ip.octets().chunks(4).for_each(word),
    }
    let _ = write!(text, ":{:04X}", local.port());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_words_of_the_machine() {
        let of = |text: &str| words(text.parse().expect("an address"));
        assert_eq!(of("192.168.0.1:8080"), "0100A8C0:1F90");
        assert_eq!(of("[::1]:80"), "00000000000000000000000001000000:0050");
    }
}
