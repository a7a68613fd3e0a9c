//! The live page shows in a browser what the stacks of this program do: throughput, connections
//! with time-sequence graphs, drops, ports, and where the time goes. It changes nothing.
//!
//! Called by: `wirespeed ttcp` and `wirespeed up`, with `--http`. `feed` makes samples between the
//! turns of the stacks, `budget` samples the program's threads, `server` sends the samples to
//! browsers from a thread of its own, `access` decides who gets them, and `document` is the page
//! that the browser runs. `texts` is another server, for a router's metrics and state.
//! docs/live.md; docs/decisions/0097-the-live-page.md, docs/decisions/0101-profile-and-live.md.
#![cfg(target_os = "linux")]

mod access;
mod address;
mod body;
mod budget;
mod carrier;
mod document;
mod error;
mod feed;
mod sample;
mod server;
pub mod texts;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use access::Token;
pub use address::Http;
use budget::{Budget, PAGE_THREAD};
use carrier::Carrier;
use document::Page;
pub use error::Error;
use feed::Watched;
pub use feed::{Feed, Whose};
use net::{Shards, ShardsListener};
pub use sample::{Figures, Port, Sample, Wanted};
use server::{Listener, Server};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::channel;

/// Maximum number of samples in the queue to the page's thread.
const SAMPLES: usize = 2;
/// Maximum number of accepted connections of the stack in the queue to the page's thread.
const ACCEPTED: usize = 4;

const NO_ADDRESS: &str = "--http: the listener has no address";

/// A page that is not served yet.
pub struct Live {
    http: Http,
    token: Option<Token>,
    /// The system's listener, and its address with the port that the system assigned.
    listener: Option<(TcpListener, SocketAddr)>,
}

impl Live {
    /// Bind the address.
    ///
    /// # Errors
    /// The system cannot bind the address.
    pub fn bind(http: Http) -> Result<Live, Error> {
        let token = http.needs_token().then(Token::new).transpose()?;
        let listener = match http {
            Http::Stack(_) => None,
            Http::System(at) => {
                let failed = format!("--http: cannot listen at {at}: give another ADDR:PORT");
                let listener = TcpListener::bind(at).map_err(Error::of(failed))?;
                let at = listener.local_addr().map_err(Error::of(NO_ADDRESS))?;
                Some((listener, at))
            }
        };
        Ok(Live { http, token, listener })
    }

    /// A page at a socket that another process has bound, with the token that the process has
    /// printed.
    ///
    /// # Errors
    /// There is neither a socket nor a port of the stack.
    pub fn granted(
        port: Option<u16>,
        listener: Option<OwnedFd>,
        token: Option<String>,
    ) -> Result<Live, Error> {
        let token = token.map(Token::of);
        if let Some(port) = port {
            return Ok(Live { http: Http::Stack(port), token, listener: None });
        }
        let none = || Error::NoSocket("the live page was requested without a socket");
        let listener = TcpListener::from(listener.ok_or_else(none)?);
        let at = listener.local_addr().map_err(Error::of(NO_ADDRESS))?;
        Ok(Live { http: Http::System(at), token, listener: Some((listener, at)) })
    }

    /// The port, if the page is at the stack's own addresses.
    pub fn stack_port(&self) -> Option<u16> {
        match self.http {
            Http::Stack(port) => Some(port),
            Http::System(_) => None,
        }
    }

    /// The socket and the token, for another process that serves the page.
    pub fn parts(&self) -> (Option<&TcpListener>, Option<&str>) {
        (self.listener.as_ref().map(|(listener, _)| listener), self.token.as_ref().map(Token::text))
    }

    /// A line of text that says where the page is.
    pub fn says(&self) -> String {
        let query = self.token.as_ref().map_or(String::new(), |t| format!("?token={}", t.text()));
        match (&self.listener, self.http) {
            (Some((_, at)), _) if at.ip().is_unspecified() => {
                format!(
                    "live page: http://ADDRESS:{}/{query} at each address of this machine",
                    at.port()
                )
            }
            (Some((_, at)), _) => format!("live page: http://{at}/{query}"),
            (None, Http::Stack(port)) => {
                format!("live page: http://ADDRESS:{port}/{query} at each address of the stack")
            }
            (None, Http::System(at)) => format!("live page: http://{at}/{query}"),
        }
    }

    /// Serve the page from a thread until the feed is dropped. At the stack's address, sockets of
    /// `shards` serve it, or the feed if only the loop may use the stack.
    ///
    /// # Errors
    /// The system has no thread or descriptor left, or the stacks cannot listen at the port.
    pub fn serve(self, whose: Whose, shards: Option<&Shards>) -> Result<Feed, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::of("--http: the page's thread cannot be set up"))?;
        let watched = Arc::new(Watched::new()?);
        let (samples, taken) = channel(SAMPLES);
        let (complain, locks_down) = (whose.complain, whose.locks_down);
        let mut feed = Feed::new(whose, watched.clone(), samples);
        let listener = match (self.http, shards) {
            (Http::Stack(port), None) => {
                let (accepted, connections) = channel(ACCEPTED);
                feed.carry_by(Carrier::new(port, accepted, complain));
                Listener::Carried(connections)
            }
            _ => self.listener(&runtime, shards)?,
        };
        let server = |budget| Server {
            listener,
            page: Page::new(),
            token: self.token,
            watched: watched.clone(),
            samples: taken,
            budget,
        };
        let thread = std::thread::Builder::new().name(PAGE_THREAD.to_owned());
        // When the thread says that it has begun, its name is set.
        let (begun, is_begun) = sync_channel(1);
        let (gives, given) = sync_channel::<Server>(1);
        let run = move || {
            let _ = begun.send(());
            if let Ok(server) = given.recv() {
                runtime.block_on(server.run());
            }
        };
        thread.spawn(run).map_err(Error::of("--http: cannot start the page's thread"))?;
        let budget = match locks_down {
            false => Budget::start(watched.clone()),
            true => Budget::prepare(watched.clone(), &is_begun),
        };
        let budget = budget.map_err(Error::of("--http: cannot start the budget's thread"))?;
        // The thread waits for nothing else.
        let _ = gives.send(server(budget));
        Ok(feed)
    }

    fn listener(&self, runtime: &Runtime, shards: Option<&Shards>) -> Result<Listener, Error> {
        const UNUSABLE: &str = "--http: the listener cannot be used";
        if let Some((listener, _)) = &self.listener {
            let listener = listener.try_clone();
            let listener = listener.map_err(Error::of("--http: no descriptor is left"))?;
            listener.set_nonblocking(true).map_err(Error::of(UNUSABLE))?;
            let _entered = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener);
            return Ok(Listener::System(listener.map_err(Error::of(UNUSABLE))?));
        }
        let (Http::Stack(port), Some(shards)) = (self.http, shards) else {
            return Err(Error::NoSocket("--http: there is no socket to serve at"));
        };
        let every = SocketAddr::from(([0, 0, 0, 0], port));
        let failed =
            format!("--http stack:{port}: the stack cannot listen at this port: give another one");
        let listener = ShardsListener::bind(shards, every).map_err(Error::of(failed))?;
        Ok(Listener::Stack(listener))
    }
}
