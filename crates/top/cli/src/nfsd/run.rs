//! Opens the directory and the sockets, and serves until Ctrl-C.
//!
//! Called by: `nfsd.rs`. Limits: `--most` connections, `--calls` calls at a time, those of crates
//! `rpc` and `nfs`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::nfs::limits::RECORD_BYTES;
use ::nfs::proto::PORT;
use ::nfs::server::{Export, Mount, Nfs, OnePort, Secrets};
use anyhow::{Context, Result};
use rpc::server::Server;
use rpc::tasks::{Limits, Servers};
use wirespeed::KeyedHash;

use super::Args;
use super::sockets::{Serve, Servings};
use crate::clock::Interrupt;
use crate::network::{Network, Tasks};
use crate::rpcinfo::clock;
use crate::{Outcome, output};

/// Datagrams whose calls wait for a server or are carried out.
const DATAGRAM_CALLS: usize = 64;

pub(super) fn run(args: &Args, interrupt: &Interrupt) -> Result<Outcome> {
    let run = getrandom::u64().context("the system gives no random numbers")?;
    let secrets = Secrets { run, lasting: lasting() };
    let export = Export::open(&args.dir, args.read_only, secrets, clock).with_context(|| {
        format!("cannot serve '{}': it must be a directory that you may read", args.dir.display())
    })?;
    let secret = crate::rpcinfo::secret().context("the system gives no random numbers")?;
    let port = args.listen.map_or(PORT, |at| at.port());
    let calls = args.calls as usize;
    let one_port = OnePort { port, has_udp: args.udp };
    let servers = Servers::blocking(calls, || server(&export, secret, one_port));
    let limits =
        Limits { connections: args.most as usize, record_max: RECORD_BYTES, ..Limits::default() };
    let udp = args.udp.then_some((DATAGRAM_CALLS, secret));
    let serve = Serve { servers, limits, udp };
    // The device is opened outside of the runtime: that may take a while.
    let network = match &args.network.dev {
        Some(_) => match Network::open(&args.network, "nfsd", interrupt)? {
            Some(network) => Some(network),
            None => return Ok(Outcome::Done),
        },
        None => None,
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(calls + 2).enable_all();
    let runtime = runtime.build().context("cannot start threads")?;
    runtime.block_on(async {
        let mut tasks = Servings::new();
        tasks.spawn(close_unused(export));
        let mut at = Vec::new();
        let mut shared = network.map(Network::into_tasks);
        match &shared {
            Some(network) => {
                for &ip in &network.addresses {
                    let to = SocketAddr::new(ip, PORT);
                    let opened = serve.by_stack(&network.net, to, &mut tasks);
                    opened.with_context(|| format!("cannot listen at {to}"))?;
                    at.push(to);
                }
            }
            None => {
                let to = args.listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
                let opened = serve.by_system(to, &mut tasks).await;
                at.push(opened.with_context(|| {
                    format!("cannot listen at {to}: end the server that does, or take another port")
                })?);
            }
        }
        let port = at.first().map_or(port, SocketAddr::port);
        let _registered = args.register.then(|| super::register(port, args.udp)).transpose()?;
        output::out(&super::begin(args, &at))?;
        let pressed = interrupt.pressed()?;
        let ended = tokio::select! {
            _ = pressed => Ok(Outcome::Done),
            Some(ended) = tasks.join_next() => ended
                .map_err(anyhow::Error::from)
                .and_then(|ended| Ok(ended?))
                .map(|()| Outcome::Done),
            gone = gone(&mut shared) => Ok(gone.map(|()| Outcome::Done)?),
        };
        if let Some(network) = shared {
            network.end().await;
        }
        output::out(&super::end(&serve.servers.totals()))?;
        ended
    })
}

/// The key of handles, which is the same in each run: it comes of the number that the machine got
/// when its system was installed (machine-id(5)), which the network does not learn. Without such a
/// number handles outlive the server as well, and clients could make some up, which lead nowhere
/// else than those that they get.
fn lasting() -> KeyedHash {
    let text = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let number = u128::from_str_radix(text.trim(), 16).unwrap_or_default();
    let of_machine = KeyedHash::new((number >> 64) as u64, number as u64);
    let [name, first, second] = [*b"wirespee", *b"nfsd   1", *b"nfsd   2"].map(u64::from_be_bytes);
    KeyedHash::new(of_machine.hash_2_4([name, first]), of_machine.hash_2_4([name, second]))
}

/// What each server offers.
fn server(export: &Arc<Export>, secret: KeyedHash, one_port: OnePort) -> Server {
    let mut server = Server::new(secret);
    server.add(Nfs(export.clone()));
    server.add(Mount(export.clone()));
    server.add(one_port);
    server
}

/// Every second, close the files that no call uses any more.
async fn close_unused(export: Arc<Export>) -> io::Result<()> {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        let export = export.clone();
        tokio::task::spawn_blocking(move || export.close_unused()).await?;
    }
}

/// Wait until the device is gone, if there is one.
async fn gone(network: &mut Option<Tasks>) -> io::Result<()> {
    match network {
        Some(network) => network.gone().await,
        None => std::future::pending().await,
    }
}
