//! The effects of each procedure on files.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use rpc::auth::OpaqueAuth;
use rpc::message::Call;
use rpc::record;
use rpc::tasks::{Limits, serve_stream};
use rpc::xdr::{Bytes, Decode, Decoder, Encode, Opaque};
use tokio::io::{AsyncWriteExt, duplex};

use super::{Rig, pattern};
use crate::client::{Error, Unfinished, put_tree};
use crate::limits::RECORD_BYTES;
use crate::proto::{
    At, Changed, Handle, How, Made, SetAttributes, SetTime, Stable, Status, Time, Write, WriteHead,
    access, procedure,
};

pub(super) fn at(dir: Handle, name: &[u8]) -> At<'_> {
    At { dir, name: Opaque(name) }
}

/// Make one call. Returns its status, and the bytes after the status.
pub(super) async fn call<A: Encode>(rig: &Rig, number: u32, args: &A) -> (Status, Vec<u8>) {
    let client = rig.client(crate::proto::PROGRAM);
    let results = client.call_raw(number, args).await.expect("results");
    let mut from = Decoder::new(&results);
    (Status::decode(&mut from).expect("a status"), from.rest().to_vec())
}

pub(super) async fn status<A: Encode>(rig: &Rig, number: u32, args: &A) -> Status {
    call(rig, number, args).await.0
}

