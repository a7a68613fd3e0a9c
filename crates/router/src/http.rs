//! A small HTTP/1.1 server for two pages: `/metrics` and `/healthz`. One request a connection; no
//! call blocks.
//!
//! Called by: the worker of `wirespeed up`, between its turns or when a descriptor is ready. Its
//! clients are local programs, but may be anybody: connections, their bytes and their time are
//! bounded by [`CLIENTS_MAX`], [`REQUEST_MAX`] and [`TIME`]; [`Server::refused`] counts. RFC 9110,
//! RFC 9112.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

/// Connections at a time; further ones are closed at once.
pub const CLIENTS_MAX: usize = 8;
/// The longest request in bytes, and the most header fields.
pub const REQUEST_MAX: usize = 8 << 10;
const FIELDS_MAX: usize = 64;
/// How long a connection may take.
pub const TIME: Duration = Duration::from_secs(5);

/// A page.
pub struct Page {
    /// 200 or 503.
    pub status: u16,
    /// Its media type.
    pub kind: &'static str,
    /// Its text.
    pub text: String,
}

/// The pages there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `/metrics`.
    Metrics,
    /// `/healthz`.
    Health,
}

struct Client {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// Being sent, from the second field on.
    answer: Option<(Vec<u8>, usize)>,
}

/// The server.
pub struct Server {
    listener: TcpListener,
    clients: Vec<Client>,
    refused: u64,
}

impl Server {
    /// Serve at a listening socket.
    ///
    /// # Errors
    /// The system's.
    pub fn new(listener: OwnedFd) -> std::io::Result<Server> {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Server { listener, clients: Vec::new(), refused: 0 })
    }

    /// Connections that were closed because of a limit.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// For poll(2).
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let of = |client: &Client| match client.answer {
            Some(_) => PollFlags::OUT,
            None => PollFlags::IN,
        };
        let clients = self.clients.iter().map(move |c| (c.stream.as_fd(), of(c)));
        std::iter::once((self.listener.as_fd(), PollFlags::IN)).chain(clients)
    }

    /// When a connection's time is up.
    pub fn deadline(&self) -> Option<Instant> {
        self.clients.iter().map(|client| client.until).min()
    }

    /// Accept, read, answer with `page`, send.
    pub fn turn(&mut self, mut page: impl FnMut(Path) -> Page) {
        // So many are accepted at a time, so that nobody keeps us here.
        for _ in 0..2 * CLIENTS_MAX {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if self.clients.len() >= CLIENTS_MAX || stream.set_nonblocking(true).is_err() {
                self.refused += 1;
                continue;
            }
            let until = Instant::now() + TIME;
            self.clients.push(Client { stream, until, request: Vec::new(), answer: None });
        }
        let now = Instant::now();
        let refused = &mut self.refused;
        self.clients.retain_mut(|client| {
            let goes_on = client.turn(&mut page);
            let is_late = goes_on && client.until <= now;
            *refused += u64::from(is_late);
            goes_on && !is_late
        });
    }
}

impl Client {
    /// Does the connection go on?
    fn turn(&mut self, page: &mut impl FnMut(Path) -> Page) -> bool {
        if self.answer.is_none() {
            let mut room = [0; 2048];
            match self.stream.read(&mut room) {
                Ok(0) => return false,
                Ok(count) => self.request.extend_from_slice(&room[..count]),
                Err(error) => return is_temporary(error.kind()),
            }
            self.answer = answer(&self.request, page).map(|answer| (answer, 0));
        }
        let Some((bytes, sent)) = &mut self.answer else { return true };
        while *sent < bytes.len() {
            match self.stream.write(&bytes[*sent..]) {
                Ok(0) => return false,
                Ok(count) => *sent += count,
                Err(error) => return is_temporary(error.kind()),
            }
        }
        // What is still to be read would turn the end into a reset.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        false
    }
}

fn is_temporary(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The answer to a request; `None` while it is not complete.
fn answer(request: &[u8], page: &mut impl FnMut(Path) -> Page) -> Option<Vec<u8>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    match parsed.parse(request) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if request.len() < REQUEST_MAX => return None,
        Ok(httparse::Status::Partial) => return Some(refusal(431, "the request is too long")),
        Err(_) => return Some(refusal(400, "the request is not understood")),
    }
    let is_head = parsed.method == Some("HEAD");
    if !is_head && parsed.method != Some("GET") {
        return Some(refusal(405, "ask by GET"));
    }
    let path = parsed.path.unwrap_or_default();
    let Page { status, kind, text } = match path.split('?').next() {
        Some("/metrics") => page(Path::Metrics),
        Some("/healthz") => page(Path::Health),
        _ => return Some(refusal(404, "there are /metrics and /healthz")),
    };
    Some(written(status, kind, &text, is_head))
}

fn refusal(status: u16, why: &str) -> Vec<u8> {
    written(status, "text/plain; charset=utf-8", &format!("{why}\n"), false)
}

fn written(status: u16, kind: &str, text: &str, is_head: bool) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Bad Request",
    };
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let mut bytes = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}\
         Connection: close\r\n\r\n",
        text.len()
    );
    if !is_head {
        bytes += text;
    }
    bytes.into_bytes()
}

#[cfg(test)]
mod tests;
