//! Any stream and any datagrams to clients and servers of ONC RPC: nothing grows, every reply can
//! be read.
//!
//! Called by: the targets `rpc_record` and `rpc_message`.

use core::net::SocketAddr;

use base::{Instant, KeyedHash};
use rpc::client::{Config, DatagramClient, StreamClient};
use rpc::limits::BUFFER_UNIT;
use rpc::message::{Call, Reply};
use rpc::portmap::{PROGRAM, PortMapper};
use rpc::record::RecordReader;
use rpc::server::{Incoming, Server, Session, Transport};
use rpc::xdr::Encode;

const RECORD_BYTES: usize = 4_096;

fn server() -> Server {
    let mut server = Server::new(KeyedHash::new(1, 2));
    server.add(PortMapper::new(&["udp", "tcp", "udp6", "tcp6"], || 0));
    server
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 700))
}

/// Any stream, in pieces of the size that the first byte says.
///
/// # Panics
/// If a record is longer than the limit, or the buffer grows.
pub fn any_stream(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let mut server = server();
    let mut session = Session::new(local(), RECORD_BYTES, Instant::ZERO);
    let mut client = StreamClient::new(Config::new(PROGRAM, 2), 1);
    let mut reader = RecordReader::new(64, RECORD_BYTES);
    let (mut session_ended, mut client_ended) = (false, false);
    for mut rest in stream.chunks(usize::from(piece) + 1) {
        while !rest.is_empty() {
            let room = [session.room().len(), client.room().len(), reader.room().len()];
            let count = room.into_iter().fold(rest.len(), usize::min);
            let (now, later) = rest.split_at(count);
            rest = later;
            if !session_ended {
                session.room()[..count].copy_from_slice(now);
                session_ended = session.filled(count, &mut server, Instant::ZERO).is_err();
                let owed = session.output().len();
                session.written(owed);
            }
            if !client_ended {
                client.room()[..count].copy_from_slice(now);
                client.filled(count);
                let reply = client.next_reply();
                assert!(!matches!(reply, Ok(Some(_))), "nothing was called");
                client_ended = reply.is_err();
            }
            reader.room()[..count].copy_from_slice(now);
            reader.filled(count);
            loop {
                match reader.next_record() {
                    Ok(Some(record)) => assert!(record.len() <= RECORD_BYTES),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            assert!(reader.memory() <= 8 * BUFFER_UNIT, "{} bytes", reader.memory());
        }
    }
}

/// Any message, as a call and as a reply.
///
/// # Panics
/// If an answer is no reply, or a parsed message is written differently.
pub fn any_message(data: &[u8]) {
    if let Ok(call) = Call::parse(data) {
        let mut again = Vec::new();
        call.encode(&mut again);
        assert_eq!(Call::parse(&again), Ok(call));
    }
    let mut client = DatagramClient::new(Config::new(PROGRAM, 2), KeyedHash::new(1, 2));
    assert!(client.on_datagram(data, Instant::ZERO).is_none(), "nothing was called");
    let mut server = server();
    for transport in [Transport::Datagram, Transport::Stream] {
        let mut out = Vec::new();
        let (bytes, from, reply_max, room) = (data, local(), RECORD_BYTES, RECORD_BYTES);
        let incoming = Incoming { bytes, more: &[], from, transport, reply_max, room };
        if server.answer(&incoming, &mut out) {
            assert!(Reply::parse(&out).is_ok());
            assert!(out.len() <= RECORD_BYTES);
        } else {
            assert!(out.is_empty());
        }
    }
}

/// A call to the port mapper, and its record.
pub fn whole_call() -> (Vec<u8>, Vec<u8>) {
    let mut client = StreamClient::new(Config::new(PROGRAM, 2), 1);
    let called = client.call(4, &(), Instant::ZERO);
    assert!(called.is_ok(), "there is room for one");
    let record = client.output().to_vec();
    (record[4..].to_vec(), [&[255], record.as_slice()].concat())
}
