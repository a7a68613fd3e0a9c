//! Tags of connections, which their events carry.

use core::net::SocketAddr;

use base::Owner;
use tcp::Events;

use super::icmp::NOW;
use crate::pair::{PairConfig, pair};
use crate::{Event, ListenConfig, TcpHandle};

#[test]
fn a_tagged_connection_is_named_by_its_tag_and_others_by_their_handles() {
    let (mut client, mut server) = pair(&PairConfig::new([1, 2]));
    let to = SocketAddr::new(server.addr, 7);
    server.stack.tcp_listen(to, ListenConfig::default()).expect("free");
    let connect = |stack: &mut crate::Stack| -> TcpHandle {
        stack.tcp_connect(to, None, &tcp::Config::default(), Owner::program(), NOW).expect("routed")
    };
    let (tagged, plain) = (connect(&mut client.stack), connect(&mut client.stack));
    assert!(client.stack.tcp_set_tag(tagged, Some(u64::MAX)));
    for _ in 0..3 {
        client.stack.poll(NOW);
        server.stack.poll(NOW);
    }
    let mut seen: Vec<Event> = core::iter::from_fn(|| client.stack.next_event()).collect();
    seen.sort_by_key(|event| matches!(event, Event::Tcp(..)));
    let [Event::Tagged(u64::MAX, first), Event::Tcp(other, second)] = seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!((other, first), (plain, second));
    assert!(first.has(Events::CONNECTED));
    // An event that is queued already has the tag that the connection has when it is taken.
    client.stack.tcp_shutdown_read(tagged);
    client.stack.tcp_shutdown_read(plain);
    assert!(client.stack.tcp_set_tag(tagged, None));
    assert!(client.stack.tcp_set_tag(plain, Some(0)));
    let seen: Vec<Event> = core::iter::from_fn(|| client.stack.next_event()).collect();
    assert!(matches!(seen[..], [Event::Tcp(handle, _), Event::Tagged(0, _)] if handle == tagged));
    client.stack.tcp_abort(plain);
    client.stack.poll(NOW);
    assert!(!client.stack.tcp_set_tag(plain, Some(1)), "it is gone");
}
