//! Has the host a way out by IPv6: a default route? And news of that.
//!
//! Called by: `machine.rs`; `turns.rs` when there is news. The socket is made before the system
//! calls of the process are filtered. Source: rtnetlink(7).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::addresses::message;

/// Messages: an error, the end of all routes, a route is there, a route is gone, all routes.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_ROUTE: u16 = 24;
const DEL_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
/// NLM_F_REQUEST and NLM_F_DUMP; NLM_F_MULTI, of a message that was asked for.
const DUMP: u16 = 0x301;
const MULTI: u16 = 2;
/// The group of news: routes of IPv6.
const NEWS: u32 = 0x400;
const AF_INET6: u8 = 10;
/// RTN_UNICAST, RT_TABLE_LOCAL, RTM_F_CLONED.
const UNICAST: u8 = 1;
const TABLE_LOCAL: u8 = 255;
const CLONED: u32 = 0x200;

/// The host's default routes of IPv6.
pub(super) struct DefaultRoutes {
    socket: OwnedFd,
    /// How many there are, and how many of an answer that is not complete.
    defaults: usize,
    counted: usize,
    /// All have to be asked: they have changed, or the kernel lost news.
    asks: bool,
    /// An answer is not complete.
    is_answering: bool,
}

impl DefaultRoutes {
    /// The routes of now, and news of later ones.
    ///
    /// # Errors
    /// The kernel has no rtnetlink for us.
    pub(super) fn read() -> Result<DefaultRoutes> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0 is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)
            .context("there is no rtnetlink")?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, NEWS))
            .context("there is no news of routes")?;
        let mut routes =
            DefaultRoutes { socket, defaults: 0, counted: 0, asks: true, is_answering: false };
        routes.take_news();
        Ok(routes)
    }

    /// Is there a way out?
    pub(super) fn is_there(&self) -> bool {
        self.defaults > 0
    }

    /// Take the news; true if there is a way now and was none, or the other way round.
    pub(super) fn take_news(&mut self) -> bool {
        let before = self.is_there();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if self.asks && !self.is_answering && !self.ask() {
                break;
            }
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, bytes)) => self.take(buffer.get(..bytes).unwrap_or(&[])),
                Err(Errno::NOBUFS) => self.asks = true,
                Err(Errno::INTR) => {}
                // An answer is complete by now.
                Err(_) if self.asks && self.is_answering => self.is_answering = false,
                Err(_) => break,
            }
        }
        self.is_there() != before
    }

    fn ask(&mut self) -> bool {
        (self.asks, self.is_answering, self.counted) = (false, true, 0);
        let mut request = vec![0; 28];
        request[..4].copy_from_slice(&28_u32.to_ne_bytes());
        request[4..6].copy_from_slice(&GET_ROUTE.to_ne_bytes());
        request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
        request[16] = AF_INET6;
        rustix::net::send(&self.socket, &request, SendFlags::empty()).is_ok()
    }

    fn take(&mut self, mut messages: &[u8]) {
        while let Some((kind, body, rest)) = message(messages) {
            let flags = messages.get(6..8).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]));
            messages = rest;
            match kind {
                DONE | ERROR => {
                    self.is_answering = false;
                    // Without IPv6 the kernel says that it has no routes, or that it cannot say.
                    self.defaults = self.counted;
                }
                NEW_ROUTE if flags & MULTI != 0 => self.counted += usize::from(is_default(body)),
                NEW_ROUTE | DEL_ROUTE => self.asks |= is_default(body),
                _ => {}
            }
        }
    }
}

impl AsFd for DefaultRoutes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Is this `struct rtmsg` a default route of IPv6 that leads somewhere?
fn is_default(body: &[u8]) -> bool {
    let Some(&[family, length, _, _, table, _, _, kind, a, b, c, d]) = body.first_chunk::<12>()
    else {
        return false;
    };
    let is_cloned = u32::from_ne_bytes([a, b, c, d]) & CLONED != 0;
    (family, length, kind) == (AF_INET6, 0, UNICAST) && table != TABLE_LOCAL && !is_cloned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_that_leads_somewhere_is_a_way() {
        let route = |length, table, kind| [AF_INET6, length, 0, 0, table, 3, 0, kind, 0, 0, 0, 0];
        assert!(is_default(&route(0, 254, UNICAST)));
        assert!(is_default(&route(0, 100, UNICAST)), "in a table of rules");
        for other in [route(64, 254, UNICAST), route(0, 254, 7), route(0, TABLE_LOCAL, UNICAST)] {
            assert!(!is_default(&other));
        }
        let mut cached = route(0, 254, UNICAST);
        cached[8..].copy_from_slice(&CLONED.to_ne_bytes());
        assert!(!is_default(&cached) && !is_default(&[AF_INET6, 0]));
    }

    #[test]
    fn news_asks_for_all_again_and_an_answer_replaces_the_last_one() {
        let mut routes = DefaultRoutes::read().expect("rtnetlink");
        let packet = |kind: u16, flags: u16, body: &[u8]| {
            let length = 16 + body.len() as u32;
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(flags.to_ne_bytes());
            bytes.extend([0; 8]);
            bytes.extend(body);
            bytes
        };
        let default = [AF_INET6, 0, 0, 0, 254, 3, 0, UNICAST, 0, 0, 0, 0];
        routes.counted = 0;
        let answer = [packet(NEW_ROUTE, MULTI, &default), packet(DONE, MULTI, &[0; 4])].concat();
        routes.take(&answer);
        assert!(routes.is_there() && !routes.asks);
        routes.take(&packet(DEL_ROUTE, 0, &default));
        assert!(routes.asks && routes.is_there(), "another one may be left");
        routes.counted = 0;
        routes.take(&packet(DONE, MULTI, &[0; 4]));
        assert!(!routes.is_there());
    }
}
