//! The live page's server, HTTP/1.1 by hyper on a thread of its own: the page, and the samples as
//! server-sent events (WHATWG HTML, section 9.2).
//!
//! Called by: `lib.rs`. The server has no access to the stacks: samples come through a queue, and
//! nothing goes back. Clients may be anybody, so the number of connections and of event streams,
//! the bytes and the time of a request, and the data that waits for a slow client are bounded.
//! Refusals are counted, and the page shows the count.

use core::cell::{Cell, RefCell};
use core::convert::Infallible;
use core::time::Duration;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use net::ShardsListener;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpListener;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{LocalSet, spawn_local};

use super::access::{Token, Wanted, check};
use super::body::{Answer, Deadline, Watcher};
use super::budget::Budget;
use super::document::Page;
use super::feed::Watched;

/// The most connections at a time, and the most of them that take events.
const CONNECTIONS_MAX: usize = 32;
const STREAMS_MAX: usize = 8;
/// Events that wait for a slow client; further events are dropped.
const QUEUE: usize = 4;
/// The longest request head in bytes, and the longest time for receiving it.
const REQUEST_MAX: usize = 16 << 10;
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long the server waits after a failed accept: the system may be out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The source of connections.
pub(super) enum Listener {
    System(TcpListener),
    Stack(ShardsListener),
    /// The loop of the stack carries them.
    Carried(Receiver<DuplexStream>),
}

/// The parts of the server.
pub(super) struct Server {
    pub(super) listener: Listener,
    pub(super) page: Page,
    pub(super) token: Option<Token>,
    pub(super) watched: Arc<Watched>,
    pub(super) samples: Receiver<Value>,
    pub(super) budget: Budget,
}

struct State {
    page: Page,
    token: Option<Token>,
    watched: Arc<Watched>,
    budget: Budget,
    streams: RefCell<Vec<Sender<Bytes>>>,
    connections: Cell<usize>,
    /// Refused connections and streams, and events that were dropped because a slow client did not
    /// take them.
    refused: Cell<u64>,
    left_out: Cell<u64>,
}

impl Server {
    /// Serve until the stacks are gone.
    pub(super) async fn run(self) {
        let Server { mut listener, page, token, watched, mut samples, budget } = self;
        let state = Rc::new(State {
            page,
            token,
            watched,
            budget,
            streams: RefCell::default(),
            connections: Cell::new(0),
            refused: Cell::new(0),
            left_out: Cell::new(0),
        });
        let serve = async {
            loop {
                tokio::select! {
                    sample = samples.recv() => match sample {
                        Some(sample) => state.publish(sample),
                        None => return,
                    },
                    accepted = listener.accept(&state) => {
                        if accepted.is_err() {
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                }
            }
        };
        // The connections end with the set.
        LocalSet::new().run_until(serve).await;
    }
}

impl Listener {
    /// Wait for a connection, and begin to answer it.
    async fn accept(&mut self, state: &Rc<State>) -> io::Result<()> {
        match self {
            Listener::System(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without this option, an event may wait for the acknowledgement of the previous
                // one.
                let _ = stream.set_nodelay(true);
                state.begin(stream);
            }
            Listener::Stack(listener) => {
                let (stream, _) = listener.accept().await?;
                state.begin(stream);
            }
            Listener::Carried(connections) => match connections.recv().await {
                Some(stream) => state.begin(stream),
                // The stack is gone, and no connection will come.
                None => core::future::pending().await,
            },
        }
        Ok(())
    }
}

/// Counts a connection for as long as this value exists.
struct Counted(Rc<State>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

impl State {
    fn begin(self: &Rc<State>, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        if self.connections.get() >= CONNECTIONS_MAX {
            self.refused.set(self.refused.get() + 1);
            return;
        }
        self.connections.set(self.connections.get() + 1);
        let (counted, deadline) = (Counted(self.clone()), Deadline::new());
        let passes = deadline.clone().passes();
        spawn_local(async move {
            let state = &counted.0;
            let answer = service_fn(|request: Request<Incoming>| {
                let answer = state.answer(&request, &deadline);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIME);
            http.max_buf_size(REQUEST_MAX).keep_alive(false);
            let connection = http.serve_connection(TokioIo::new(stream), answer);
            tokio::select! {
                // An error of a client ends its connection and nothing else.
                _ = connection => {}
                () = passes => {}
            }
        });
    }

    fn answer(&self, request: &Request<Incoming>, deadline: &Deadline) -> Response<Answer> {
        let token = self.token.as_ref();
        match check(token, request.method(), request.uri(), request.headers()) {
            Ok(Wanted::Page) => {
                self.whole(StatusCode::OK, "text/html; charset=utf-8", self.page.html.clone())
            }
            Ok(Wanted::Events) => self.events(deadline),
            Err((status, why)) => self.refusal(status, why),
        }
    }

    fn events(&self, deadline: &Deadline) -> Response<Answer> {
        let mut streams = self.streams.borrow_mut();
        streams.retain(|stream| !stream.is_closed());
        if streams.len() >= STREAMS_MAX {
            self.refused.set(self.refused.get() + 1);
            let why = "too many browsers have the page open: close one of them";
            return self.refusal(StatusCode::SERVICE_UNAVAILABLE, why);
        }
        let (sender, queue) = channel(QUEUE);
        streams.push(sender);
        let _watcher = Watcher::new(self.watched.clone());
        self.budget.want();
        let body = Answer::Events { queue, deadline: deadline.clone(), _watcher };
        self.response(StatusCode::OK, "text/event-stream", body)
    }

    fn refusal(&self, status: StatusCode, why: &str) -> Response<Answer> {
        self.whole(status, "text/plain; charset=utf-8", Bytes::from(format!("{why}\n")))
    }

    fn whole(&self, status: StatusCode, kind: &'static str, text: Bytes) -> Response<Answer> {
        self.response(status, kind, Answer::Text(Some(text)))
    }

    fn response(&self, status: StatusCode, kind: &'static str, body: Answer) -> Response<Answer> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CONTENT_SECURITY_POLICY, self.page.policy.clone());
        for (name, value) in [
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-store"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let same_origin = HeaderValue::from_static("same-origin");
        headers.insert("cross-origin-resource-policy", same_origin);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }

    /// Send a sample to all browsers.
    fn publish(&self, mut sample: Value) {
        let mut streams = self.streams.borrow_mut();
        sample["page"] = json!({
            "watched_by": streams.len(),
            "refused": self.refused.get(),
            "left_out": self.left_out.get(),
        });
        sample["budget"] = self.budget.latest();
        let event = Bytes::from(format!("data: {sample}\n\n"));
        streams.retain(|stream| match stream.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.left_out.set(self.left_out.get() + 1);
                true
            }
            Err(TrySendError::Closed(_)) => false,
        });
    }
}
