//! [`Patience`]: repeats a call while the server is unreachable or silent.
//!
//! Called by: `client/mod.rs` for each call. If a server restarts, the client waits, like a soft
//! mount: it repeats the call until `PATIENCE` is over. If that takes long, the program gets one
//! notice, and another one when the server answers again. Limits: `PATIENCE`, `AWAY`, `QUIET`.

use core::fmt;
use core::future::Future;
use core::pin::pin;
use core::time::Duration;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rpc::client::CallError;
use rpc::tasks::Results;
use rpc::xdr::{Decode, Decoder};
use tokio::time::{Instant as Monotone, sleep, timeout_at};

use super::Error;
use crate::limits::{AWAY, PATIENCE, QUIET};
use crate::proto::Status;

/// An event that a program may report to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// The server cannot be reached or is silent, and the client waits.
    Waiting,
    /// The server answers again, after [`Notice::Waiting`].
    Answers,
    /// The path of something that is not a file, a directory or a symbolic link; it is not copied.
    PassedOver(&'a str),
}

/// The program's function for notices.
type Notify = dyn Fn(Notice<'_>) + Send + Sync;

/// How long to wait for a server, and the program's function for notices. Clones share what is
/// known of the server.
#[derive(Clone)]
pub(super) struct Patience {
    notify: Arc<Notify>,
    server: Arc<Mutex<Seen>>,
    limit: Duration,
}

/// What is known of a server.
#[derive(Debug)]
struct Seen {
    /// When the server answered last.
    answered: Option<Monotone>,
    /// Was the last notice [`Notice::Waiting`]?
    is_notified: bool,
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Default for Patience {
    fn default() -> Patience {
        let server = Arc::new(Mutex::new(Seen { answered: None, is_notified: false }));
        Patience { notify: Arc::new(|_| {}), server, limit: PATIENCE.into() }
    }
}

/// The first pause before a call is repeated, and the longest one.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

impl Patience {
    pub(super) fn with_notices(mut self, notify: Arc<Notify>) -> Patience {
        self.notify = notify;
        self
    }

    pub(super) fn with_limit(mut self, limit: Duration) -> Patience {
        self.limit = limit;
        self
    }

    pub(super) fn tell(&self, notice: Notice<'_>) {
        (self.notify)(notice);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The results of a call, and whether the call was repeated. If it was, an earlier try may have
    /// been carried out.
    ///
    /// # Errors
    /// There are no results within the time.
    pub(super) async fn results<F>(&self, call: impl Fn() -> F) -> Result<(Results, bool), Error>
    where
        F: Future<Output = Result<Results, CallError>>,
    {
        let (began, mut is_again, mut pause) = (Monotone::now(), false, PAUSES[0]);
        loop {
            let quiet = if is_again { AWAY } else { QUIET };
            let done = self.watched(began, quiet.into(), call()).await;
            let is_late = began.elapsed() + pause > self.limit;
            match done {
                Ok(results) => {
                    self.answers();
                    if is_late || !is_busy(&results) {
                        return Ok((results, is_again));
                    }
                }
                Err(error) if is_late || !is_away(&error) => return Err(error.into()),
                Err(_) => is_again = true,
            }
            self.watched(began, AWAY.into(), sleep(pause)).await;
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    /// Wait for `what`. If the server has been silent for too long by then, notify the program.
    async fn watched<T>(
        &self,
        began: Monotone,
        quiet: Duration,
        what: impl Future<Output = T>,
    ) -> T {
        let mut what = pin!(what);
        loop {
            let (is_notified, due) = {
                let seen = self.seen();
                (seen.is_notified, seen.answered.map_or(began, |at| at.max(began)) + quiet)
            };
            if is_notified {
                return what.await;
            }
            if let Ok(done) = timeout_at(due, &mut what).await {
                return done;
            }
            let is_silent = {
                let mut seen = self.seen();
                let since = seen.answered.map_or(began, |at| at.max(began));
                let is_silent = !seen.is_notified && since + quiet <= Monotone::now();
                seen.is_notified |= is_silent;
                is_silent
            };
            if is_silent {
                self.tell(Notice::Waiting);
            }
        }
    }

    fn answers(&self) {
        let was_notified = {
            let mut seen = self.seen();
            seen.answered = Some(Monotone::now());
            core::mem::take(&mut seen.is_notified)
        };
        if was_notified {
            self.tell(Notice::Answers);
        }
    }
}

/// Does the error mean that the server may answer again soon?
fn is_away(error: &CallError) -> bool {
    match error {
        CallError::Disconnected | CallError::TimedOut => true,
        CallError::Transport(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::NotConnected
                | ErrorKind::UnexpectedEof
                | ErrorKind::TimedOut
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown
        ),
        _ => false,
    }
}

/// Does the server ask the client to repeat the call later (NFS3ERR_JUKEBOX)?
fn is_busy(results: &[u8]) -> bool {
    Status::decode(&mut Decoder::new(results)) == Ok(Status::Jukebox)
}
