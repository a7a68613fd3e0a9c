//! [`Client`]: the handle of a task that owns the connection or the socket; [`Results`].
//!
//! Called by: programs. `Config::calls` limits the calls that wait for their replies; further calls
//! are sent after those.

use core::future::Future;
use core::net::SocketAddr;
use core::ops::Deref;
use std::io;
use std::sync::Arc;

use base::KeyedHash;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

use super::outgoing::Data;
use super::{Datagrams, Spares, over_datagrams, over_streams};
use crate::client::{CallError, Config};
use crate::record::Record;
use crate::xdr::{Decode, Decoder, Encode, Opaque};

/// A call that a handle passes to the task.
pub(super) struct Asked {
    pub(super) procedure: u32,
    pub(super) args: Encoded,
    /// The last argument, if it is long data.
    pub(super) data: Option<Data>,
    pub(super) reply: Answer,
}

/// All arguments together, for transports that take a call in one piece.
impl Encode for Asked {
    fn encode(&self, out: &mut Vec<u8>) {
        self.args.encode(out);
        self.data.iter().for_each(|data| Opaque(data).encode(out));
    }
}

/// The channel for the results of a call.
pub(super) type Answer = oneshot::Sender<Result<Record, CallError>>;

/// The results of a call as bytes. When they are dropped, their buffer is used again.
#[derive(Debug)]
pub struct Results {
    record: Record,
    spares: Arc<Spares>,
}

impl Deref for Results {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.record
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        self.spares.put(core::mem::take(&mut self.record).into_buffer());
    }
}

/// Arguments that are already encoded.
pub(super) struct Encoded(pub(super) Vec<u8>);

impl Encode for Encoded {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

/// How many calls may wait between the handles and the task. The task itself holds
/// [`Config::calls`].
const QUEUE: usize = 16;

/// A client of one version of a program. Clones share its connection. The task ends when all clones
/// are dropped.
#[derive(Clone, Debug)]
pub struct Client {
    asked: mpsc::Sender<Asked>,
    spares: Arc<Spares>,
}

impl Client {
    /// A client over streams. `connect` makes a stream for the first call, and another one when a
    /// stream has ended. Xids count from `first_xid` on, which should be random.
    ///
    /// # Panics
    /// If it is called outside a tokio runtime.
    pub fn over_streams<C, F, S>(config: Config, first_xid: u32, connect: C) -> Client
    where
        C: FnMut() -> F + Send + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (asked, calls) = mpsc::channel(QUEUE);
        let spares = Arc::new(Spares::default());
        tokio::spawn(over_streams::run(config, first_xid, connect, calls, spares.clone()));
        Client { asked, spares }
    }

    /// A client over datagrams to `server`. Replies from other addresses are ignored. `secret` is
    /// as for [`crate::client::DatagramClient::new`].
    ///
    /// # Panics
    /// If it is called outside a tokio runtime.
    pub fn over_datagrams<D: Datagrams>(
        config: Config,
        secret: KeyedHash,
        socket: D,
        server: SocketAddr,
    ) -> Client {
        let (asked, calls) = mpsc::channel(QUEUE);
        tokio::spawn(over_datagrams::run(config, secret, socket, server, calls));
        Client { asked, spares: Arc::default() }
    }

    /// Call a procedure and wait for its results.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn call<A: Encode + ?Sized, R: for<'a> Decode<'a>>(
        &self,
        procedure: u32,
        args: &A,
    ) -> Result<R, CallError> {
        Ok(Decoder::whole(&self.call_raw(procedure, args).await?)?)
    }

    /// Call a procedure. Returns its results as bytes, for types that borrow from them.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn call_raw<A: Encode + ?Sized>(
        &self,
        procedure: u32,
        args: &A,
    ) -> Result<Results, CallError> {
        self.ask(procedure, args, None).await
    }

    /// Like [`Client::call_raw`], for a procedure whose last argument is an opaque of any length;
    /// `args` are the arguments before it. Over streams the opaque is not copied.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn call_with_data<A: Encode + ?Sized>(
        &self,
        procedure: u32,
        args: &A,
        data: Data,
    ) -> Result<Results, CallError> {
        self.ask(procedure, args, Some(data)).await
    }

    async fn ask<A: Encode + ?Sized>(
        &self,
        procedure: u32,
        args: &A,
        data: Option<Data>,
    ) -> Result<Results, CallError> {
        let mut encoded = Vec::new();
        args.encode(&mut encoded);
        let (reply, replied) = oneshot::channel();
        let asked = Asked { procedure, args: Encoded(encoded), data, reply };
        // The task lives as long as there is a handle, unless the runtime ends.
        self.asked.send(asked).await.map_err(|_| CallError::Disconnected)?;
        let record = replied.await.map_err(|_| CallError::Disconnected)??;
        Ok(Results { record, spares: self.spares.clone() })
    }

    /// An empty buffer for the data of a call, if possible one that was used before.
    pub fn buffer(&self) -> Vec<u8> {
        self.spares.take()
    }

    /// Take back a buffer that is no longer used, for later data or results.
    pub fn recycle(&self, buffer: Vec<u8>) {
        self.spares.put(buffer);
    }
}
