//! The bodies of answers: a text, or events until the browser disconnects. Also the limit on how
//! long a connection may stay open without reading any data.
//!
//! Called by: `server.rs`; hyper, which asks for the next part when it has written the previous
//! one.

use core::cell::Cell;
use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until};

use super::feed::Watched;

/// How long a connection may stay open without reading any data.
const PATIENCE: Duration = Duration::from_secs(30);

/// When a connection will be closed because it reads no data.
#[derive(Clone)]
pub(super) struct Deadline(Rc<Cell<Instant>>);

impl Deadline {
    pub(super) fn new() -> Deadline {
        Deadline(Rc::new(Cell::new(Instant::now() + PATIENCE)))
    }

    /// Move the deadline: the connection has read data.
    fn put_off(&self) {
        self.0.set(Instant::now() + PATIENCE);
    }

    /// Wait until the deadline has passed.
    pub(super) async fn passes(self) {
        while Instant::now() < self.0.get() {
            sleep_until(self.0.get()).await;
        }
    }
}

/// The body of an answer.
pub(super) enum Answer {
    /// A text, which is sent once.
    Text(Option<Bytes>),
    /// Events, which are sent as they come.
    Events { queue: Receiver<Bytes>, deadline: Deadline, _watcher: Watcher },
}

/// A browser that has the page open.
pub(super) struct Watcher(Arc<Watched>);

impl Watcher {
    pub(super) fn new(watched: Arc<Watched>) -> Watcher {
        watched.come();
        Watcher(watched)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Answer::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Answer::Events { queue, deadline, .. } => queue.poll_recv(cx).map(|event| {
                deadline.put_off();
                event.map(|event| Ok(Frame::data(event)))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Answer::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Answer::Events { .. } => SizeHint::default(),
        }
    }
}
