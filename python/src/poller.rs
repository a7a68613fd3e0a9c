//! [`Poller`]: tells an event loop which sockets have news. Its descriptor is readable while there
//! are some.
//!
//! Called by: `python/wirespeed/_asyncio.py`. A socket is armed for one report: it says its token
//! once when it becomes readable or writable, at once if it is so already.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use pyo3::prelude::*;
use wirespeed::device::Alarm;

use crate::error;

/// What sockets and the poller share.
pub(crate) struct News {
    tokens: Mutex<Vec<u64>>,
    alarm: Waker,
}

impl News {
    /// Are there tokens that nobody has taken?
    pub(crate) fn any(&self) -> bool {
        !self.tokens.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(crate) fn report(&self, token: u64) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.push(token);
        let first = tokens.len() == 1;
        drop(tokens);
        if first {
            self.alarm.wake_by_ref();
        }
    }
}

/// A waker that reports a token.
struct Token {
    news: Arc<News>,
    token: u64,
}

impl Wake for Token {
    fn wake(self: Arc<Token>) {
        self.news.report(self.token);
    }

    fn wake_by_ref(self: &Arc<Token>) {
        self.news.report(self.token);
    }
}

/// Collects the tokens of sockets that have news.
#[pyclass(frozen, module = "wirespeed._native")]
pub(crate) struct Poller {
    news: Arc<News>,
    alarm: Alarm,
}

impl Poller {
    pub(crate) fn news(&self) -> Arc<News> {
        self.news.clone()
    }

    pub(crate) fn waker(&self, token: u64) -> Waker {
        Waker::from(Arc::new(Token { news: self.news.clone(), token }))
    }
}

#[pymethods]
impl Poller {
    #[new]
    fn new() -> PyResult<Poller> {
        let alarm = Alarm::new().map_err(|error| error::raise(&error))?;
        let news = News { tokens: Mutex::default(), alarm: alarm.waker().clone() };
        Ok(Poller { news: Arc::new(news), alarm })
    }

    /// The descriptor to wait on.
    fn fileno(&self) -> i32 {
        self.alarm.as_fd().as_raw_fd()
    }

    /// Take the tokens of all sockets that had news since the last call.
    fn take(&self) -> Vec<u64> {
        // Silence first: a report that comes later rings again.
        self.alarm.silence();
        core::mem::take(&mut *self.news.tokens.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
