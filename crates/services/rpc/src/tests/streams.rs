//! Streams: clients and servers over the kernel's sockets, and without sockets.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration as Time;

use base::{Duration, Instant};

use super::{PROGRAM, SampleClient, peer, server};
use crate::auth::{AuthSys, Credential};
use crate::blocking::{Caller, Clock, Tcp, serve};
use crate::client::{CallError, Config, StreamClient};
use crate::limits::{HALF_RECORD, IDLE, RECORD_BYTES};
use crate::server::{Session, SessionError};
use crate::xdr::{Bytes, Decoder};

fn clock() -> Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    Instant::from_nanos(START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64 + 1)
}

type Client = Tcp<TcpStream, Box<dyn FnMut() -> io::Result<TcpStream>>>;

/// A client of a server that accepts this many connections.
fn connected(config: Config, connections: usize) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        let mut server = server();
        for _ in 0..connections {
            let (mut stream, from) = listener.accept().expect("a connection");
            let _ = serve(&mut server, &mut stream, from, RECORD_BYTES, clock as Clock);
        }
    });
    let connect = move || {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Time::from_millis(50)))?;
        Ok(stream)
    };
    Tcp::connect(config, 7, clock, Box::new(connect) as Box<_>).expect("it listens")
}

#[test]
fn a_program_of_ones_own_is_called_over_tcp() {
    let mut client = SampleClient(connected(Config::new(PROGRAM, 3), 1));
    let array: Vec<u32> = (0..10_000).collect();
    assert_eq!(client.sum(&array).expect("results"), 49_995_000);
    for bytes in [0, 1, 4_096, 8_192, 16_400, 65_536, 1_000_000] {
        let sent = Bytes((0..bytes).map(|n| n as u8).collect());
        assert_eq!(client.echo(&sent).expect("results"), sent);
    }
    assert!(matches!(client.user(&()), Err(CallError::Auth(_))));
    assert!(matches!(client.echo(&Bytes(vec![0; RECORD_BYTES])), Err(CallError::TooLong(..))));
    assert_eq!(client.count(&()).expect("and goes on"), 1);
}

#[test]
fn many_calls_are_in_flight_and_batched_ones_have_no_reply() {
    let sys = AuthSys { uid: 1_001, machine: "here".to_owned(), ..AuthSys::default() };
    let config = Config { credential: Credential::Sys(sys), ..Config::new(PROGRAM, 3) };
    let mut client = connected(config, 1);
    let ids: Vec<_> = (0..16).map(|_| client.send(2, &()).expect("room")).collect();
    for (n, id) in ids.into_iter().enumerate() {
        let (replied, count) = client
            .reply(|replied, results| (replied, Decoder::whole::<u32>(results.expect("success"))))
            .expect("a reply");
        assert_eq!((replied, count), (id, Ok(n as u32 + 1)));
    }
    (0..3).for_each(|_| client.batch(4, &()).expect("room"));
    (0..3).for_each(|_| client.batch(2, &()).expect("room"));
    assert_eq!(client.call::<_, u32>(2, &()).expect("results"), 20);
    assert_eq!(client.client().drops().of(base::DropReason::RpcNotAsked), 3);
    assert_eq!(SampleClient(client).user(&()).expect("results"), 1_001);
}

#[test]
fn a_silent_server_times_out_and_the_next_call_connects_anew() {
    let config = Config { timeout: Duration::from_millis(200), ..Config::new(PROGRAM, 3) };
    let mut client = SampleClient(connected(config, 2));
    assert!(matches!(client.silence(&()), Err(CallError::TimedOut)));
    assert_eq!(client.count(&()).expect("a new connection"), 1);
}

#[test]
fn a_connection_that_ends_takes_its_calls_along() {
    let mut client = StreamClient::new(Config::new(PROGRAM, 3), 1);
    let id = client.call(2, &(), Instant::ZERO).expect("room");
    assert_eq!(client.disconnected(), [id]);
    assert_eq!((client.waiting(), client.output().len()), (0, 0));
}

