//! The control socket with clients that send anything: nothing waits, nothing is kept, and a client
//! that keeps to the protocol gets its answer.
//!
//! Called by: the target `control`. The server is the real one, on a real Unix socket; time is
//! passed in.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use arbitrary::{Result, Unstructured};
use base::{Budget, Duration, Instant, Limit};
use control::frame::MAGIC;
use control::{Reply, Server, VERSION};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Bytes of a hello.
const HELLO_LEN: usize = 12;
/// Steps of a script.
const STEPS_MAX: usize = 60;
/// Descriptors that a script sends at once; more than the limit here.
const DESCRIPTORS_MAX: usize = 8;

/// A script of one client that keeps to the protocol: connect, hello, a request, its answer.
pub fn whole_request() -> Vec<u8> {
    let mut script = vec![0, 0, 32, 0, 64, 0, 5];
    script.extend_from_slice(b"hello");
    script
}

/// The hello of a client: the magic, the version, and a welcome that means nothing here.
fn hello() -> Vec<u8> {
    let mut hello = MAGIC.to_vec();
    hello.extend_from_slice(&VERSION.to_be_bytes());
    hello.extend_from_slice(&[0, 0]);
    hello
}

/// A client: its socket, and what came back.
struct Client {
    socket: UnixStream,
    received: Vec<u8>,
    /// Payloads it sent in whole frames after a hello, and nothing else.
    asked: Option<Vec<Vec<u8>>>,
    greeted: bool,
}

fn budget() -> Budget {
    let mut budget = Budget::default();
    for (limit, value) in [
        (Limit::ControlClients, 3),
        (Limit::ControlFrameBytes, 1_000),
        (Limit::ControlDescriptors, 4),
    ] {
        budget.set(limit, value);
    }
    budget
}

/// Sockets are counted in the whole process: one bench at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn open_sockets() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// Any clients that do anything.
pub fn any_client(data: &[u8]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = open_sockets();
    let mut bench = Bench::new();
    let mut u = Unstructured::new(data);
    for _ in 0..STEPS_MAX {
        if u.is_empty() || bench.step(&mut u).is_err() {
            break;
        }
        bench.poll();
    }
    bench.finish();
    assert_eq!(open_sockets(), before, "descriptors are left open");
}

struct Bench {
    server: Server,
    path: PathBuf,
    clients: Vec<Client>,
    now: Instant,
}

impl Bench {
    fn new() -> Bench {
        let name = format!("wirespeed-fuzz-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let server = Server::bind(&path, budget(), |_| None, |_| true).expect(
            "the folder for temporary files (TMPDIR) can be written, and its path is short",
        );
        Bench { server, path, clients: Vec::new(), now: Instant::from_nanos(1) }
    }

    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let (what, which) = (u.arbitrary::<u8>()?, usize::from(u.arbitrary::<u8>()?));
        if what < 32 {
            self.connect();
            return Ok(());
        }
        if (240..=247).contains(&what) {
            self.now += Duration::from_millis(u.arbitrary::<u16>()?.into());
            return Ok(());
        }
        let count = self.clients.len();
        let Some(client) = self.clients.get_mut(which % count.max(1)) else { return Ok(()) };
        match what {
            32..=63 => client.hello(),
            64..=127 => {
                let payload = bytes(u)?;
                client.frame(&payload);
            }
            128..=159 => client.raw(&bytes(u)?),
            160..=191 => {
                let (payload, count) = (bytes(u)?, usize::from(u.arbitrary::<u8>()?));
                client.with_descriptors(&payload, 1 + count % DESCRIPTORS_MAX, u.arbitrary()?);
            }
            192..=207 => client.header(u.arbitrary()?, u.arbitrary()?, u.arbitrary()?),
            208..=239 => client.receive(),
            _ => drop(self.clients.swap_remove(which % count)),
        }
        Ok(())
    }

    fn connect(&mut self) {
        if self.clients.len() >= 5 {
            return;
        }
        let socket = UnixStream::connect(&self.path).expect("the server listens");
        socket.set_nonblocking(true).expect("a socket can be told not to wait");
        let (received, asked) = (Vec::new(), Some(Vec::new()));
        self.clients.push(Client { socket, received, asked, greeted: false });
    }

    fn poll(&mut self) {
        self.server.poll(self.now, |_, request, _| Reply::Now(request));
        let (clients, most) = (self.server.clients(), budget().of(Limit::ControlClients));
        assert!(clients <= most, "{clients} clients, {most} may");
        assert!(clients == 0 || self.server.next_deadline() != Instant::NEVER);
    }

    /// Well-formed requests are answered in their order; then all clients end.
    fn finish(mut self) {
        for _ in 0..2 * STEPS_MAX {
            self.poll();
            self.clients.iter_mut().for_each(Client::receive);
        }
        for client in self.clients.drain(..) {
            client.check();
        }
        self.now += Duration::from_secs(3_600);
        self.poll();
        self.poll();
        assert_eq!(self.server.clients(), 0, "a client that left is kept");
    }
}

