//! [`Client`]: the handle of a task that has the connection, or the socket; [`Results`].
//!
//! Called by: programs. Limits: `Config::calls` for calls that wait for their replies; further
//! calls are sent after them.

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

/// A call for the task.
pub(super) struct Asked {
    pub(super) procedure: u32,
    pub(super) args: Encoded,
    /// The last of the arguments.
    pub(super) data: Option<Data>,
    pub(super) reply: Answer,
}

/// All arguments, for transports that take a call in one piece.
impl Encode for Asked {
    fn encode(&self, out: &mut Vec<u8>) {
        self.args.encode(out);
        self.data.iter().for_each(|data| Opaque(data).encode(out));
    }
}

/// The channel for the results of a call.
pub(super) type Answer = oneshot::Sender<Result<Record, CallError>>;

/// The results of a call as bytes. The buffer is used again when they are dropped.
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

/// Arguments that are encoded already.
pub(super) struct Encoded(pub(super) Vec<u8>);

impl Encode for Encoded {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

/// Calls that wait between the handles and the task; the task itself holds [`Config::calls`].
const QUEUE: usize = 16;

/// A client of one version of a program. Clones share its connection; the task ends when all of
/// them are gone.
#[derive(Clone, Debug)]
pub struct Client {
    asked: mpsc::Sender<Asked>,
    spares: Arc<Spares>,
}

impl Client {
    /// A client over streams that `connect` makes: one for the first call, another one when that
    /// has ended. Xids count from `first_xid` on, which should be random.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
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

    /// A client over datagrams to `server`. Replies from other addresses are ignored. `secret` as
    /// for [`crate::client::DatagramClient::new`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
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
    /// There are no results.
    pub async fn call<A: Encode + ?Sized, R: for<'a> Decode<'a>>(
        &self,
        procedure: u32,
        args: &A,
    ) -> Result<R, CallError> {
        Ok(Decoder::whole(&self.call_raw(procedure, args).await?)?)
    }

    /// Call a procedure; its results as bytes, for types that borrow from them.
    ///
    /// # Errors
    /// There are no results.
    pub async fn call_raw<A: Encode + ?Sized>(
        &self,
        procedure: u32,
        args: &A,
    ) -> Result<Results, CallError> {
        self.ask(procedure, args, None).await
    }

    /// [`Client::call_raw`] of a procedure whose last argument is an opaque of any length, which is
    /// not copied over streams; `args` are those before it.
    ///
    /// # Errors
    /// There are no results.
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
        // The task lives as long as a handle, unless the runtime ends.
        self.asked.send(asked).await.map_err(|_| CallError::Disconnected)?;
        let record = replied.await.map_err(|_| CallError::Disconnected)??;
        Ok(Results { record, spares: self.spares.clone() })
    }

    /// An empty buffer for the data of a call, if possible one that was used before.
    pub fn buffer(&self) -> Vec<u8> {
        self.spares.take()
    }

    /// A buffer that is no longer used, for later data or results.
    pub fn recycle(&self, buffer: Vec<u8>) {
        self.spares.put(buffer);
    }
}
