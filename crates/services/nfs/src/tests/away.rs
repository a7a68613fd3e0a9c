//! The server does not answer for a while, or a reply is lost. Time is virtual.

use std::fs;
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base::Duration;
use rpc::client::{CallError, Config};
use rpc::tasks::{Client, Limits, Servers, serve_stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy, duplex, split};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::sleep;

use super::{Rig, pattern, serving};
use crate::client::{Error, Nfs, Notice, Unfinished, get_tree, put_tree};
use crate::limits::RECORD_BYTES;

/// A server that can be made unreachable.
#[derive(Clone)]
struct Far(Arc<Inside>);

struct Inside {
    servers: Mutex<Arc<Servers>>,
    connections: Mutex<Vec<AbortHandle>>,
    is_away: AtomicBool,
    /// The next connection ends before its first reply is delivered.
    loses: AtomicBool,
    notices: Mutex<Vec<String>>,
}

impl Far {
    fn new(rig: &Rig) -> Far {
        Far(Arc::new(Inside {
            servers: Mutex::new(rig.servers.clone()),
            connections: Mutex::default(),
            is_away: AtomicBool::new(false),
            loses: AtomicBool::new(false),
            notices: Mutex::default(),
        }))
    }

    fn connect(&self) -> io::Result<DuplexStream> {
        if self.0.is_away.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 18);
        let servers = self.0.servers.lock().expect("no panic").clone();
        let from = "192.0.2.1:700".parse().expect("an address");
        let limits = Limits { record_max: RECORD_BYTES, ..Limits::default() };
        let serving = tokio::spawn(serve_stream(servers, far, from, limits));
        self.0.connections.lock().expect("no panic").push(serving.abort_handle());
        if !self.0.loses.swap(false, Ordering::SeqCst) {
            return Ok(near);
        }
        // Calls are delivered, the first reply is not.
        let (client, middle) = duplex(1 << 18);
        tokio::spawn(async move {
            let ((mut calls, _keep), (mut replies, mut to)) = (split(middle), split(near));
            tokio::select! {
                _ = copy(&mut calls, &mut to) => {}
                _ = replies.read_u8() => {}
            }
            let _ = to.shutdown().await;
        });
        Ok(client)
    }

    fn nfs(&self) -> Nfs {
        let far = self.clone();
        let config = Config { record_max: RECORD_BYTES, ..Config::new(crate::proto::PROGRAM, 3) };
        let client = Client::over_streams(config, 1, move || core::future::ready(far.connect()));
        let inside = self.0.clone();
        Nfs::over_streams(client).with_notices(move |notice| {
            let text = match notice {
                Notice::PassedOver(path) => format!("passed over {path}"),
                other => format!("{other:?}"),
            };
            inside.notices.lock().expect("no panic").push(text);
        })
    }

    /// Make the server unreachable: all its connections end.
    fn leave(&self) {
        self.0.is_away.store(true, Ordering::SeqCst);
        self.0.connections.lock().expect("no panic").drain(..).for_each(|c| c.abort());
    }

    /// Bring the server back, like a program that was restarted.
    fn come_back(&self, rig: &Rig) {
        *self.0.servers.lock().expect("no panic") = serving(&rig.tree(), false);
        self.0.is_away.store(false, Ordering::SeqCst);
    }

    fn notices(&self) -> Vec<String> {
        self.0.notices.lock().expect("no panic").clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_goes_on_when_the_server_was_started_anew() {
    let rig = Rig::new();
    let (_, root) = rig.nfs().await;
    let far = Far::new(&rig);
    let from = rig.dir.join("file");
    fs::write(&from, pattern(40_000_000)).expect("room");
    let nfs = far.nfs();
    let copying = {
        let (nfs, from) = (nfs.clone(), from.clone());
        tokio::spawn(async move { put_tree(&nfs, &from, (root, b"f"), &Unfinished::new(7)).await })
    };
    let begun = || {
        let entries = fs::read_dir(rig.tree()).expect("a directory");
        entries.filter_map(|entry| entry.ok()?.metadata().ok()).any(|of| of.len() > 1_000_000)
    };
    while !begun() && !copying.is_finished() {
        yield_now().await;
    }
    far.leave();
    sleep(core::time::Duration::from_secs(20)).await;
    far.come_back(&rig);
    let copied = copying.await.expect("no panic").expect("it is copied");
    assert_eq!((copied.files, copied.bytes), (1, 40_000_000));
    assert!(fs::read(rig.tree().join("f")).expect("it is there") == pattern(40_000_000));
    assert_eq!(fs::read_dir(rig.tree()).expect("a directory").count(), 1);
    assert_eq!(far.notices(), ["Waiting", "Answers"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_given_up() {
    let rig = Rig::new();
    let (_, root) = rig.nfs().await;
    let far = Far::new(&rig);
    far.leave();
    let failed = far.nfs().with_patience(Duration::from_secs(5)).getattr(&root).await;
    assert!(matches!(failed, Err(Error::Call(CallError::Transport(_)))), "{failed:?}");
    assert_eq!(far.notices(), ["Waiting"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_named() {
    let rig = Rig::new();
    let (_, root) = rig.nfs().await;
    let config = Config { timeout: Duration::from_secs(20), ..Config::new(100_003, 3) };
    let mut silent = Vec::new();
    let client = Client::over_streams(config, 1, move || {
        let (near, far) = duplex(1 << 18);
        silent.push(far);
        core::future::ready(io::Result::Ok(near))
    });
    let notices = Arc::new(Mutex::new(Vec::new()));
    let told = notices.clone();
    let nfs = Nfs::over_streams(client)
        .with_patience(Duration::from_secs(10))
        .with_notices(move |notice| told.lock().expect("no panic").push(format!("{notice:?}")));
    let asking = tokio::spawn(async move { nfs.getattr(&root).await });
    sleep(core::time::Duration::from_millis(4_999)).await;
    assert_eq!(*notices.lock().expect("no panic"), ["Waiting"]);
    let failed = asking.await.expect("no panic");
    assert!(matches!(failed, Err(Error::Call(CallError::TimedOut))), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_done_though_its_reply_was_lost_is_done() {
    let rig = Rig::new();
    let (_, root) = rig.nfs().await;
    let far = Far::new(&rig);
    // Each client has its own connection.
    let lossy = || {
        far.0.loses.store(true, Ordering::SeqCst);
        far.nfs()
    };
    let file = lossy().create(&root, b"f", 0o644).await.expect("it is made");
    assert_eq!(lossy().lookup(&root, b"f").await.expect("it is there").0, file);
    let dir = lossy().mkdir(&root, b"d", 0o755).await.expect("it is made");
    assert_eq!(lossy().lookup(&root, b"d").await.expect("it is there").0, dir);
    lossy().symlink(&root, b"l", b"x").await.expect("it is made");
    lossy().rename(&root, b"f", b"g").await.expect("it is named");
    lossy().remove(&root, b"g").await.expect("it is removed");
    // A call that would fail without a lost reply fails here too.
    for nfs in [far.nfs(), far.nfs()] {
        assert!(nfs.create(&root, b"l", 0o644).await.is_err());
        assert!(nfs.remove(&root, b"none").await.is_err());
        assert!(nfs.rename(&root, b"none", b"other").await.is_err());
    }
    let mut names: Vec<_> = fs::read_dir(rig.tree()).expect("a directory").collect();
    names.retain(|name| name.is_ok());
    assert_eq!(names.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_file_is_passed_over_and_named() {
    let rig = Rig::new();
    let (_, root) = rig.nfs().await;
    let far = Far::new(&rig);
    let from = rig.dir.join("from");
    fs::create_dir_all(from.join("a")).expect("room");
    fs::write(from.join("a/f"), "data").expect("room");
    let fifo = |at: &std::path::Path| {
        let made = Command::new("mkfifo").arg(at).status();
        assert!(made.expect("it starts").success());
    };
    fifo(&from.join("a/fifo"));
    let put = put_tree(&far.nfs(), &from, (root, b"copy"), &Unfinished::new(7)).await;
    let put = put.expect("it is copied");
    assert_eq!((put.files, put.dirs, put.others), (1, 2, 1));
    fifo(&rig.tree().join("copy/a/fifo"));
    let nfs = far.nfs();
    let copy = nfs.lookup(&root, b"copy").await.expect("it is there");
    let got = get_tree(&nfs, copy, &rig.dir.join("back"), 8).await.expect("it is copied");
    assert_eq!((got.files, got.dirs, got.others), (1, 2, 1));
    assert_eq!(fs::read(rig.dir.join("back/a/f")).expect("it is there"), b"data");
    let said = far.notices();
    assert!(said.len() == 2 && said.iter().all(|line| line.ends_with("a/fifo")), "{said:?}");
    // If the user names a FIFO, that is an error.
    let alone = put_tree(&nfs, &from.join("a/fifo"), (root, b"x"), &Unfinished::new(7)).await;
    assert!(matches!(alone, Err(Error::Special(_))), "{alone:?}");
}
