//! Happy eyeballs (RFC 8305): connect to the first of several addresses that answers, without a
//! long wait for addresses that do not answer.
//!
//! Called by: programs, which resolve the name. The addresses are tried in the program's order,
//! except that the families alternate (section 4).

use core::future::poll_fn;
use core::net::SocketAddr;
use core::task::Poll;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;

use crate::wait::Alarm;
use crate::{TcpSocket, TcpStream};

/// Time between the starts of two attempts: Connection Attempt Delay of RFC 8305 section 5.
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The addresses with the two families alternating, beginning with the family of the first.
fn interleaved(remotes: &[SocketAddr]) -> VecDeque<SocketAddr> {
    let first_is_v6 = remotes.first().is_some_and(SocketAddr::is_ipv6);
    let mut families = [VecDeque::new(), VecDeque::new()];
    for remote in remotes {
        families[usize::from(remote.is_ipv6() != first_is_v6)].push_back(*remote);
    }
    let [mut preferred, mut other] = families;
    let mut order = VecDeque::new();
    while !preferred.is_empty() || !other.is_empty() {
        order.extend(preferred.pop_front());
        order.extend(other.pop_front());
    }
    order
}

impl TcpSocket {
    /// Connect to the first of `remotes` that answers. The next attempt begins when the last one
    /// has failed, or [`ATTEMPT_DELAY`] after it began. When one attempt succeeds, the others are
    /// closed. Dropping the future ends all of them.
    ///
    /// # Errors
    /// The error of the last attempt, if all failed; [`io::ErrorKind::InvalidInput`] if `remotes`
    /// is empty.
    pub async fn connect_any(&self, remotes: &[SocketAddr]) -> io::Result<TcpStream> {
        let shared = self.net().shared();
        let mut order = interleaved(remotes);
        let mut attempts: Vec<TcpStream> = Vec::new();
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no address to connect to");
        let mut next: Option<Alarm<'_>> = None;
        poll_fn(|cx| {
            loop {
                let mut at = 0;
                while let Some(attempt) = attempts.get(at) {
                    match attempt.poll_connected(cx) {
                        Poll::Pending => at += 1,
                        Poll::Ready(Ok(())) => return Poll::Ready(Ok(attempts.swap_remove(at))),
                        Poll::Ready(Err(error)) => {
                            last = error;
                            attempts.swap_remove(at);
                            // The attempt failed: start the next one at once.
                            next = None;
                        }
                    }
                }
                if let Some(alarm) = &mut next
                    && alarm.poll(cx)?.is_pending()
                {
                    return Poll::Pending;
                }
                let Some(remote) = order.pop_front() else { break };
                match self.start(remote) {
                    Ok(attempt) => {
                        attempts.push(attempt);
                        let at = shared.now() + ATTEMPT_DELAY.into();
                        next = Some(Alarm::new(shared, Some(at)));
                    }
                    Err(error) => {
                        last = error;
                        next = None;
                    }
                }
            }
            if attempts.is_empty() {
                let none = io::Error::from(io::ErrorKind::Other);
                return Poll::Ready(Err(core::mem::replace(&mut last, none)));
            }
            next = None;
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns_beginning_with_the_first() {
        let [a, b, c] = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"].map(|a| a.parse().unwrap());
        let [x, y] = ["[2001:db8::1]:1", "[2001:db8::2]:1"].map(|a| a.parse().unwrap());
        assert_eq!(interleaved(&[x, y, a, b, c]), [x, a, y, b, c]);
        assert_eq!(interleaved(&[a, b, x]), [a, x, b]);
        assert_eq!(interleaved(&[]), []);
    }
}
