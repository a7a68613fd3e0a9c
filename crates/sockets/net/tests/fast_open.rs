//! TCP Fast Open for programs: the first connect gets the cookie; the second sends the request in
//! its SYN, and the server reads it before the handshake ends.

use std::io::{Read, Write};

use stack::FastOpenConfig;
use wirespeed_net::TcpSocket;
use wirespeed_net::blocking::{TcpListener, TcpStream};

use crate::common::Ends;

#[test]
fn the_second_connect_carries_its_request() {
    let ends = Ends::threads();
    let mut socket = TcpSocket::new(&ends.server);
    socket.bind(ends.to);
    socket.set_fast_open(FastOpenConfig { pending_max: 8, ..FastOpenConfig::default() });
    let listener = TcpListener::from(socket.listen(8).unwrap());
    let socket = TcpSocket::new(&ends.client);
    for (turn, wanted) in [0, 7].into_iter().enumerate() {
        let (mut client, carried) = TcpStream::connect_first(&socket, ends.to, b"request").unwrap();
        assert_eq!(carried, wanted, "turn {turn}");
        client.write_all(&b"request"[carried..]).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut request = [0; 7];
        server.read_exact(&mut request).unwrap();
        assert_eq!(&request, b"request");
        assert_eq!(client.tcp_info().unwrap().syn_data, carried > 0);
        server.write_all(b"answer").unwrap();
        let mut answer = [0; 6];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
    }
}