fn bytes(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let len = usize::from(u.arbitrary::<u8>()?);
    Ok(u.bytes(len.min(u.len()))?.to_vec())
}

impl Client {
    /// Send what the socket takes; the server may have closed it.
    fn raw(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.asked = None;
        }
        let _ = self.socket.write(bytes);
    }

    fn hello(&mut self) {
        let asked = self.asked.take().filter(|_| !self.greeted);
        self.raw(&hello());
        (self.asked, self.greeted) = (asked, true);
    }

    fn frame(&mut self, payload: &[u8]) {
        let mut asked = self.asked.take().filter(|_| self.greeted);
        let mut frame = (payload.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.raw(&frame);
        if let Some(asked) = &mut asked {
            asked.push(payload.to_vec());
        }
        self.asked = asked;
    }

    fn header(&mut self, length: u32, descriptors: u16, reserved: u16) {
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend_from_slice(&descriptors.to_be_bytes());
        frame.extend_from_slice(&reserved.to_be_bytes());
        self.raw(&frame);
    }

    /// A frame with `count` descriptors, whose header has `declared` instead of `count` if that is
    /// given.
    fn with_descriptors(&mut self, payload: &[u8], count: usize, declared: Option<u16>) {
        self.asked = None;
        let mut frame = (payload.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&declared.unwrap_or(count as u16).to_be_bytes());
        frame.extend_from_slice(&[0; 2]);
        frame.extend_from_slice(payload);
        let descriptors = vec![self.socket.as_fd(); count];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = sendmsg(&self.socket, &[IoSlice::new(&frame)], &mut control, flags);
    }

    fn receive(&mut self) {
        let mut buffer = [0; 4_096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Check that a hello came first, and then the answers, if this client kept to the protocol.
    fn check(self) {
        let Some(theirs) = self.received.get(..HELLO_LEN) else { return };
        assert_eq!(theirs[..10], hello()[..10], "the server's hello");
        let welcome = theirs[10..] == [0, 0];
        let (Some(asked), true) = (&self.asked, welcome) else { return };
        let mut wanted = Vec::new();
        for payload in asked.iter().filter(|_| self.greeted) {
            wanted.extend_from_slice(&(payload.len() as u32).to_be_bytes());
            wanted.extend_from_slice(&[0; 4]);
            wanted.extend_from_slice(payload);
        }
        let answers = &self.received[HELLO_LEN..];
        assert!(wanted.starts_with(answers), "answers that nobody asked for");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_to_the_protocol_is_answered() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bench = Bench::new();
        let script = whole_request();
        let mut u = Unstructured::new(&script);
        while !u.is_empty() && bench.step(&mut u).is_ok() {
            bench.poll();
        }
        let client = &mut bench.clients[0];
        client.receive();
        assert_eq!(client.received[HELLO_LEN..], *b"\0\0\0\x05\0\0\0\0hello");
        bench.finish();
    }
}
