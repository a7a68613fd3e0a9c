//! The forwarder accepts connections to any destination, shows the destination before the SYN is
//! answered, and keeps its limits.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use base::{Cidr, DropReason, Limit, MacAddr};
use stack::PortId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wirespeed_net::{Forwarder, Net, TcpListener, TcpStream};

use crate::common::Ends;

/// Gives the client a default route to the server.
fn route_everything(client: &Net, via: SocketAddr) {
    client
        .with_stack(|stack| {
            let dest = Cidr { addr: "0.0.0.0".parse().unwrap(), prefix_len: 0 };
            let route = inet::Route::new(dest, Some(via.ip()), 0);
            assert!(stack.add_neighbour(PortId(0), via.ip(), MacAddr([2, 0, 0, 0, 0, 2])));
            stack.add_route(route);
        })
        .unwrap();
}

fn forwarding(tune: impl FnOnce(&mut stack::pair::PairConfig)) -> (Ends, Forwarder) {
    let (ends, drivers) = Ends::undriven(tune);
    for driver in drivers {
        tokio::spawn(driver.with_tokio());
    }
    route_everything(&ends.client, ends.to);
    let forwarder = Forwarder::new(&ends.server, Default::default(), 16).unwrap();
    (ends, forwarder)
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 7], 443))
}

#[tokio::test]
async fn completed_with_both_addresses_known() {
    let (ends, forwarder) = forwarding(|_| {});
    let (connecting, accepting) =
        tokio::join!(TcpStream::connect(&ends.client, anywhere()), async {
            let request = forwarder.accept().await.unwrap();
            assert_eq!(request.dst(), anywhere());
            let src = request.src();
            let stream = request.complete().await.unwrap();
            assert_eq!(stream.local_addr().unwrap(), anywhere());
            assert_eq!(stream.peer_addr().unwrap(), src);
            stream
        });
    let (mut client, mut server) = (connecting.unwrap(), accepting);
    client.write_all(b"to the world").await.unwrap();
    let mut got = [0; 12];
    server.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"to the world");
    // A listener takes precedence over the forwarder.
    let listener = TcpListener::bind(&ends.server, ends.to).unwrap();
    let direct = TcpStream::connect(&ends.client, ends.to).await.unwrap();
    listener.accept().await.unwrap();
    drop((client, server, direct, listener));
    ends.drained().await;
}

#[tokio::test]
async fn nothing_is_answered_before_the_word() {
    let (ends, forwarder) = forwarding(|_| {});
    let connecting = TcpStream::connect(&ends.client, anywhere());
    let early = tokio::time::timeout(Duration::from_millis(30), connecting).await;
    assert!(early.is_err(), "the SYN was answered before the program accepted it");
    assert_eq!(ends.server.with_stack(|s| s.connection_count()).unwrap(), 0);
    let request = forwarder.accept().await.unwrap();
    // The client has given up in the meantime, and answers the SYN-ACK with a RST.
    assert_eq!(request.complete().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    ends.drained().await;
}

#[tokio::test]
async fn reset_is_connection_refused() {
    let (ends, forwarder) = forwarding(|_| {});
    let (refused, ()) = tokio::join!(TcpStream::connect(&ends.client, anywhere()), async {
        forwarder.accept().await.unwrap().reset().unwrap();
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    ends.drained().await;
}

#[tokio::test]
async fn dropped_is_silence_and_the_next_syn_is_a_new_request() {
    let (ends, forwarder) = forwarding(|_| {});
    let (connected, server) = tokio::join!(TcpStream::connect(&ends.client, anywhere()), async {
        drop(forwarder.accept().await.unwrap());
        // The client retransmits its SYN after a second, and that is a new request.
        forwarder.accept().await.unwrap().complete().await.unwrap()
    });
    drop((connected.unwrap(), server));
    let dropped = ends.server.with_stack(|s| s.drops().of(DropReason::TcpForwardDropped)).unwrap();
    assert_eq!(dropped, 1);
    ends.drained().await;
}

#[tokio::test]
async fn requests_half_open_and_established_are_limited() {
    let (ends, forwarder) = forwarding(|config| {
        config.stack.budget.set(Limit::ForwardRequests, 3);
        config.stack.budget.set(Limit::Forwarded, 2);
    });
    // 200 clients connect, but there are only three records and no connection.
    let clients: Vec<_> = (0..200u16)
        .map(|n| {
            let to = SocketAddr::from(([198, 51, 100, (n % 250) as u8], 1000 + n));
            let net = ends.client.clone();
            tokio::spawn(async move { TcpStream::connect(&net, to).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (waiting, open, hits) = ends
        .server
        .with_stack(|s| {
            (s.request_count(), s.connection_count(), s.budget().hits(Limit::ForwardRequests))
        })
        .unwrap();
    assert_eq!((waiting, open), (3, 0));
    assert!(hits >= 197, "{hits}");
    let one = forwarder.accept().await.unwrap().complete().await.unwrap();
    let two = forwarder.accept().await.unwrap().complete().await.unwrap();
    let third = forwarder.accept().await.unwrap().complete().await.unwrap_err();
    assert_eq!(third.kind(), ErrorKind::QuotaExceeded);
    assert!(third.to_string().contains("forwarded"), "{third}");
    // When a connection has ended there is room again, and the SYNs that clients retransmit are
    // served.
    drop(one);
    let next = forwarder.accept().await.unwrap().complete().await.unwrap();
    clients.iter().for_each(|client| client.abort());
    drop((two, next, forwarder));
    for client in clients {
        drop(client.await);
    }
    ends.drained().await;
}
