//! Flows from a server to a host, and how long the host hears nothing of them. Called by `pair.rs`.
//! Both pass routers by a state alone: the host begins them and is silent afterwards.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::space::Space;
use super::watch::Worker;

/// The server's port of both flows.
const PORT: u16 = 7_007;
/// The time between two writes of the server.
const INTERVAL: Duration = Duration::from_millis(1);
/// Bytes of a write.
const BYTES: usize = 16;
/// How long a thread waits for bytes until it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);
/// How long a flow may take to begin.
const BEGIN: Duration = Duration::from_secs(20);
/// Datagrams that the host sends at the beginning: enough for a stream, whose state is copied.
const GREETINGS: usize = 4;

/// When a host heard of a flow.
#[derive(Clone, Copy)]
struct Heard {
    last: Instant,
    longest: Duration,
}

/// The silences of a flow.
#[derive(Clone)]
struct Silence(Arc<Mutex<Heard>>);

impl Silence {
    fn new() -> Silence {
        Silence(Arc::new(Mutex::new(Heard { last: Instant::now(), longest: Duration::ZERO })))
    }

    fn with<T>(&self, call: impl FnOnce(&mut Heard) -> T) -> T {
        call(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something came.
    fn ends(&self, now: Instant) {
        self.with(|heard| {
            heard.longest = heard.longest.max(now.saturating_duration_since(heard.last));
            heard.last = now;
        });
    }
}

/// A flow: the server's thread and the host's.
pub(super) struct Flow {
    silence: Silence,
    _ends: [Worker; 2],
}

impl Flow {
    /// A TCP connection.
    ///
    /// # Errors
    /// It is not established.
    pub(super) fn tcp(host: &Space, server: &Space, at: Ipv4Addr) -> Result<Flow> {
        let to = SocketAddr::from((at, PORT));
        let listener = server.within(|| TcpListener::bind(to).context("listening"))?;
        let far = host.within(|| {
            let stream = TcpStream::connect_timeout(&to, BEGIN).context("connecting")?;
            stream.set_read_timeout(Some(LOOK))?;
            Ok(stream)
        })?;
        let (mut near, _) = listener.accept()?;
        near.set_nodelay(true)?;
        near.set_write_timeout(Some(LOOK))?;
        let write = move || near.write(&[0; BYTES]).is_ok();
        let mut room = [0; 4_096];
        // The end of the stream is a silence, too.
        let read = move || matches!((&far).read(&mut room), Ok(1..));
        Ok(Flow::of(write, read))
    }

    /// A stream of datagrams.
    ///
    /// # Errors
    /// The server does not hear of the host.
    pub(super) fn datagrams(host: &Space, server: &Space, at: Ipv4Addr) -> Result<Flow> {
        let to = SocketAddr::from((at, PORT));
        let near = server.within(|| UdpSocket::bind(to).context("binding a socket"))?;
        near.set_read_timeout(Some(BEGIN))?;
        let far = host.within(|| {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(to)?;
            Ok(socket)
        })?;
        far.set_read_timeout(Some(LOOK))?;
        for _ in 0..GREETINGS {
            far.send(&[0; BYTES])?;
        }
        let (_, from) = near.recv_from(&mut [0; BYTES]).context("the server hears nothing")?;
        near.connect(from)?;
        // An error is an answer to a datagram before.
        let write = move || near.send(&[0; BYTES]).is_ok();
        let read = move || matches!(far.recv(&mut [0; BYTES]), Ok(1..));
        Ok(Flow::of(write, read))
    }

    fn of(
        mut write: impl FnMut() -> bool + Send + 'static,
        mut read: impl FnMut() -> bool + Send + 'static,
    ) -> Flow {
        let silence = Silence::new();
        let own = silence.clone();
        let writes = Worker::new(move || {
            let begun = Instant::now();
            write();
            std::thread::sleep(INTERVAL.saturating_sub(begun.elapsed()));
        });
        let reads = Worker::new(move || {
            if read() {
                own.ends(Instant::now());
            } else {
                // An error may come at once.
                std::thread::sleep(INTERVAL);
            }
        });
        Flow { silence, _ends: [writes, reads] }
    }

    /// Forgets silences before now.
    pub(super) fn begin(&self) {
        self.silence.with(|heard| heard.longest = Duration::ZERO);
    }

    /// Is the host hearing of the flow?
    pub(super) fn is_heard(&self) -> bool {
        self.silence.with(|heard| heard.last.elapsed() < 2 * LOOK)
    }

    /// The longest silence that has ended, in ms.
    ///
    /// # Errors
    /// The host hears nothing now.
    pub(super) fn longest_ms(&self) -> Result<f64> {
        if !self.is_heard() {
            return Err(anyhow!("the flow has ended"));
        }
        Ok(self.silence.with(|heard| heard.longest.as_secs_f64() * 1e3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silence_is_kept() {
        let silence = Silence::new();
        let begin = silence.with(|heard| heard.last);
        for ms in [1, 401, 402, 500] {
            silence.ends(begin + Duration::from_millis(ms));
        }
        assert_eq!(silence.with(|heard| heard.longest), Duration::from_millis(400));
    }
}