#[test]
fn one_buffer_has_the_whole_record_whatever_its_size() {
    let mut client = StreamClient::new(Config::new(PROGRAM, 3), 1);
    for bytes in [0, 8_188, 16_384, 65_536] {
        client.call(3, &Bytes(vec![1; bytes]), Instant::ZERO).expect("room");
        assert_eq!(client.output().len(), 4 + 40 + 4 + bytes);
        client.written(48 + bytes);
    }
}

#[test]
fn a_session_ends_when_it_is_idle_or_a_record_takes_too_long() {
    let (mut server, now) = (server(), Instant::from_nanos(1));
    let mut session = Session::new(peer(), RECORD_BYTES, now);
    assert_eq!(session.deadline(), now + IDLE);
    session.room()[..2].copy_from_slice(&[0x80, 0]);
    session.filled(2, &mut server, now + Duration::from_secs(10)).expect("half a mark");
    session.room()[..1].copy_from_slice(&[0]);
    session.filled(1, &mut server, now + Duration::from_secs(20)).expect("and more of it");
    assert_eq!(session.deadline(), now + Duration::from_secs(10) + HALF_RECORD);
    session.room()[..5].copy_from_slice(&[4, 1, 2, 3, 4]);
    let ended = session.filled(5, &mut server, now);
    assert_eq!(ended, Err(SessionError::Malformed));
}

#[test]
fn a_session_that_owes_too_much_carries_out_nothing_more() {
    let (mut server, now) = (server(), Instant::from_nanos(1));
    let mut client = StreamClient::new(Config::new(PROGRAM, 3), 1);
    (0..20).for_each(|_| {
        client.call(3, &Bytes(vec![1; 1_000_000]), now).expect("room");
    });
    let mut session = Session::new(peer(), RECORD_BYTES, now);
    let mut rest = client.output();
    while !session.is_full() {
        let room = session.room();
        let bytes = room.len().min(rest.len());
        room[..bytes].copy_from_slice(&rest[..bytes]);
        rest = &rest[bytes..];
        session.filled(bytes, &mut server, now).expect("calls");
    }
    assert!(session.output().len() < 6_000_000, "{}", session.output().len());
    assert_eq!(server.answered(), 5);
}

/// A peer that sends these bytes again and again, one byte at a time, and reads everything.
struct Dribbling {
    bytes: &'static [u8],
    sent: usize,
}

impl io::Read for Dribbling {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.sent == 10_000 {
            return Ok(0);
        }
        room[0] = self.bytes[self.sent % self.bytes.len()];
        self.sent += 1;
        Ok(1)
    }
}

impl io::Write for Dribbling {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reply that matches no call: its mark, xid, REPLY, and the status "accepted".
const NOT_ASKED: &[u8] =
    &[0x80, 0, 0, 24, 7, 7, 7, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A clock that advances by a second at each reading.
fn a_second_a_look() -> Instant {
    static LOOKS: AtomicU64 = AtomicU64::new(1);
    Instant::ZERO + Duration::from_secs(LOOKS.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn a_peer_that_sends_byte_by_byte_has_no_more_time_than_others() {
    // The peer sends empty fragments without end, or a long record.
    for bytes in [&[0_u8, 0, 0, 0][..], &[0x80, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0]] {
        let mut stream = Dribbling { bytes, sent: 0 };
        let ended = serve(&mut server(), &mut stream, peer(), RECORD_BYTES, a_second_a_look);
        let error = ended.expect_err("it takes too long");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(stream.sent <= HALF_RECORD.as_nanos() as usize / 1_000_000_000);
        // The peer sends a reply that never ends, or a reply to no call.
        for bytes in [bytes, NOT_ASKED] {
            let connect = || Ok(Dribbling { bytes, sent: 0 });
            let client = Tcp::connect(Config::new(PROGRAM, 3), 7, a_second_a_look, connect);
            let called = client.expect("a stream").call::<_, u32>(2, &());
            assert!(matches!(called, Err(CallError::TimedOut)), "{called:?}");
        }
    }
}
