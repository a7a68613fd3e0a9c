//! The server beyond every gateway: TCP streams in both directions, echoes, connections that it
//! closes at once, and datagrams. Called by `world.rs`, in a namespace of its own; `load.rs` asks
//! it. Its CPU time is nobody's.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::measure::pattern;
use crate::peers::kernel::{UNIT, listen};

/// The server's address, which only the default route leads to.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);

/// How often a client has to ask for datagrams, so that the server goes on sending them.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(50);
/// How long it goes on without being asked.
const PATIENCE: Duration = Duration::from_millis(300);
/// Datagrams between two looks for questions.
const BURST: usize = 64;
/// Payload of the datagrams that it sends.
const DATAGRAM_BYTES: usize = 1400;

/// Ports of connections that are closed at once, one for each thread of the client: the server ends
/// in TIME-WAIT, and a port of the client may be used again for another one.
pub(super) const SHORT_PORTS: u16 = 16;

const PORT: u16 = 5201;
/// The port of name servers.
pub(super) const NAMES: u16 = 53;

/// Where streams are asked for.
pub(super) fn stream_address() -> SocketAddr {
    SocketAddr::from((SERVER, PORT))
}

/// Where datagrams go.
pub(super) fn datagram_address() -> SocketAddr {
    SocketAddr::from((SERVER, PORT))
}

/// Where connections are closed at once.
pub(super) fn short_address(flow: usize) -> SocketAddr {
    SocketAddr::from((SERVER, PORT + 1 + (flow % usize::from(SHORT_PORTS)) as u16))
}

/// The first byte of a stream: what the client wants of the server.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Ask {
    /// Read until the end.
    Take = b'u',
    /// Write until the end.
    Give = b'd',
    /// Send back what comes.
    Echo = b'e',
}

/// What the server has received.
#[derive(Default)]
pub(super) struct Counted {
    bytes: AtomicU64,
}

impl Counted {
    /// Bytes of streams.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// Begins to serve, in the namespace of the calling thread. The threads end with this process.
///
/// # Errors
/// A port is taken.
pub(super) fn begin() -> Result<Arc<Counted>> {
    let counted = Arc::<Counted>::default();
    let (listener, own) = (listen(stream_address())?, Arc::clone(&counted));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = Arc::clone(&own);
            std::thread::spawn(move || serve(stream, &counted));
        }
    });
    for flow in 0..usize::from(SHORT_PORTS) {
        let listener = listen(short_address(flow))?;
        std::thread::spawn(move || close_at_once(&listener));
    }
    let names = UdpSocket::bind((SERVER, NAMES)).context("binding the port of names")?;
    std::thread::spawn(move || answer_names(&names));
    let socket = UdpSocket::bind(datagram_address()).context("binding the server's port")?;
    std::thread::spawn(move || datagrams(&socket));
    Ok(counted)
}

fn close_at_once(listener: &TcpListener) {
    for stream in listener.incoming() {
        drop(stream);
    }
}

/// One stream. Errors end it: the client's are what is measured.
fn serve(mut stream: TcpStream, counted: &Counted) {
    let mut ask = [0];
    if stream.set_nodelay(true).is_err() || stream.read_exact(&mut ask).is_err() {
        return;
    }
    let mut buffer = pattern(UNIT);
    if ask[0] == Ask::Give as u8 {
        while stream.write_all(&buffer).is_ok() {}
        return;
    }
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        counted.bytes.fetch_add(bytes as u64, Relaxed);
        if ask[0] == Ask::Echo as u8 && stream.write_all(&buffer[..bytes]).is_err() {
            return;
        }
    }
}

/// Reads datagrams, and floods whoever has asked lately by a datagram of one byte.
fn datagrams(socket: &UdpSocket) {
    let data = pattern(DATAGRAM_BYTES);
    let mut into = [0; 2048];
    let mut asked: Option<(SocketAddr, Instant)> = None;
    loop {
        let is_flooding = asked.is_some_and(|(_, at)| at.elapsed() < PATIENCE);
        if socket.set_nonblocking(is_flooding).is_err() {
            return;
        }
        loop {
            match socket.recv_from(&mut into) {
                Ok((1, from)) => {
                    asked = Some((from, Instant::now()));
                    break;
                }
                Ok(_) => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                // An error about a datagram that nobody wanted.
                Err(_) => break,
            }
        }
        if let Some((to, at)) = asked
            && at.elapsed() < PATIENCE
        {
            for _ in 0..BURST {
                // A full queue is full for all.
                let _ = socket.send_to(&data, to);
            }
        }
    }
}

/// Answers every question for an address with one of a public network, each with another one, so
/// that a gateway has a name for each.
fn answer_names(socket: &UdpSocket) {
    let mut next = 0_u32;
    let mut into = [0; 512];
    while let Ok((bytes, from)) = socket.recv_from(&mut into) {
        if let Some(answer) = answer(&into[..bytes], Ipv4Addr::from_bits(0x0b00_0001 + next)) {
            next += 1;
            // A client that does not listen asks again.
            let _ = socket.send_to(&answer, from);
        }
    }
}

/// An answer with one address (RFC 1035 section 4): the question, without what is beyond it, and a
/// record that points to its name.
fn answer(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let name = question.get(12..)?;
    let end = name.iter().position(|&byte| byte == 0)?;
    let mut message = question.get(..12 + end + 5)?.to_vec();
    // A response without an error; one question and one answer.
    message[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4]);
    message.extend(address.octets());
    Some(message)
}

/// Datagrams that have reached the namespace of the calling thread: those that programs read, and
/// those that programs were too slow for, because a gateway has delivered them all.
///
/// # Errors
/// The kernel has no such table.
pub(super) fn datagrams_received() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").context("reading snmp")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next(), lines.next());
    let (names, values) = names.zip(values).context("snmp has no Udp")?;
    let both = names.split(' ').zip(values.split(' '));
    let counted = both.filter(|(name, _)| matches!(*name, "InDatagrams" | "RcvbufErrors"));
    counted.map(|(_, value)| Ok(value.parse::<u64>()?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_question_and_an_address() {
        let mut question = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, b'a', 0, 0, 1, 0, 1];
        // An additional record, which the answer does not have.
        question.extend([0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 0]);
        let message = answer(&question, Ipv4Addr::new(11, 0, 0, 7)).expect("a question");
        assert_eq!(message[..12], [1, 2, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(message[12..19], question[12..19]);
        assert!(message.ends_with(&[0, 4, 11, 0, 0, 7]));
        assert_eq!(answer(&question[..14], Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn a_thread_of_the_client_has_a_port_of_its_own() {
        assert_ne!(short_address(0), stream_address());
        assert_ne!(short_address(0), short_address(15));
        assert_eq!(short_address(0), short_address(16));
    }
}
