//! A router's two texts, `/metrics` and `/healthz`, HTTP/1.1 by hyper on a thread of its own.
//!
//! Called by: `wirespeed up`. The thread has no access to the stacks: it puts each question into a
//! queue and wakes the loop of the stacks, which answers between two turns. The thread is started
//! at the beginning, because a process that gave up its privileges can start no threads; the
//! sockets to serve at come later.
//!
//! Clients are usually local programs, but may be anybody: connections, their bytes and their time
//! are bounded by [`CONNECTIONS_MAX`], [`REQUEST_MAX`] and [`TIME`]; [`Texts::refused`] counts
//! refusals. Clients that ask for metrics and do not read them take at most [`METRICS_MAX`]
//! connections, and the oldest silent client is disconnected to make room, so that the state is
//! reported at all times. The Host field is checked as for the live page. RFC 9110, RFC 9112.

use core::convert::Infallible;
use core::time::Duration;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::event::{EventfdFlags, eventfd};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::Error;
use super::access::has_address;
use super::body::Answer;

/// The most connections at a time.
pub const CONNECTIONS_MAX: usize = 32;
/// Connections to which metrics are being sent.
pub const METRICS_MAX: usize = 8;
/// The longest request head in bytes; hyper takes no less.
pub const REQUEST_MAX: usize = 8 << 10;
/// How long a connection may take.
pub const TIME: Duration = Duration::from_secs(5);
/// How long the server waits after a failed accept: the system may be out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

const THREAD: &str = "metrics";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The texts that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `/metrics`.
    Metrics,
    /// `/healthz`.
    Health,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The HTTP status code: 200 or 503.
    pub status: u16,
    /// The media type of the answer.
    pub kind: &'static str,
    /// The body of the answer.
    pub text: String,
}

struct Asked {
    path: Path,
    answer: oneshot::Sender<Text>,
}

/// The loop's end of the server.
pub struct Texts {
    listeners: UnboundedSender<Option<TcpListener>>,
    asked: Receiver<Asked>,
    rung: Arc<OwnedFd>,
    refused: Arc<AtomicU64>,
}

impl Texts {
    /// Start the thread; nothing is served yet.
    ///
    /// # Errors
    /// The system has no thread or no descriptor left.
    pub fn start() -> Result<Texts, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::of("metrics: the server has no thread"))?;
        let rung = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let rung = Arc::new(rung.map_err(Error::of("cannot make an event descriptor"))?);
        let (listeners, places) = mpsc::unbounded_channel();
        let (asks, asked) = channel(CONNECTIONS_MAX);
        let refused = Arc::new(AtomicU64::new(0));
        let shared = (rung.clone(), refused.clone());
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        let serve = move || {
            let (rung, refused) = shared;
            let state = Rc::new(State {
                asks,
                rung,
                refused,
                metrics: Cell::new(0),
                silent: RefCell::default(),
                connections: Cell::new(0),
            });
            LocalSet::new().block_on(&runtime, state.run(places));
        };
        thread.spawn(serve).map_err(Error::of("metrics: cannot start the server's thread"))?;
        Ok(Texts { listeners, asked, rung, refused })
    }

    /// Serve at this listening socket, or stop serving.
    pub fn serve_at(&self, listener: Option<OwnedFd>) {
        // The thread ends only when this value is dropped.
        let _ = self.listeners.send(listener.map(TcpListener::from));
    }

    /// The descriptor for poll(2): readable when a request waits.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.rung.as_fd()
    }

    /// Connections and requests that were refused because of a limit.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Answer the waiting requests.
    pub fn turn(&mut self, mut text: impl FnMut(Path) -> Text) {
        // The read may find nothing to read, if nothing was written.
        let _ = rustix::io::read(&self.rung, &mut [0; 8]);
        while let Ok(Asked { path, answer }) = self.asked.try_recv() {
            // A client that is gone needs no answer.
            if !answer.is_closed() {
                let _ = answer.send(text(path));
            }
        }
    }
}

struct State {
    asks: Sender<Asked>,
    rung: Arc<OwnedFd>,
    refused: Arc<AtomicU64>,
    /// Connections to which metrics are being sent.
    metrics: Cell<usize>,
    /// The connections that have not sent a request, the oldest first; each with a handle that ends
    /// it.
    silent: RefCell<VecDeque<Rc<Silent>>>,
    connections: Cell<usize>,
}

/// A connection that has not sent a request; dropping the sender ends it.
struct Silent(RefCell<Option<oneshot::Sender<()>>>);

/// Counts in a cell for as long as this value exists.
struct Counted(Rc<State>, fn(&State) -> &Cell<usize>);

