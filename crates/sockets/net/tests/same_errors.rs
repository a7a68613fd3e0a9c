//! Makes the same calls over the kernel's sockets and over ours. Each call must return the same
//! number, or the same kind of error.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use wirespeed_net::blocking;

use crate::common::Ends;

/// How long a segment gets to reach the other end. If the results differ, the next longer pause is
/// tried, because on a busy machine a segment may have arrived too late.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(30), Duration::from_millis(300), Duration::from_secs(2)];

/// A call's result as text, which can be compared between the kernel and our stack.
fn said<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// The calls of a stream that the conversations make.
trait Stream: Read + Write {
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;
    fn peer_addr(&self) -> io::Result<SocketAddr>;
    fn take_error(&self) -> io::Result<Option<io::Error>>;
    fn peek(&self, into: &mut [u8]) -> io::Result<usize>;
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    fn set_nonblocking(&self, on: bool) -> io::Result<()>;
    fn nodelay(&self) -> io::Result<bool>;
    /// Make dropping the stream reset the connection.
    fn abort_on_drop(&self);
}

macro_rules! stream {
    ($type:ty, $plain:ty, $abort:expr) => {
        impl Stream for $type {
            fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                <$type>::shutdown(self, how)
            }
            fn peer_addr(&self) -> io::Result<SocketAddr> {
                <$plain>::peer_addr(self)
            }
            fn take_error(&self) -> io::Result<Option<io::Error>> {
                <$plain>::take_error(self)
            }
            fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
                <$type>::peek(self, into)
            }
            fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                <$type>::set_read_timeout(self, timeout)
            }
            fn set_nonblocking(&self, on: bool) -> io::Result<()> {
                <$type>::set_nonblocking(self, on)
            }
            fn nodelay(&self) -> io::Result<bool> {
                <$plain>::nodelay(self)
            }
            fn abort_on_drop(&self) {
                $abort(self);
            }
        }
    };
}

stream!(std::net::TcpStream, std::net::TcpStream, |stream: &std::net::TcpStream| {
    let linger = Some(Duration::ZERO);
    socket2::SockRef::from(stream).set_linger(linger).unwrap();
});
stream!(blocking::TcpStream, wirespeed_net::TcpStream, |stream: &blocking::TcpStream| {
    stream.set_linger(Some(Duration::ZERO)).unwrap();
});

/// The sockets to test: the kernel's, or those of a pair of stacks.
trait World {
    type Stream: Stream;
    type Listener;
    fn listen(&self, at: SocketAddr) -> io::Result<Self::Listener>;
    /// An address of the side that listens, with port 0.
    fn here(&self) -> SocketAddr;
    fn local_addr(&self, listener: &Self::Listener) -> SocketAddr;
    fn accept(&self, listener: &Self::Listener) -> io::Result<Self::Stream>;
    fn never_wait(&self, listener: &Self::Listener);
    fn connect(&self, to: SocketAddr) -> io::Result<Self::Stream>;
    fn connect_timeout(&self, to: SocketAddr, timeout: Duration) -> io::Result<Self::Stream>;

    /// A connection: the end under test, and the peer's end.
    fn pair(&self) -> (Self::Stream, Self::Stream) {
        let listener = self.listen(self.here()).unwrap();
        let asked = self.connect(self.local_addr(&listener)).unwrap();
        let peer = self.accept(&listener).unwrap();
        (asked, peer)
    }
}

struct Kernel;

impl World for Kernel {
    type Stream = std::net::TcpStream;
    type Listener = std::net::TcpListener;
    fn listen(&self, at: SocketAddr) -> io::Result<std::net::TcpListener> {
        std::net::TcpListener::bind(at)
    }
    fn here(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }
    fn local_addr(&self, listener: &std::net::TcpListener) -> SocketAddr {
        listener.local_addr().unwrap()
    }
    fn accept(&self, listener: &std::net::TcpListener) -> io::Result<std::net::TcpStream> {
        Ok(listener.accept()?.0)
    }
    fn never_wait(&self, listener: &std::net::TcpListener) {
        listener.set_nonblocking(true).unwrap();
    }
    fn connect(&self, to: SocketAddr) -> io::Result<std::net::TcpStream> {
        std::net::TcpStream::connect(to)
    }
    fn connect_timeout(&self, to: SocketAddr, t: Duration) -> io::Result<std::net::TcpStream> {
        std::net::TcpStream::connect_timeout(&to, t)
    }
}

