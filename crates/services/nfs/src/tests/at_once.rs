//! A call that is carried out at once has the same results as a call that may wait, whether its
//! data is copied or stays in buffers.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Instant;
use rpc::auth::OpaqueAuth;
use rpc::blocking::Clock;
use rpc::server::{Bulk, NoBulk, Request, Service as _, Transport};
use rpc::xdr::{Decode, Decoder, Encode, Opaque};

use super::{clock, pattern, secrets};
use crate::limits::{LENT_BYTES, OPEN_FILE_AGE};
use crate::mount;
use crate::proto::{At, Handle, Stable, Write, WriteHead, procedure};
use crate::server::{Export, Mount, Nfs};

/// A directory in a file system in memory, where no call waits.
struct InMemory {
    dir: PathBuf,
    export: Arc<Export>,
    nfs: Nfs,
    mount: Mount,
}

impl InMemory {
    fn new(name: &str) -> InMemory {
        InMemory::with(name, clock)
    }

    fn with(name: &str, clock: Clock) -> InMemory {
        let dir = PathBuf::from(format!("/dev/shm/wsnfs-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("room");
        let export = Export::open(&dir, false, secrets(), clock).expect("a directory");
        InMemory { dir, nfs: Nfs(export.clone()), mount: Mount(export.clone()), export }
    }

    fn request<'a>(number: u32, args: &'a [u8], more: &'a [&'a [u8]]) -> Request<'a> {
        let from = "192.0.2.1:700".parse().expect("an address");
        let (transport, credential) = (Transport::Stream, OpaqueAuth::NONE);
        let room = usize::MAX;
        Request { version: 3, procedure: number, args, more, from, transport, credential, room }
    }

    /// The results of a call that may wait.
    fn call(&mut self, number: u32, args: &[u8]) -> Vec<u8> {
        let mut results = Vec::new();
        self.nfs.call(&InMemory::request(number, args, &[]), &mut results).expect("results");
        results
    }

    /// The results of a call that must not wait; `None` if it would have to wait.
    fn at_once(&mut self, number: u32, args: &[u8], bulk: &mut dyn Bulk) -> Option<Vec<u8>> {
        self.in_pieces(number, args, &[], bulk)
    }

    /// Like [`InMemory::at_once`], with the arguments in several pieces.
    fn in_pieces(
        &mut self,
        number: u32,
        args: &[u8],
        more: &[&[u8]],
        bulk: &mut dyn Bulk,
    ) -> Option<Vec<u8>> {
        let mut results = Vec::new();
        let request = InMemory::request(number, args, more);
        self.nfs.call_at_once(&request, &mut results, bulk)?.expect("results");
        Some(results)
    }

    /// The handle of a file in the directory. A READ has opened the file.
    fn file(&mut self, name: &[u8]) -> Handle {
        let (mut path, mut mounted, mut args) = (Vec::new(), Vec::new(), Vec::new());
        Opaque(b"/").encode(&mut path);
        let request = InMemory::request(mount::procedure::MNT, &path, &[]);
        self.mount.call(&request, &mut mounted).expect("results");
        let handle = |results: &[u8]| Handle::decode(&mut Decoder::new(&results[4..]));
        At { dir: handle(&mounted).expect("the root"), name: Opaque(name) }.encode(&mut args);
        let file = handle(&self.call(procedure::LOOKUP, &args)).expect("a file");
        self.call(procedure::READ, &read(file, 0, 1));
        file
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn read(file: Handle, offset: u64, count: u32) -> Vec<u8> {
    let mut args = Vec::new();
    (file, offset, count).encode(&mut args);
    args
}

/// At most `pieces` buffers of `room` bytes each. The first one leaves room for the head.
struct Pieces {
    room: usize,
    left: usize,
    head: usize,
    bytes: Vec<u8>,
}

impl Bulk for Pieces {
    fn fill(&mut self, head: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<usize> {
        assert!(self.head == 0 || self.head == head, "the head has another length than before");
        self.head = head;
        self.left = self.left.checked_sub(1)?;
        let mut piece = vec![0xAA; self.room];
        let bytes = fill(&mut piece);
        self.bytes.extend_from_slice(&piece[..bytes]);
        Some(bytes)
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn clear(&mut self) {
        (self.head, self.bytes) = (0, Vec::new());
    }
}

// RFC 1813 3.3.6-a: The results of READ say whether the file ends behind the data.
#[test]
fn a_read_has_the_same_results_wherever_its_data_goes() {
    let mut memory = InMemory::new("read");
    fs::write(memory.dir.join("f"), pattern(300_001)).expect("room");
    let file = memory.file(b"f");
    let (long, mut was_lent) = (LENT_BYTES as u32, 0);
    for offset in [0, 1, 299_000, 300_000, 300_001, 1 << 40, i64::MAX as u64 - 5] {
        for count in [0, 5, long - 1, long, long + 3, 200_000, 300_001, 1 << 20, u32::MAX] {
            let args = read(file, offset, count);
            let waits = memory.call(procedure::READ, &args);
            let copied = memory.at_once(procedure::READ, &args, &mut NoBulk);
            assert_eq!(copied.as_ref(), Some(&waits), "{count} at {offset}");
            for (room, left) in [(65_000, 100), (9_999, 1_000), (1_000, 3), (2, 1)] {
                let mut bulk = Pieces { room, left, head: 0, bytes: Vec::new() };
                let head = memory.at_once(procedure::READ, &args, &mut bulk).expect("results");
                let all = [&head[..], &bulk.bytes[..]].concat();
                assert!(all == waits, "{count} at {offset}, pieces of {room}");
                assert!(bulk.bytes.is_empty() || bulk.head == head.len());
                was_lent += usize::from(!bulk.bytes.is_empty());
            }
        }
    }
    assert!(was_lent > 20, "{was_lent}");
}

// RFC 1813 3.3.7-a: The verifier of WRITE and COMMIT is the same while the server runs.
#[test]
fn a_write_has_the_same_results_and_leaves_the_same_file() {
    let mut memory = InMemory::new("write");
    let data = pattern(70_000);
    let files = [&b"waits"[..], b"at once"].map(|name| {
        let name = std::str::from_utf8(name).expect("ASCII");
        fs::write(memory.dir.join(name), "old bytes").expect("room");
        memory.file(name.as_bytes())
    });
    for (offset, bytes) in [(0, 5), (3, 70_000), (1 << 20, 1), (9, 0)] {
        let args = files.map(|file| {
            let (count, data) = (bytes as u32, Opaque(&data[..bytes]));
            let mut args = Vec::new();
            Write { head: WriteHead { file, offset, count, stable: Stable::Unstable }, data }
                .encode(&mut args);
            args
        });
        // The file is not open for writing before the first WRITE.
        let waits = memory.call(procedure::WRITE, &args[0]);
        memory.call(procedure::WRITE, &args[1]);
        let at_once = memory.at_once(procedure::WRITE, &args[1], &mut NoBulk).expect("results");
        // The results differ in inodes and times.
        assert_eq!(at_once.len(), waits.len());
        assert_eq!(at_once[..4], waits[..4]);
        assert_eq!(at_once[at_once.len() - 16..], waits[waits.len() - 16..]);
    }
    let found = ["waits", "at once"].map(|name| fs::read(memory.dir.join(name)).expect("there"));
    assert!(found[0] == found[1] && found[0].len() == (1 << 20) + 1);
    // A WRITE whose data has to be on the disk may wait, so it is not carried out at once.
    let (count, data) = (1, Opaque(b"x"));
    let mut args = Vec::new();
    let head = WriteHead { file: files[1], offset: 0, count, stable: Stable::FileSync };
    let write = Write { head, data };
    write.encode(&mut args);
    assert_eq!(memory.at_once(procedure::WRITE, &args, &mut NoBulk), None);
    for number in [procedure::GETATTR, procedure::COMMIT, procedure::REMOVE] {
        assert_eq!(memory.at_once(number, &args, &mut NoBulk), None);
    }
}

#[test]
fn a_write_in_pieces_leaves_the_same_file() {
    let mut memory = InMemory::new("pieces");
    let data = pattern(100_003);
    let names = ["one piece", "pieces"];
    let files = names.map(|name| {
        fs::write(memory.dir.join(name), "old bytes").expect("room");
        memory.file(name.as_bytes())
    });
    let args = |file, offset, count, data: &[u8]| {
        let mut args = Vec::new();
        let data = Opaque(data);
        Write { head: WriteHead { file, offset, count, stable: Stable::Unstable }, data }
            .encode(&mut args);
        args
    };
    let mut offset = 0;
    for (bytes, count) in [(5, 5), (6, 2), (70_000, 70_000), (100_003, 100_003), (100_003, 0)] {
        for cuts in [vec![80], vec![100, 101], vec![90, 20_000, 20_000, 70_000], vec![60, 1 << 20]]
        {
            let both = files.map(|file| args(file, offset, count, &data[..bytes]));
            // The file is not open for writing before the first WRITE.
            memory.call(procedure::WRITE, &both[1][..]);
            let waits = memory.call(procedure::WRITE, &both[0]);
            let (mut rest, mut pieces, mut at) = (&both[1][..], Vec::new(), 0);
            for cut in cuts {
                let (piece, behind) = rest.split_at((cut - at).min(rest.len()));
                (rest, at) = (behind, cut);
                pieces.push(piece);
            }
            pieces.push(rest);
            let (head, more) = (pieces[0], &pieces[1..]);
            let done = memory.in_pieces(procedure::WRITE, head, more, &mut NoBulk);
            // A call whose head is not in one piece is not carried out at once.
            if head.len() >= both[1].len().min(80) {
                let done = done.expect("results");
                // The results differ in inodes and times.
                assert_eq!(done[..4], waits[..4]);
                assert_eq!(done[done.len() - 16..], waits[waits.len() - 16..]);
            }
            offset += 70_001;
        }
    }
    let found = names.map(|name| fs::read(memory.dir.join(name)).expect("there"));
    assert!(found[0] == found[1] && found[0].len() > 1 << 20);
    // Calls with a count larger than the data, even if only by the padding, and with other bytes
    // after the data.
    let call = args(files[1], 0, 6, &data[..5]);
    assert_eq!(memory.in_pieces(procedure::WRITE, &call, &[], &mut NoBulk), None);
    let call = args(files[1], 0, 4, &data[..4]);
    assert_eq!(memory.in_pieces(procedure::WRITE, &call, &[b"more"], &mut NoBulk), None);
    let read = read(files[1], 0, 9);
    assert_eq!(memory.in_pieces(procedure::READ, &read, &[b"more"], &mut NoBulk), None);
}

/// How many removed files this process still has open.
fn removed_but_open(memory: &InMemory) -> usize {
    let (dir, open) = (&memory.dir, fs::read_dir("/proc/self/fd").expect("it is mounted"));
    let targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|to| to.starts_with(dir) && to.to_string_lossy().ends_with("(deleted)")).count()
}

#[test]
fn a_file_that_others_remove_keeps_its_space_for_seconds_only() {
    static NOW: AtomicU64 = AtomicU64::new(1);
    let now = || Instant::from_nanos(NOW.load(Ordering::SeqCst));
    let mut memory = InMemory::with("removed", now);
    fs::write(memory.dir.join("f"), pattern(1_000)).expect("room");
    memory.file(b"f");
    fs::remove_file(memory.dir.join("f")).expect("it is there");
    assert_eq!(removed_but_open(&memory), 1);
    NOW.fetch_add(OPEN_FILE_AGE.as_nanos(), Ordering::SeqCst);
    memory.export.close_unused();
    assert_eq!(removed_but_open(&memory), 1, "the removed file was closed too early");
    NOW.fetch_add(1, Ordering::SeqCst);
    memory.export.close_unused();
    assert_eq!(removed_but_open(&memory), 0);
}
