//! Lists the listening sockets in the format of Linux's /proc/net/tcp, in a file beside the one
//! with the sysctls. Scripts `grep` in /proc/net/tcp; a `grep` earlier on their PATH reads this
//! file instead.
//!
//! Called by: `socket.rs`, when a socket begins or ends to listen. A write error is ignored. Source
//! of the format: Linux's proc_net_tcp.

use core::net::{IpAddr, SocketAddr};
use std::fmt::Write as _;

use super::file::{Endpoint, File};
use super::world::State;

/// `TCP_LISTEN`.
const LISTEN: u8 = 10;

/// Write the list of the sockets that listen now.
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
