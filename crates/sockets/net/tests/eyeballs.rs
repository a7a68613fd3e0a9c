//! Happy eyeballs (RFC 8305): of several addresses, the first one that answers wins. An address
//! that does not answer costs at most 250 ms. Attempts that lose leave no connection in the stacks.

use std::io::ErrorKind;
use std::net::SocketAddr;

use base::MacAddr;
use stack::PortId;
use wirespeed_net::{TcpListener, TcpSocket, TcpStream};

use crate::common::{Ends, on_each_runtime};

/// An address that no host has. The client's neighbour table has a link address for it, so that
/// SYNs to the address are sent, and nobody answers them.
fn dead(ends: &Ends) -> SocketAddr {
    let addr: SocketAddr = "192.0.2.99:7".parse().unwrap();
    let mac = MacAddr([2, 0, 0, 0, 0, 99]);
    assert!(ends.client.with_stack(|s| s.add_neighbour(PortId(0), addr.ip(), mac)).unwrap());
    addr
}

async fn connect(ends: &Ends, remotes: &[SocketAddr]) -> std::io::Result<TcpStream> {
    TcpSocket::new(&ends.client).connect_any(remotes).await
}

#[test]
fn past_a_dead_address_and_a_refusing_one() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let v6 = SocketAddr::new("2001:db8::2".parse().unwrap(), 7);
        let refusing = SocketAddr::new(ends.to.ip(), 9);
        let dead = dead(&ends);
        let listener = TcpListener::bind(&ends.server, v6).unwrap();
        let stream = connect(&ends, &[dead, refusing, v6]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), v6);
        let (accepted, _) = listener.accept().await.unwrap();
        drop((stream, accepted));
        ends.drained().await;
    });
}

#[test]
fn all_fail_and_the_last_error_is_returned() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let refusing = SocketAddr::new(ends.to.ip(), 9);
        let nowhere: SocketAddr = "203.0.113.1:9".parse().unwrap();
        let error = connect(&ends, &[nowhere, refusing]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = connect(&ends, &[refusing, nowhere]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
        let error = connect(&ends, &[]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        ends.drained().await;
    });
}

#[test]
fn the_preferred_address_wins_if_it_answers() {
    on_each_runtime(|| async {
        let ends = Ends::tasks();
        let v6 = SocketAddr::new("2001:db8::2".parse().unwrap(), 7);
        let first = TcpListener::bind(&ends.server, v6).unwrap();
        let second = TcpListener::bind(&ends.server, ends.to).unwrap();
        let stream = connect(&ends, &[v6, ends.to]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), v6);
        first.accept().await.unwrap();
        assert_eq!(second.try_accept().err().unwrap().kind(), ErrorKind::WouldBlock);
        drop(stream);
        ends.drained().await;
    });
}
