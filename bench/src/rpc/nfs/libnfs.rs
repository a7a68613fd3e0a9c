//! Transfers between libnfs, which uses the kernel's TCP, and our server, which has the settings of
//! `wirespeed nfsd`. Called by `rpc/nfs.rs`. It needs root, a C compiler and libnfs-dev.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use base::KeyedHash;
use lab::compiled::Compiled;
use net::TcpListener;
use nfs::limits::RECORD_BYTES;
use nfs::proto::PORT;
use nfs::server::{Export, Mount, Nfs, Secrets};
use rpc::server::Server;
use rpc::tasks::{Lending, Limits, Servers, listen};

use super::path::{Flow, PIECE, Path, rate};
use super::{Folder, IN_FLIGHT, Measured, THERE, WRITTEN, measured};
use crate::outside::host::{OURS, at};

/// How many calls the server carries out at a time: as many as `wirespeed nfsd`.
const CALLS: usize = 16;

/// A client of libnfs that has mounted a directory of our server.
pub(super) struct Libnfs<'a> {
    path: &'a Path,
    child: Child,
    words: ChildStdin,
    /// The client's standard output; `None` while a thread reads from it.
    answers: Option<BufReader<ChildStdout>>,
}

impl<'a> Libnfs<'a> {
    pub(super) fn new(path: &'a Path, folder: &Folder, bytes: usize) -> Result<Libnfs<'a>> {
        serve(path, folder)?;
        let options = ["-lnfs"];
        let program = Compiled::new(include_str!("libnfs.c"), &options, "libnfs-dev")?;
        let mut command = program.command();
        command.arg(format!("nfs://{OURS}/?nfsport={PORT}&mountport={PORT}"));
        command.args([bytes, PIECE, IN_FLIGHT].map(|number| number.to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = path.by_kernel(|| command.spawn().context("starting the client"))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (words, answers) = pipes.context("the client has no pipes")?;
        let answers = Some(BufReader::new(answers));
        let mut client = Libnfs { path, child, words, answers };
        let said = path.runtime.block_on(client.answer())?;
        ensure!(said == "mounted", "the client of libnfs said '{said}'");
        Ok(client)
    }

    /// Waits for the next line that the client prints, while our end runs.
    async fn answer(&mut self) -> Result<String> {
        let mut answers = self.answers.take().context("the client of libnfs is gone")?;
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            answers.read_line(&mut line).map(|_| (line, answers))
        });
        let (line, answers) = reading.await??;
        self.answers = Some(answers);
        let line = line.trim();
        ensure!(!line.is_empty(), "the client of libnfs failed: it has said why above");
        Ok(line.to_owned())
    }

    /// Transfers the file once.
    pub(super) fn carry(&mut self, flow: Flow, bytes: usize) -> Result<Measured> {
        let word = match flow {
            Flow::Out => format!("read {THERE}\n"),
            Flow::In => format!("write {WRITTEN}\n"),
        };
        let path = self.path;
        path.runtime.block_on(measured(async {
            self.words.write_all(word.as_bytes()).context("the client of libnfs is gone")?;
            let ns = self.answer().await?.parse().map_err(|_| anyhow!("no nanoseconds"))?;
            Ok(rate(bytes, Duration::from_nanos(ns)))
        }))
    }
}

impl Drop for Libnfs<'_> {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves a directory at our end.
fn serve(path: &Path, folder: &Folder) -> Result<()> {
    let secrets = Secrets { run: 1, lasting: KeyedHash::new(3, 4) };
    let export = Export::open(&folder.served(), false, secrets, clock)?;
    let servers = Servers::blocking(CALLS, || {
        let mut server = Server::new(KeyedHash::new(1, 2));
        server.add(Nfs(export.clone()));
        server.add(Mount(export.clone()));
        server
    });
    let limits = Limits { record_max: RECORD_BYTES, ..Limits::default() };
    let _inside = path.runtime.enter();
    let listener = std::sync::Arc::new(TcpListener::bind(&path.net, at(OURS, PORT))?);
    let accept = move || {
        let listener = listener.clone();
        async move {
            let (stream, from) = listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Lending(stream), from))
        }
    };
    // The server's task ends when the runtime ends.
    drop(path.runtime.spawn(listen(servers, accept, limits)));
    Ok(())
}

fn clock() -> base::Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    base::Instant::from_nanos(START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1)
}