impl World for Ends {
    type Stream = blocking::TcpStream;
    type Listener = blocking::TcpListener;
    fn listen(&self, at: SocketAddr) -> io::Result<blocking::TcpListener> {
        blocking::TcpListener::bind(&self.server, at)
    }
    fn here(&self) -> SocketAddr {
        SocketAddr::new(self.to.ip(), 0)
    }
    fn local_addr(&self, listener: &blocking::TcpListener) -> SocketAddr {
        listener.local_addr().unwrap()
    }
    fn accept(&self, listener: &blocking::TcpListener) -> io::Result<blocking::TcpStream> {
        Ok(listener.accept()?.0)
    }
    fn never_wait(&self, listener: &blocking::TcpListener) {
        listener.set_nonblocking(true).unwrap();
    }
    fn connect(&self, to: SocketAddr) -> io::Result<blocking::TcpStream> {
        blocking::TcpStream::connect(&self.client, to)
    }
    fn connect_timeout(&self, to: SocketAddr, t: Duration) -> io::Result<blocking::TcpStream> {
        blocking::TcpStream::connect_timeout(&self.client, to, t)
    }
}

/// One call on the end under test, whose result is recorded, or one action of its peer.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read,
    ReadNothing,
    Peek,
    Write,
    WriteNothing,
    TakeError,
    PeerAddr,
    Shut(Shutdown),
    NonBlocking,
    TimeOut,
    PeerWrites,
    PeerShuts(Shutdown),
    PeerDrops,
    PeerResets,
}

use Step::*;

/// Run the steps, with a pause after each so that segments can arrive. Returns the results as text.
fn converse<W: World>(world: &W, steps: &[Step], pause: Duration) -> Vec<String> {
    let (mut a, peer) = world.pair();
    let mut peer = Some(peer);
    let mut buf = [0; 64];
    a.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut answers = Vec::new();
    for step in steps {
        let answer = match step {
            Read => said(a.read(&mut buf)),
            ReadNothing => said(a.read(&mut [])),
            Peek => said(a.peek(&mut buf)),
            Write => said(a.write(b"12345")),
            WriteNothing => said(a.write(b"")),
            TakeError => said(a.take_error().map(|e| e.map(|e| e.kind()))),
            PeerAddr => said(a.peer_addr().map(drop)),
            Shut(how) => said(a.shutdown(*how)),
            NonBlocking => said(a.set_nonblocking(true)),
            TimeOut => said(a.set_read_timeout(Some(Duration::ZERO))),
            PeerWrites => said(peer.as_mut().map_or(Ok(0), |peer| peer.write(b"abc"))),
            PeerShuts(how) => said(peer.as_ref().map_or(Ok(()), |peer| peer.shutdown(*how))),
            PeerDrops => {
                drop(peer.take());
                said(Ok(()))
            }
            PeerResets => {
                peer.iter().for_each(Stream::abort_on_drop);
                drop(peer.take());
                said(Ok(()))
            }
        };
        std::thread::sleep(pause);
        answers.push(format!("{step:?}: {answer}"));
    }
    answers
}

const CONVERSATIONS: &[&[Step]] = &[
    &[Read, Peek, ReadNothing, WriteNothing, PeerAddr, TakeError, NonBlocking, Read, Peek],
    &[TimeOut, PeerWrites, Peek, Read, Read, Write, Write],
    // The peer closes gracefully. Data that is written later meets no reader.
    &[PeerDrops, Read, Read, Peek, PeerAddr, TakeError, Write, Read, Write, Read, PeerAddr],
    &[PeerWrites, PeerDrops, Read, Read, Write, TakeError, Write, TakeError, Read],
    &[PeerShuts(Shutdown::Write), Read, Write, Write, Read, PeerDrops, Write, Write],
    // The peer resets the connection. The first call reports this, whichever call it is, and only
    // once.
    &[PeerResets, Read, Read, Write, Read, TakeError, PeerAddr, Shut(Shutdown::Both)],
    &[PeerResets, Write, Write, Read, Peek, TakeError],
    &[PeerResets, TakeError, TakeError, Read, Write],
    &[PeerResets, Peek, Read, Write],
    &[PeerResets, PeerAddr, ReadNothing, WriteNothing, Shut(Shutdown::Write), Read],
    // A close with unread data resets the connection.
    &[Write, PeerDrops, Read, Read, Write],
    // The end of the stream arrives before the reset.
    &[PeerShuts(Shutdown::Write), PeerResets, Read, Write, Write, TakeError],
    &[PeerShuts(Shutdown::Write), Read, PeerResets, Write, Write, Read],
    &[PeerShuts(Shutdown::Write), PeerResets, TakeError, Write, Read],
    // This side shuts down one direction, or both.
    &[
        Shut(Shutdown::Write),
        Write,
        Write,
        Read,
        PeerWrites,
        Read,
        Shut(Shutdown::Write),
        TakeError,
    ],
    &[Shut(Shutdown::Read), Read, Peek, Write, Shut(Shutdown::Read), Read],
    &[Shut(Shutdown::Both), Read, Write, Shut(Shutdown::Both), PeerAddr, TakeError],
    &[Shut(Shutdown::Write), PeerDrops, Read, PeerAddr, Shut(Shutdown::Both), Write, TakeError],
    &[PeerDrops, Shut(Shutdown::Write), Read, PeerAddr, Shut(Shutdown::Write), Write, TakeError],
];

