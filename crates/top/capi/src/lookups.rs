//! Lookups of names in a stack that must not wait: each goes on whenever the program asks again.
//!
//! Called by: `resolve.rs`. Limit: [`LOOKUPS_MAX`].

use core::net::IpAddr;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use net::Net;

use crate::error::{Call, Error};

/// The most lookups of a polled stack that are under way.
const LOOKUPS_MAX: usize = 256;

type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// The lookups of a polled stack that are under way, by name.
#[derive(Default)]
pub(crate) struct Lookups(Mutex<HashMap<String, Lookup>>);

impl Lookups {
    pub(crate) fn clear(&self) {
        let all = core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        drop(all);
    }

    /// Go on with the lookup of a name.
    ///
    /// # Errors
    /// EAGAIN: it is under way.
    pub(crate) fn poll(&self, net: &Net, host: &str) -> Call<Vec<IpAddr>> {
        let mut lookups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !lookups.contains_key(host) {
            if lookups.len() >= LOOKUPS_MAX {
                let text = "256 names are looked up already: ask for those again first";
                return Err(Error::new(libc::ENOBUFS, text));
            }
            let (net, name) = (net.clone(), host.to_owned());
            let lookup = Box::pin(async move { net.lookup_host(&name).await });
            lookups.insert(host.to_owned(), lookup);
        }
        let waker = Waker::noop();
        let polled =
            lookups.get_mut(host).map(|l| l.as_mut().poll(&mut Context::from_waker(waker)));
        match polled {
            Some(Poll::Ready(found)) => {
                lookups.remove(host);
                Ok(found?)
            }
            _ => Err(Error::again()),
        }
    }
}
