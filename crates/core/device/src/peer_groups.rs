//! The supplementary groups of a Unix socket's peer, as they were when it connected: SO_PEERGROUPS.
//!
//! Called by: programs, which pass it to the control socket's server. It is in this crate because
//! no library wraps the call, and raw system calls belong here. /proc is no substitute: the process
//! ID may have been reused. Source: socket(7), and `sk_getsockopt` of the kernel: with ERANGE it
//! returns the length that it needs.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// The most groups of a process in Linux (NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;

/// The supplementary groups of the peer; `None` if `socket` is not a connected Unix socket, or
/// Linux is older than 4.13.
pub fn peer_groups(socket: BorrowedFd<'_>) -> Option<Vec<u32>> {
    let mut groups: Vec<u32> = vec![0; 64];
    loop {
        let mut bytes = libc::socklen_t::try_from(size_of_val(groups.as_slice())).ok()?;
        // SAFETY: the descriptor is borrowed, hence open, for the whole call; `groups` is writable
        // for `bytes` bytes and `bytes` is a valid socklen_t, both ours alone; any bit pattern that
        // the kernel writes is a u32.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = usize::try_from(bytes).ok()? / size_of::<u32>();
        if result == 0 {
            groups.truncate(count);
            return Some(groups);
        }
        // ERANGE: the kernel wrote the length that it needs. Any other error leaves no larger
        // length.
        if count <= groups.len() || count > GROUPS_MAX {
            return None;
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_peers_groups_are_those_of_this_process() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let mut found = peer_groups(ours.as_fd()).expect("the kernel says");
        let status = std::fs::read_to_string("/proc/self/status").expect("proc is there");
        let line = status.lines().find_map(|l| l.strip_prefix("Groups:")).expect("a line");
        let mut expected: Vec<u32> = line.split_whitespace().flat_map(str::parse).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_unix_socket_has_none() {
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert_eq!(peer_groups(udp.as_fd()), None);
    }
}