#[test]
fn every_call_of_every_conversation_answers_alike() {
    let ours = Ends::threads();
    let mut differences = Vec::new();
    for (index, steps) in CONVERSATIONS.iter().enumerate() {
        let mut differing = Vec::new();
        for pause in PAUSES {
            let kernels = converse(&Kernel, steps, pause);
            let ours = converse(&ours, steps, pause);
            let pairs = kernels.iter().zip(&ours).filter(|(kernel, our)| kernel != our);
            differing = pairs
                .map(|(kernel, our)| format!("{index}: kernel {kernel}, ours {our}"))
                .collect();
            if differing.is_empty() {
                break;
            }
        }
        differences.append(&mut differing);
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Makes calls that need no connection, and returns their results as text.
fn alone<W: World>(world: &W) -> Vec<String> {
    let listener = world.listen(world.here()).unwrap();
    let taken = world.local_addr(&listener);
    let mut said_so = vec![said(world.listen(taken).map(drop))];
    // RFC 5737: an address for documentation, which no host has.
    let not_ours = SocketAddr::from(([203, 0, 113, 77], 0));
    said_so.push(said(world.listen(not_ours).map(drop)));
    world.never_wait(&listener);
    said_so.push(said(world.accept(&listener).map(drop)));
    drop(listener);
    said_so.push(said(world.connect(taken).map(drop)));
    said_so.push(said(world.connect_timeout(taken, Duration::from_secs(1)).map(drop)));
    said_so.push(said(world.connect_timeout(taken, Duration::ZERO).map(drop)));
    let (a, _peer) = world.pair();
    said_so.push(said(a.nodelay()));
    said_so
}

#[test]
fn calls_without_a_connection_answer_alike() {
    let kernels = alone(&Kernel);
    assert_eq!(kernels, alone(&Ends::threads()));
    assert_eq!(kernels[0], "AddrInUse");
}

/// The errors that tasks get: one source for tokio's sockets and for ours.
macro_rules! errors_of_tasks {
    ($listener:expr, $connect:expr, $pause:expr) => {{
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut answers = Vec::new();
        let listener = $listener;
        let to = listener.local_addr().unwrap();
        let mut buf = [0; 64];
        let (client, server) = tokio::join!($connect(to), listener.accept());
        let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
        answers.push(said(client.try_read(&mut buf)));
        client.writable().await.unwrap();
        answers.push(said(client.try_write(b"hello")));
        server.readable().await.unwrap();
        answers.push(said(server.try_read(&mut buf)));
        answers.push(said(server.try_read(&mut buf)));
        answers.push(said(server.shutdown().await));
        answers.push(said(server.write(b"x").await));
        answers.push(said(client.read(&mut buf).await));
        answers.push(said(client.read(&mut buf).await));
        answers.push(said(client.write(b"more").await));
        tokio::time::sleep($pause).await;
        // The server has unread data, so dropping it resets the connection.
        drop(server);
        tokio::time::sleep($pause).await;
        answers.push(said(client.write(b"x").await));
        answers.push(said(client.write(b"x").await));
        answers.push(said(client.read(&mut buf).await));
        answers.push(said(client.shutdown().await));
        answers.push(said(client.peer_addr().map(drop)));
        let (client, server) = tokio::join!($connect(to), listener.accept());
        let (mut client, (server, _)) = (client.unwrap(), server.unwrap());
        client.write_all(b"unread").await.unwrap();
        server.readable().await.unwrap();
        drop(server);
        answers.push(said(client.read(&mut buf).await));
        answers.push(said(client.read(&mut buf).await));
        drop(listener);
        answers.push(said($connect(to).await.map(drop)));
        answers
    }};
}

#[tokio::test]
async fn tasks_are_told_the_same() {
    let mut answers = (Vec::new(), Vec::new());
    for pause in PAUSES {
        let local = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kernels = errors_of_tasks!(local, tokio::net::TcpStream::connect, pause);
        let ends = Ends::tasks();
        let here = SocketAddr::new(ends.to.ip(), 0);
        let listener = wirespeed_net::TcpListener::bind(&ends.server, here).unwrap();
        let connect = |to| wirespeed_net::TcpStream::connect(&ends.client, to);
        answers = (kernels, errors_of_tasks!(listener, connect, pause));
        if answers.0 == answers.1 {
            return;
        }
    }
    assert_eq!(answers.0, answers.1);
}
