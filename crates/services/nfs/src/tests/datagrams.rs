//! NFS over datagrams: how many bytes are in flight at a time. Time is virtual.

use core::net::SocketAddr;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::KeyedHash;
use rpc::client::Config;
use rpc::tasks::{Client, Datagrams, serve_datagrams};
use rpc::xdr::Encode;
use tokio::sync::{Mutex, mpsc};

use super::{Rig, pattern};
use crate::client::{Nfs, Reader, Writer, mount};
use crate::limits::DATAGRAM_IN_FLIGHT_BYTES;
use crate::proto::procedure;

/// How many datagrams were sent to the server and not answered yet: now, and at most.
#[derive(Default)]
struct Flying {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One end of a path for datagrams, in memory.
struct End {
    to: mpsc::UnboundedSender<Vec<u8>>,
    from: Mutex<mpsc::UnboundedReceiver<Vec<u8>>>,
    /// The count of datagrams in flight, at the client's end only.
    flying: Option<Arc<Flying>>,
}

fn address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 700))
}

impl Datagrams for End {
    async fn send(&self, datagram: &[u8], _: SocketAddr) -> io::Result<()> {
        if let Some(flying) = &self.flying {
            let now = flying.now.fetch_add(1, Ordering::SeqCst) + 1;
            flying.most.fetch_max(now, Ordering::SeqCst);
        }
        self.to.send(datagram.to_vec()).map_err(io::Error::other)
    }

    async fn receive(&self, room: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let Some(datagram) = self.from.lock().await.recv().await else {
            return core::future::pending().await;
        };
        if let Some(flying) = &self.flying {
            flying.now.fetch_sub(1, Ordering::SeqCst);
        }
        room[..datagram.len()].copy_from_slice(&datagram);
        Ok((datagram.len(), address()))
    }
}

/// An RPC client of a program, and the count of its datagrams in flight.
fn client(rig: &Rig, program: u32) -> (Client, Arc<Flying>) {
    let (to_server, at_server) = mpsc::unbounded_channel();
    let (to_client, at_client) = mpsc::unbounded_channel();
    let flying = Arc::new(Flying::default());
    let near = End { to: to_server, from: Mutex::new(at_client), flying: Some(flying.clone()) };
    let far = End { to: to_client, from: Mutex::new(at_server), flying: None };
    tokio::spawn(serve_datagrams(rig.servers.clone(), far, KeyedHash::new(3, 4), 64));
    let config = Config::new(program, 3);
    (Client::over_datagrams(config, KeyedHash::new(5, 6), near, address()), flying)
}

#[tokio::test(start_paused = true)]
async fn no_more_is_on_its_way_than_the_buffer_of_a_socket_takes() {
    let rig = Rig::new();
    // MOUNT over a stream, so that the server knows the address: other addresses get shorter
    // replies.
    let root = mount(&rig.client(crate::mount::PROGRAM), b"/").await.expect("an export");
    let data = pattern(3_000_001);
    for transfer in [1_024, 8_192, 32_768] {
        let (client, flying) = client(&rig, crate::proto::PROGRAM);
        let nfs = Nfs::over_datagrams(client).with_transfer(transfer);
        let name = transfer.to_string();
        let file = nfs.create(&root, name.as_bytes(), 0o644).await.expect("it is made");
        let mut writer = Writer::new(&nfs, file);
        for piece in data.chunks(transfer as usize) {
            writer.write(piece.to_vec()).await.expect("it is written");
        }
        writer.finish().await.expect("it is committed");
        assert!(fs::read(rig.tree().join(&name)).expect("it is there") == data);
        let mut reader = Reader::new(&nfs, file, data.len() as u64);
        let mut got = Vec::new();
        while let Some(chunk) = reader.next().await.expect("data") {
            got.extend_from_slice(chunk.data());
        }
        assert!(got == data);
        let most = flying.most.load(Ordering::SeqCst);
        assert!(most * transfer as usize <= DATAGRAM_IN_FLIGHT_BYTES, "{most} of {transfer}");
        assert!(most > 1, "{transfer}");
    }
}

/// READs and listings over UDP, for an address that may be forged.
#[tokio::test(start_paused = true)]
async fn a_stranger_gets_no_more_than_a_packet() {
    let rig = Rig::new();
    fs::write(rig.tree().join("f"), pattern(40_000)).expect("room");
    (0..100).for_each(|n| fs::write(rig.tree().join(format!("n{n}")), "").expect("room"));
    let root = mount(&client(&rig, crate::mount::PROGRAM).0, b"/").await.expect("an export");
    let (asking, _) = client(&rig, crate::proto::PROGRAM);
    let (file, _) = Nfs::over_datagrams(asking.clone()).lookup(&root, b"f").await.expect("there");
    let calls = [
        (procedure::READ, bytes(&(file, 0_u64, 32_768_u32))),
        (procedure::READDIR, bytes(&(root, 0_u64, (0_u64, 32_768_u32)))),
        (procedure::READDIRPLUS, bytes(&(root, 0_u64, (0_u64, 32_768_u32, 32_768_u32)))),
    ];
    for (number, args) in &calls {
        let results = asking.call_raw(*number, &Raw(args)).await.expect("results");
        assert!(results.len() <= 1_400, "procedure {number}: {}", results.len());
    }
    // The client still reads the whole file.
    let nfs = Nfs::over_datagrams(asking.clone());
    let mut reader = Reader::new(&nfs, file, 40_000);
    let mut got = Vec::new();
    while let Some(chunk) = reader.next().await.expect("data") {
        got.extend_from_slice(chunk.data());
    }
    assert!(got == pattern(40_000));
    assert_eq!(nfs.list(&root).await.expect("a list").len(), 101);
    // After a MOUNT over TCP the server knows that the address is the caller's.
    mount(&rig.client(crate::mount::PROGRAM), b"/").await.expect("an export");
    for (number, args) in &calls {
        let results = asking.call_raw(*number, &Raw(args)).await.expect("results");
        assert!(results.len() > 2_000, "procedure {number}: {}", results.len());
    }
}

/// Arguments that are already encoded.
pub(super) struct Raw<'a>(pub(super) &'a [u8]);

impl Encode for Raw<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

fn bytes(args: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    args.encode(&mut out);
    out
}
