//! A thread that waits is woken by events that its own call reports.

use core::net::SocketAddr;
use core::task::Poll;
use std::time::{Duration, Instant};

use base::Owner;
use stack::IpSettings;
use stack::pair::{PairConfig, pair};

use super::block_on;
use crate::clock::Clock;
use crate::inner::Shared;
use crate::waiting::Readiness;

/// The end of a call sends what is due, and that may cause an event for the thread that is about to
/// sleep: for example, paced output makes room for a writer. Here the event is the end of the
/// connection.
#[test]
fn what_the_end_of_a_waiting_call_reports_is_not_missed() {
    let (client, server) = pair(&PairConfig::new([7, 8]));
    let shared = Shared::new(client.stack, None, Clock::from_now(base::Instant::ZERO));
    let remote = SocketAddr::new(server.addr, 9);
    let (owner, ip) = (Owner::program(), IpSettings::default());
    let mut call = shared.call().expect("a driver that is not gone");
    let handle = call.connect(remote, None, &tcp::Config::default(), owner, ip).expect("a route");
    drop(call);
    let until = Instant::now() + Duration::from_secs(5);
    let mut looks = 0;
    let answer = block_on(&shared, Readiness::Read(handle), Some(until), |inner| {
        looks += 1;
        match looks {
            1 => Poll::Pending,
            2 => {
                let port = inner.stack.port_ids()[0];
                inner.stack.remove_port(port).expect("the pair's port");
                Poll::Pending
            }
            _ => Poll::Ready(Ok(())),
        }
    });
    assert_eq!(answer.expect("no error"), Some(()), "the thread was not woken");
}
