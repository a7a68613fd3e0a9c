//! The task of a client over streams: connects when there is a call, writes calls and reads
//! replies.
//!
//! Called by: `client.rs`. Calls that come at the same time are written by one write. Long data is
//! written from the caller's memory without a copy, and received data stays in the buffer into
//! which it was read. Limits: `CONNECT_TIMEOUT`, `Config::calls`, `Config::timeout`.

use core::future::{Future, pending};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};

use super::client::{Answer, Asked};
use super::outgoing::{Data, Outgoing};
use super::{Clock, Spares};
use crate::client::{CallError, CallId, Config, StreamClient};
use crate::limits::CONNECT_TIMEOUT;

struct Task {
    client: StreamClient,
    waiting: HashMap<CallId, Answer>,
    /// The data of calls whose other bytes are in `client`, and its places among those bytes.
    data: VecDeque<(usize, Data)>,
    calls: usize,
    clock: Clock,
    spares: Arc<Spares>,
}

/// Carry out the calls of the handles until all handles are dropped.
pub(super) async fn run<C, F, S>(
    config: Config,
    first_xid: u32,
    mut connect: C,
    mut asked: mpsc::Receiver<Asked>,
    spares: Arc<Spares>,
) where
    C: FnMut() -> F,
    F: Future<Output = io::Result<S>>,
    S: AsyncRead + AsyncWrite,
{
    let (calls, clock) = (config.calls, Clock::start());
    let client = StreamClient::new(config, first_xid);
    let (waiting, data) = (HashMap::new(), VecDeque::new());
    let mut task = Task { client, waiting, data, calls, clock, spares };
    while let Some(call) = asked.recv().await {
        if call.reply.is_closed() {
            continue;
        }
        let connected = timeout(CONNECT_TIMEOUT.into(), connect()).await;
        match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                task.begin(call);
                let why = task.connection(stream, &mut asked).await;
                task.ended(why);
            }
            Err(error) => {
                // Fail the calls after this one too, because each of them would wait as long.
                while let Ok(call) = asked.try_recv() {
                    let _ = call.reply.send(Err(io::Error::from(error.kind()).into()));
                }
                let _ = call.reply.send(Err(error.into()));
            }
        }
    }
}

impl Task {
    fn begin(&mut self, call: Asked) {
        let now = self.clock.now();
        let called = match call.data {
            Some(data) => {
                let around = self.client.call_around(call.procedure, &call.args, data.len(), now);
                around.map(|(id, place)| {
                    self.data.push_back((place, data));
                    id
                })
            }
            None => self.client.call(call.procedure, &call.args, now),
        };
        match called {
            Ok(id) => {
                self.waiting.insert(id, call.reply);
            }
            Err(error) => {
                let _ = call.reply.send(Err(error));
            }
        }
        self.spares.put(call.args.0);
    }

    /// Fail all calls that wait. The first one gets the reason.
    fn ended(&mut self, why: CallError) {
        let mut why = Some(why);
        self.client.disconnected();
        self.data.clear();
        for (_, reply) in self.waiting.drain() {
            let _ = reply.send(Err(why.take().unwrap_or(CallError::Disconnected)));
        }
    }

    /// Use one connection until it ends or all handles are dropped. Returns the reason.
    async fn connection<S>(&mut self, stream: S, asked: &mut mpsc::Receiver<Asked>) -> CallError
    where
        S: AsyncRead + AsyncWrite,
    {
        let (mut reader, mut writer) = split(stream);
        let (mut out, mut flushed) = (Outgoing::default(), true);
        let mut is_over = false;
        loop {
            if out.is_empty() {
                out.clear();
                self.client.take_output(&mut out.bytes);
                core::mem::swap(&mut out.data, &mut self.data);
                flushed &= out.is_empty();
            }
            let due = self.clock.at(self.client.deadline());
            let write = async {
                match (out.is_empty(), flushed) {
                    (false, _) => {
                        let (parts, count) = out.parts();
                        writer.write_vectored(&parts[..count]).await.map(Some)
                    }
                    (true, false) => writer.flush().await.map(|()| None),
                    (true, true) => pending().await,
                }
            };
            tokio::select! {
                call = asked.recv(), if !is_over && self.client.waiting() < self.calls => {
                    is_over = call.is_none();
                    call.into_iter().for_each(|call| self.begin(call));
                    while self.client.waiting() < self.calls && let Ok(call) = asked.try_recv() {
                        self.begin(call);
                    }
                }
                done = write => match done {
                    Ok(Some(0)) => return io::Error::from(io::ErrorKind::WriteZero).into(),
                    Ok(Some(bytes)) => out.advance(bytes),
                    Ok(None) => flushed = true,
                    Err(error) => return lost(error),
                },
                read = reader.read(self.client.room()) => match read {
                    Ok(0) => return CallError::Disconnected,
                    Ok(bytes) => {
                        self.client.filled(bytes);
                        if let Err(error) = self.replies() {
                            return error;
                        }
                    }
                    Err(error) => return lost(error),
                },
                () = sleep_until(due) => {
                    // If one call gets no reply, the calls after it would wait as long, so the
                    // connection is ended.
                    if let Some(id) = self.client.next_expired(self.clock.now()) {
                        self.waiting.remove(&id).map(|reply| reply.send(Err(CallError::TimedOut)));
                        return CallError::Disconnected;
                    }
                }
            }
            if is_over && self.client.waiting() == 0 {
                return CallError::Disconnected;
            }
        }
    }

    /// Pass on the replies that have arrived.
    fn replies(&mut self) -> Result<(), CallError> {
        while let Some((id, results)) = self.client.take_reply(|| self.spares.take_full())? {
            if let Some(reply) = self.waiting.remove(&id) {
                let _ = reply.send(results);
            }
        }
        Ok(())
    }
}

fn lost(error: io::Error) -> CallError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => CallError::Disconnected,
        _ => error.into(),
    }
}
