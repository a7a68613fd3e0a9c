//! One memory budget for the replies of all connections, even if clients do not read theirs.

use core::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::KeyedHash;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinSet;

use super::PROGRAM;
use crate::auth::OpaqueAuth;
use crate::client::Config;
use crate::limits::{BRIEF_BYTES, BRIEF_REPLIES_BYTES, REPLIES_BYTES};
use crate::message::Call;
use crate::record;
use crate::server::{Refusal, Request, Server, Service};
use crate::tasks::{Client, Limits, Servers, serve_stream};
use crate::xdr::Encode;

/// A service that answers with a megabyte, or with as much as there is room for.
struct Long(Arc<Made>);

#[derive(Default)]
struct Made {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

impl Service for Long {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        3..=3
    }

    fn call(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let bytes = (1_000_000).min(request.room - 100);
        out.resize(out.len() + bytes, 7);
        self.0.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn serving(servers: &Arc<Servers>) -> DuplexStream {
    let (near, far) = duplex(1 << 12);
    let from = "192.0.2.1:700".parse().expect("an address");
    let limits = Limits { record_max: 1 << 20, ..Limits::default() };
    tokio::spawn(serve_stream(servers.clone(), far, from, limits));
    near
}

/// A record that contains a call.
fn call() -> Vec<u8> {
    let mut call = Vec::new();
    let at = record::begin(&mut call);
    let (credential, verifier, args) = (OpaqueAuth::NONE, OpaqueAuth::NONE, &[][..]);
    Call { xid: 9, program: PROGRAM, version: 3, procedure: 1, credential, verifier, args }
        .encode(&mut call);
    record::end(&mut call, at);
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_share_one_budget_and_others_are_answered() {
    const CONNECTIONS: usize = 40;
    const CALLS: usize = 60;
    let made = Arc::new(Made::default());
    for may_block in [true, false] {
        let make = || {
            let mut server = Server::new(KeyedHash::new(1, 2));
            server.add(Long(made.clone()));
            server
        };
        let servers = if may_block { Servers::blocking(8, make) } else { Servers::new(8, make) };
        let (calls, bytes) = (made.calls.load(Ordering::SeqCst), made.bytes.load(Ordering::SeqCst));
        let mut silent = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let mut near = serving(&servers);
            // Send as many calls as the stream takes; the others wait in the stream.
            silent.spawn(async move {
                for _ in 0..CALLS {
                    near.write_all(&call()).await.expect("it lives");
                }
                core::future::pending::<()>().await;
            });
        }
        let answered = || made.calls.load(Ordering::SeqCst) - calls;
        while answered() < CONNECTIONS * 16 {
            tokio::task::yield_now().await;
        }
        let owed = made.bytes.load(Ordering::SeqCst) - bytes;
        assert!(owed <= REPLIES_BYTES + BRIEF_REPLIES_BYTES, "{owed}");
        assert!(servers.totals().brief > 0);
        // In the meantime a client that reads its replies is answered.
        let mut near = Some(serving(&servers));
        let connect =
            move || core::future::ready(near.take().ok_or(std::io::ErrorKind::NotFound.into()));
        let client = Client::over_streams(Config::new(PROGRAM, 3), 1, connect);
        for _ in 0..100 {
            let results = client.call_raw(1, &()).await.expect("results");
            assert!(results.len() >= BRIEF_BYTES - 100, "{}", results.len());
        }
        drop(silent);
        // Once all replies are read, new replies are as long as before.
        while client.call_raw(1, &()).await.expect("results").len() < 900_000 {
            tokio::task::yield_now().await;
        }
    }
}