// RFC 1813 3.3.6-a, 3.3.7-a: The results of READ say whether the file ends behind the data. The
// verifier of WRITE and COMMIT is the same while the server runs.
#[tokio::test(flavor = "multi_thread")]
async fn writes_are_where_they_belong_and_as_safe_as_asked_for() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let file = nfs.create(&root, b"f", 0o644).await.expect("it is made");
    for (offset, stable) in [(5, Stable::Unstable), (0, Stable::DataSync), (9, Stable::FileSync)] {
        let written = nfs.write(&file, offset, b"12345", stable).await.expect("it is written");
        assert_eq!((written.count, written.committed), (5, stable));
        assert_eq!(written.verifier, nfs.commit(&file).await.expect("it is committed"));
    }
    assert_eq!(fs::read(rig.tree().join("f")).expect("it is there"), b"12345123412345");
    let chunk = nfs.read(&file, 9, 100).await.expect("data");
    assert_eq!((chunk.data(), chunk.eof), (&b"12345"[..], true));
    let chunk = nfs.read(&file, 1, 2).await.expect("data");
    assert_eq!((chunk.data(), chunk.eof), (&b"23"[..], false));
    for offset in [14, 1 << 40, u64::MAX, i64::MAX as u64] {
        let chunk = nfs.read(&file, offset, 100).await.expect("no data");
        assert_eq!((chunk.data(), chunk.eof), (&b""[..], true), "{offset}");
        if offset > 1 << 40 {
            let refused = nfs.write(&file, offset, b"x", Stable::Unstable).await;
            assert!(matches!(refused, Err(Error::Status(Status::TooBig))), "{refused:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_and_a_write_have_a_megabyte() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let file = nfs.create(&root, b"f", 0o644).await.expect("it is made");
    let data = pattern(1 << 20);
    let written = nfs.write(&file, 0, &data, Stable::Unstable).await.expect("it is written");
    assert_eq!(written.count, 1 << 20);
    let chunk = nfs.read(&file, 0, u32::MAX).await.expect("data");
    assert!(chunk.data() == data && chunk.eof);
}

// RFC 1813 3.3.8-a, 3.3.8-b: An EXCLUSIVE CREATE that comes again succeeds; one with another
// verifier is NFS3ERR_EXIST. GUARDED fails if there is a file of the name; UNCHECKED sets its size.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_made_as_they_are_asked_for() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    fs::write(rig.tree().join("old"), "12345").expect("room");
    let size = SetAttributes { size: Some(2), ..SetAttributes::default() };
    let number = procedure::CREATE;
    assert_eq!(status(&rig, number, &(at(root, b"old"), How::Guarded(size))).await, Status::Exists);
    let (made, results) = call(&rig, number, &(at(root, b"old"), How::Unchecked(size))).await;
    assert_eq!(made, Status::Ok);
    let made: Made = Decoder::whole(&results).expect("results");
    assert_eq!(made.attributes.expect("they are known").size, 2);
    // A CREATE that is repeated with the same verifier succeeds; one with another verifier is
    // refused.
    for (verifier, expected) in [(7, Status::Ok), (7, Status::Ok), (8, Status::Exists)] {
        let how = How::Exclusive([verifier; 8]);
        assert_eq!(status(&rig, number, &(at(root, b"new"), how)).await, expected);
    }
    assert!(matches!(nfs.mkdir(&root, b"new", 0o755).await, Err(Error::Status(Status::Exists))));
    let fifo = (at(root, b"fifo"), (7_u32, SetAttributes::default()));
    assert_eq!(status(&rig, procedure::MKNOD, &fifo).await, Status::NotSupported);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_changed_linked_and_removed() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let dir = nfs.mkdir(&root, b"dir", 0o755).await.expect("it is made");
    let file = nfs.create(&root, b"a", 0o644).await.expect("it is made");
    nfs.write(&file, 0, b"data", Stable::Unstable).await.expect("it is written");
    assert_eq!(status(&rig, procedure::LINK, &(file, at(dir, b"b"))).await, Status::Ok);
    assert_eq!(nfs.getattr(&file).await.expect("attributes").nlink, 2);
    nfs.remove(&root, b"a").await.expect("it is removed");
    assert_eq!(fs::read(rig.tree().join("dir/b")).expect("it is there"), b"data");
    // The handle stays valid when its file gets another name, also one in another directory.
    let moved = (at(dir, b"b"), at(root, b"c"));
    assert_eq!(status(&rig, procedure::RENAME, &moved).await, Status::Ok);
    assert_eq!(nfs.read(&file, 0, 10).await.expect("data").data(), b"data");
    assert_eq!(nfs.lookup(&dir, b"..").await.expect("the root").0, root);
    assert_eq!(nfs.lookup(&root, b"..").await.expect("the root").0, root);
    assert_eq!(status(&rig, procedure::REMOVE, &at(root, b"dir")).await, Status::IsDirectory);
    assert_eq!(status(&rig, procedure::RMDIR, &at(root, b"c")).await, Status::NotDirectory);
    nfs.create(&dir, b"full", 0o644).await.expect("it is made");
    assert_eq!(status(&rig, procedure::RMDIR, &at(root, b"dir")).await, Status::NotEmpty);
    nfs.remove(&dir, b"full").await.expect("it is removed");
    assert_eq!(status(&rig, procedure::RMDIR, &at(root, b"dir")).await, Status::Ok);
    nfs.remove(&root, b"c").await.expect("it is removed");
    let gone = nfs.getattr(&file).await;
    assert!(matches!(gone, Err(Error::Status(Status::Stale))), "{gone:?}");
}

/// Every fsync(2) fails, as with a broken disk. Only calls that do not wait for the disk are
/// answered with success.
// RFC 1813 4.7-a.
#[test]
fn a_change_of_names_is_on_the_disk_when_it_is_answered() {
    let failing = std::thread::spawn(|| {
        let rig = Rig::new();
        fs::write(rig.tree().join("old"), "data").expect("room");
        fs::create_dir_all(rig.tree().join("dir/empty")).expect("room");
        fsync_fails();
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(changes_on_a_failing_disk(&rig));
    });
    failing.join().expect("no panic");
}

/// Makes fsync(2) fail for this thread and the threads that it starts.
fn fsync_fails() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
    let arch = TargetArch::try_from(std::env::consts::ARCH).expect("one that has filters");
    let rules = [(libc::SYS_fsync, Vec::new())].into_iter().collect();
    let fails = SeccompAction::Errno(libc::EIO as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, fails, arch).expect("valid");
    let filter: BpfProgram = filter.try_into().expect("short");
    seccompiler::apply_filter(&filter).expect("the kernel has it");
}