impl Counted {
    fn new(state: &Rc<State>, of: fn(&State) -> &Cell<usize>) -> Counted {
        let cell = of(state);
        cell.set(cell.get() + 1);
        Counted(state.clone(), of)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let cell = self.1(&self.0);
        cell.set(cell.get() - 1);
    }
}

impl State {
    /// Serve until the loop has ended.
    async fn run(self: Rc<State>, mut places: UnboundedReceiver<Option<TcpListener>>) {
        let mut listener = None;
        loop {
            let accept = async {
                match &listener {
                    Some(listener) => tokio::net::TcpListener::accept(listener).await,
                    None => core::future::pending().await,
                }
            };
            tokio::select! {
                place = places.recv() => match place {
                    Some(place) => listener = place.and_then(|place| self.usable(place)),
                    None => return,
                },
                accepted = accept => match accepted {
                    Ok((stream, _)) => self.begin(stream),
                    Err(_) => sleep(PAUSE).await,
                }
            }
        }
    }

    fn usable(&self, place: TcpListener) -> Option<tokio::net::TcpListener> {
        place.set_nonblocking(true).ok()?;
        tokio::net::TcpListener::from_std(place).ok()
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Make room for a connection: the oldest one that has not sent a request is closed.
    fn make_room(&self) -> bool {
        if self.connections.get() < CONNECTIONS_MAX {
            return true;
        }
        self.refuse();
        let oldest = self.silent.borrow_mut().pop_front();
        // Dropping the sender ends the connection.
        oldest.is_some_and(|oldest| oldest.0.borrow_mut().take().is_some())
    }

    fn begin(self: &Rc<State>, stream: TcpStream) {
        if !self.make_room() {
            return;
        }
        let counted = Counted::new(self, |state| &state.connections);
        let (ends, ended) = oneshot::channel();
        let silent = Rc::new(Silent(RefCell::new(Some(ends))));
        self.silent.borrow_mut().push_back(silent.clone());
        spawn_local(async move {
            let state = &counted.0;
            // The connection counts as long as the answer is being sent.
            let place = RefCell::new(None);
            let answer = service_fn(|request: Request<Incoming>| {
                state.silent.borrow_mut().retain(|other| !Rc::ptr_eq(other, &silent));
                let (place, state) = (&place, state.clone());
                async move { Ok::<_, Infallible>(state.answer(&request, place).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(TIME);
            http.max_buf_size(REQUEST_MAX).keep_alive(false);
            let connection = http.serve_connection(TokioIo::new(stream), answer);
            let done = tokio::select! {
                // An error of a client ends its connection and nothing else.
                done = timeout(TIME, connection) => done.is_ok(),
                _ = ended => true,
            };
            if !done {
                state.refuse();
            }
            state.silent.borrow_mut().retain(|other| !Rc::ptr_eq(other, &silent));
        });
    }

    async fn answer(
        self: Rc<State>,
        request: &Request<Incoming>,
        place: &RefCell<Option<Counted>>,
    ) -> Response<Answer> {
        if let Err((status, why)) = has_address(request.uri(), request.headers()) {
            return refusal(status, why);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return refusal(StatusCode::METHOD_NOT_ALLOWED, "use GET");
        }
        let path = match request.uri().path() {
            "/metrics" => Path::Metrics,
            "/healthz" => Path::Health,
            _ => return refusal(StatusCode::NOT_FOUND, "there are only /metrics and /healthz"),
        };
        if path == Path::Metrics {
            if self.metrics.get() >= METRICS_MAX {
                self.refuse();
                let why = "as many clients as allowed read the metrics: try again later";
                return refusal(StatusCode::SERVICE_UNAVAILABLE, why);
            }
            *place.borrow_mut() = Some(Counted::new(&self, |state| &state.metrics));
        }
        match self.ask(path).await {
            Some(Text { status, kind, text }) => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
                whole(status, kind, text)
            }
            None => refusal(StatusCode::SERVICE_UNAVAILABLE, "the router has ended"),
        }
    }

    async fn ask(&self, path: Path) -> Option<Text> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(Asked { path, answer }).await.ok()?;
        // The write fails only if the counter is full; then the descriptor is readable as well.
        let _ = rustix::io::write(&self.rung, &1_u64.to_ne_bytes());
        answered.await.ok()
    }
}

fn refusal(status: StatusCode, why: &str) -> Response<Answer> {
    let mut response = whole(status, PLAIN, format!("{why}\n"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn whole(status: StatusCode, kind: &'static str, text: String) -> Response<Answer> {
    let mut response = Response::new(Answer::Text(Some(Bytes::from(text))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests;