async fn changes_on_a_failing_disk(rig: &Rig) {
    let (nfs, root) = rig.nfs().await;
    let (file, _) = nfs.lookup(&root, b"old").await.expect("it is there");
    let (dir, _) = nfs.lookup(&root, b"dir").await.expect("it is there");
    let set = SetAttributes::default();
    // The file exists already, so CREATE has to write nothing of it.
    let create = (at(root, b"old"), How::Unchecked(set));
    assert_eq!(status(rig, procedure::CREATE, &create).await, Status::Io);
    let mkdir = (at(root, b"new"), set);
    assert_eq!(status(rig, procedure::MKDIR, &mkdir).await, Status::Io);
    let symlink = (at(root, b"symlink"), set, Opaque(b"old"));
    assert_eq!(status(rig, procedure::SYMLINK, &symlink).await, Status::Io);
    assert_eq!(status(rig, procedure::LINK, &(file, at(dir, b"link"))).await, Status::Io);
    let rename = (at(root, b"old"), at(dir, b"moved"));
    assert_eq!(status(rig, procedure::RENAME, &rename).await, Status::Io);
    assert_eq!(status(rig, procedure::REMOVE, &at(dir, b"link")).await, Status::Io);
    assert_eq!(status(rig, procedure::RMDIR, &at(dir, b"empty")).await, Status::Io);
    // The system has made all the changes, although the calls failed.
    let names = |path: &str| {
        let entries = fs::read_dir(rig.tree().join(path)).expect("a directory");
        let names = entries.map(|entry| entry.expect("a name").file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().expect("text")).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!([names("."), names("dir")], ["dir new symlink", "moved"]);
}

// RFC 1813 3.3.2-a: SETATTR whose guard is not the ctime of the file changes nothing:
// NFS3ERR_NOT_SYNC.
#[tokio::test(flavor = "multi_thread")]
async fn attributes_are_set_and_guarded() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let file = nfs.create(&root, b"f", 0o644).await.expect("it is made");
    let before = nfs.getattr(&file).await.expect("attributes");
    let set = SetAttributes {
        mode: Some(0o600),
        size: Some(10_000),
        mtime: SetTime::To(Time { seconds: 1_000, nanoseconds: 5 }),
        ..SetAttributes::default()
    };
    let guarded = |ctime| (file, set, Some(ctime));
    let another = Time { seconds: 1, nanoseconds: 1 };
    assert_eq!(status(&rig, procedure::SETATTR, &guarded(another)).await, Status::NotSync);
    let (done, results) = call(&rig, procedure::SETATTR, &guarded(before.ctime)).await;
    assert_eq!(done, Status::Ok);
    let after = Decoder::whole::<Changed>(&results).expect("results").after.expect("attributes");
    assert_eq!((after.mode, after.size, after.mtime.nanoseconds), (0o600, 10_000, 5));
    assert_eq!(nfs.getattr(&file).await.expect("attributes"), after);
    let (_, results) = call(&rig, procedure::ACCESS, &(file, u32::MAX)).await;
    let (_, rights): (Option<crate::proto::Attributes>, u32) =
        Decoder::whole(&results).expect("results");
    assert_eq!(rights & (access::READ | access::MODIFY), access::READ | access::MODIFY);
    assert_eq!(rights & access::EXECUTE, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_changes_nothing() {
    let rig = Rig::with(true);
    fs::write(rig.tree().join("f"), "data").expect("room");
    let (nfs, root) = rig.nfs().await;
    let (file, _) = nfs.lookup(&root, b"f").await.expect("it is there");
    assert_eq!(nfs.read(&file, 0, 10).await.expect("data").data(), b"data");
    let none = SetAttributes::default();
    let args = (file, none, false);
    assert_eq!(status(&rig, procedure::SETATTR, &args).await, Status::ReadOnly);
    let how = (at(root, b"n"), How::Unchecked(none));
    assert_eq!(status(&rig, procedure::CREATE, &how).await, Status::ReadOnly);
    assert_eq!(status(&rig, procedure::MKDIR, &(at(root, b"n"), none)).await, Status::ReadOnly);
    let link = (at(root, b"n"), none, Opaque(b"x"));
    assert_eq!(status(&rig, procedure::SYMLINK, &link).await, Status::ReadOnly);
    for number in [procedure::REMOVE, procedure::RMDIR] {
        assert_eq!(status(&rig, number, &at(root, b"f")).await, Status::ReadOnly);
    }
    let rename = (at(root, b"f"), at(root, b"g"));
    assert_eq!(status(&rig, procedure::RENAME, &rename).await, Status::ReadOnly);
    assert_eq!(status(&rig, procedure::LINK, &(file, at(root, b"g"))).await, Status::ReadOnly);
    let refused = nfs.write(&file, 0, b"x", Stable::Unstable).await;
    assert!(matches!(refused, Err(Error::Status(Status::ReadOnly))));
    assert_eq!(fs::read_dir(rig.tree()).expect("a directory").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_read_and_not_followed() {
    let rig = Rig::new();
    symlink("../secret", rig.tree().join("link")).expect("room");
    let (nfs, root) = rig.nfs().await;
    let (link, _) = nfs.lookup(&root, b"link").await.expect("it is there");
    assert_eq!(nfs.readlink(&link).await.expect("a text"), b"../secret");
    let read = nfs.read(&link, 0, 10).await;
    assert!(matches!(read, Err(Error::Status(Status::Invalid))), "{read:?}");
    let below = nfs.lookup(&link, b"x").await;
    assert!(matches!(below, Err(Error::Status(Status::NotDirectory))), "{below:?}");
    let (_, results) = call(&rig, procedure::PATHCONF, &root).await;
    assert_eq!(results.len(), 4 + 84 + 24);
    assert_eq!(status(&rig, procedure::FSSTAT, &root).await, Status::Ok);
    let text: Result<Bytes, _> = Decoder::whole(&[0, 0, 0, 1, 1, 0, 0, 0]);
    assert_eq!(text, Ok(Bytes(vec![1])));
}

/// The whole record of a WRITE call.
fn record_of_write(file: Handle, data: &[u8]) -> Vec<u8> {
    let mut args = Vec::new();
    let (count, data) = (data.len() as u32, Opaque(data));
    Write { head: WriteHead { file, offset: 0, count, stable: Stable::Unstable }, data }
        .encode(&mut args);
    let mut out = Vec::new();
    let at = record::begin(&mut out);
    let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
    let (program, procedure, args) = (crate::proto::PROGRAM, procedure::WRITE, &args[..]);
    Call { xid: 9, program, version: 3, procedure, credential, verifier, args }.encode(&mut out);
    record::end(&mut out, at);
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_cut_anywhere_leaves_the_old_bytes_and_a_whole_one_the_new() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let (old, new) = (vec![b'o'; 100_000], vec![b'n'; 100_000]);
    let file = nfs.create(&root, b"f", 0o644).await.expect("it is made");
    nfs.write(&file, 0, &old, Stable::Unstable).await.expect("it is written");
    let record = record_of_write(file, &new);
    let begins = record.len() - new.len();
    for cut in [4, 44, begins - 1, begins, begins + 1, 50_000, record.len() - 1, record.len()] {
        let (mut near, far) = duplex(1 << 18);
        let limits = Limits { record_max: RECORD_BYTES, ..Limits::default() };
        let from = "192.0.2.1:700".parse().expect("an address");
        let serving = tokio::spawn(serve_stream(rig.servers.clone(), far, from, limits));
        near.write_all(&record[..cut]).await.expect("room");
        near.shutdown().await.expect("room");
        serving.await.expect("no panic").expect("the stream ends");
        let expected = if cut < record.len() { &old } else { &new };
        let found = fs::read(rig.tree().join("f")).expect("it is there");
        assert!(found == *expected, "cut at {cut} of {}", record.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_cut_leaves_the_old_file_and_what_it_began_can_be_removed() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let from = rig.dir.join("file");
    fs::write(&from, pattern(20_000_000)).expect("room");
    fs::write(rig.tree().join("f"), "old").expect("room");
    let there = || fs::read_dir(rig.tree()).expect("a directory").count();
    let unfinished = Arc::new(Unfinished::new(7));
    let copying = {
        let (nfs, from, unfinished) = (nfs.clone(), from.clone(), unfinished.clone());
        tokio::spawn(
            async move { put_tree(&nfs, &from, (root, b"f"), &unfinished).await.map(drop) },
        )
    };
    // Drop the copy as soon as it has begun; it may also have ended by then.
    while there() < 2 && !copying.is_finished() {
        tokio::task::yield_now().await;
    }
    copying.abort();
    let is_cut = copying.await.is_err();
    let found = fs::read(rig.tree().join("f")).expect("it is there");
    assert!(if is_cut { found == b"old" } else { found == pattern(20_000_000) });
    assert_eq!((unfinished.is_there(), there()), (is_cut, if is_cut { 2 } else { 1 }));
    unfinished.remove().await.expect("it is removed");
    assert_eq!((unfinished.is_there(), there()), (false, 1), "{}", unfinished.name());
}
