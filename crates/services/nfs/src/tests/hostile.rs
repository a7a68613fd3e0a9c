//! Calls that our client never makes: with names that lead out of the tree, invalid handles, and
//! truncated arguments.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use rpc::client::CallError;
use rpc::xdr::{Decode, Decoder, Encode, Opaque};

use super::Rig;
use crate::client::Error;
use crate::proto::{At, Handle, How, SetAttributes, Stable, Status, procedure};

async fn status<A: Encode>(rig: &Rig, number: u32, args: &A) -> Status {
    let client = rig.client(crate::proto::PROGRAM);
    let results = client.call_raw(number, args).await.expect("results");
    Status::decode(&mut Decoder::new(&results)).expect("a status")
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_no_names_are_refused_by_every_procedure() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let file = nfs.create(&root, b"f", 0o644).await.expect("it is made");
    let long = [b'x'; 256];
    for (name, expected) in [
        (&b""[..], Status::Invalid),
        (b"a/b", Status::Invalid),
        (b"/etc", Status::Invalid),
        (b"../secret", Status::Invalid),
        (b"a\0b", Status::Invalid),
        (&long, Status::NameTooLong),
    ] {
        let at = At { dir: root, name: Opaque(name) };
        let good = At { dir: root, name: Opaque(b"f") };
        let none = SetAttributes::default();
        for (number, status) in [
            (procedure::LOOKUP, status(&rig, procedure::LOOKUP, &at).await),
            (procedure::CREATE, status(&rig, procedure::CREATE, &(at, How::Unchecked(none))).await),
            (procedure::MKDIR, status(&rig, procedure::MKDIR, &(at, none)).await),
            (procedure::SYMLINK, status(&rig, procedure::SYMLINK, &(at, none, Opaque(b"x"))).await),
            (procedure::REMOVE, status(&rig, procedure::REMOVE, &at).await),
            (procedure::RMDIR, status(&rig, procedure::RMDIR, &at).await),
            (procedure::RENAME, status(&rig, procedure::RENAME, &(good, at)).await),
            (procedure::RENAME, status(&rig, procedure::RENAME, &(at, good)).await),
            (procedure::LINK, status(&rig, procedure::LINK, &(file, at)).await),
        ] {
            assert_eq!(status, expected, "procedure {number}, name {name:?}");
        }
    }
    for name in [&b"."[..], b".."] {
        let at = At { dir: root, name: Opaque(name) };
        let good = At { dir: root, name: Opaque(b"f") };
        let how = How::Unchecked(SetAttributes { size: Some(0), ..SetAttributes::default() });
        assert_ne!(status(&rig, procedure::CREATE, &(at, how)).await, Status::Ok);
        assert_ne!(status(&rig, procedure::REMOVE, &at).await, Status::Ok);
        assert_ne!(status(&rig, procedure::RMDIR, &at).await, Status::Ok);
        assert_ne!(status(&rig, procedure::RENAME, &(good, at)).await, Status::Ok);
        assert_ne!(status(&rig, procedure::RENAME, &(at, good)).await, Status::Ok);
    }
    assert_eq!(fs::read(rig.dir.join("secret")).expect("it is there"), b"not in the tree");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_of_the_directory_is_reached_by_links() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    fs::create_dir(rig.dir.join("outside")).expect("room");
    fs::write(rig.dir.join("outside/f"), "theirs").expect("room");
    let dir = nfs.mkdir(&root, b"dir", 0o755).await.expect("it is made");
    let file = nfs.create(&dir, b"f", 0o644).await.expect("it is made");
    assert_eq!(nfs.getattr(&file).await.expect("attributes").size, 0);
    // Replace the directory of the handle by a link that leads out of the tree.
    fs::rename(rig.tree().join("dir"), rig.tree().join("was")).expect("room");
    symlink("../outside", rig.tree().join("dir")).expect("room");
    // The files are found at the place to which they were moved.
    assert_eq!(nfs.lookup(&dir, b"f").await.expect("it is there").0, file);
    assert_eq!(nfs.read(&file, 0, 100).await.expect("data").data(), b"");
    let (link, _) = nfs.lookup(&root, b"dir").await.expect("the link itself");
    let at = At { dir: link, name: Opaque(b"f") };
    assert_eq!(status(&rig, procedure::LOOKUP, &at).await, Status::NotDirectory);
    // A symbolic link to a file is not treated as a file.
    symlink("../secret", rig.tree().join("s")).expect("room");
    let (link, _) = nfs.lookup(&root, b"s").await.expect("the link itself");
    let written = nfs.write(&link, 0, b"x", Stable::Unstable).await;
    assert!(matches!(written, Err(Error::Status(Status::Invalid))), "{written:?}");
    let cut = SetAttributes { size: Some(0), ..SetAttributes::default() };
    assert_eq!(status(&rig, procedure::SETATTR, &(link, cut, false)).await, Status::Invalid);
    let how = How::Unchecked(cut);
    let at = At { dir: root, name: Opaque(b"s") };
    assert_eq!(status(&rig, procedure::CREATE, &(at, how)).await, Status::Exists);
    assert_eq!(fs::read(rig.dir.join("secret")).expect("it is there"), b"not in the tree");
    assert_eq!(fs::read(rig.dir.join("outside/f")).expect("it is there"), b"theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_does_not_hold_a_server_up() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let made = Command::new("mkfifo").arg(rig.tree().join("fifo")).status();
    assert!(made.expect("it starts").success());
    let (fifo, _) = nfs.lookup(&root, b"fifo").await.expect("it is there");
    let read = nfs.read(&fifo, 0, 1).await;
    assert!(matches!(read, Err(Error::Status(Status::Invalid))), "{read:?}");
    let written = nfs.write(&fifo, 0, b"x", Stable::Unstable).await;
    assert!(matches!(written, Err(Error::Status(Status::Invalid))), "{written:?}");
}

// RFC 1813 2.6-a: The handle of a file that is gone is answered with NFS3ERR_STALE.
#[tokio::test(flavor = "multi_thread")]
async fn handles_that_are_none_are_refused() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let (file, _) = {
        fs::write(rig.tree().join("f"), "old").expect("room");
        nfs.lookup(&root, b"f").await.expect("it is there")
    };
    let mut other_run = root.bytes().to_vec();
    other_run[0] ^= 1;
    let mut unknown = file.bytes().to_vec();
    unknown[20] ^= 1;
    for (bytes, expected) in [
        (&b""[..], Status::BadHandle),
        (&[0; 64], Status::BadHandle),
        (&root.bytes()[..31], Status::BadHandle),
        (&other_run, Status::Stale),
        (&unknown, Status::Stale),
        (&[0; 32], Status::Stale),
    ] {
        let handle = Handle::new(bytes).expect("it fits");
        assert_eq!(status(&rig, procedure::GETATTR, &handle).await, expected, "{handle:?}");
        assert_eq!(status(&rig, procedure::READ, &(handle, 0_u64, 1_u32)).await, expected);
    }
    // Another file has the name now; the handle is not valid for it.
    fs::remove_file(rig.tree().join("f")).expect("it was there");
    fs::write(rig.tree().join("f"), "new").expect("room");
    assert_eq!(status(&rig, procedure::GETATTR, &file).await, Status::Stale);
    let long = Opaque(&[0; 65]);
    let client = rig.client(crate::proto::PROGRAM);
    let refused = client.call_raw(procedure::GETATTR, &long).await;
    assert!(matches!(refused, Err(CallError::GarbageArguments)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_are_cut_off_or_claim_too_much_are_garbage_and_allocate_nothing() {
    let rig = Rig::new();
    let (_, root) = rig.nfs().await;
    let client = rig.client(crate::proto::PROGRAM);
    for number in 1..=21 {
        if number == procedure::MKNOD {
            continue;
        }
        let refused = client.call_raw(number, &()).await;
        assert!(matches!(refused, Err(CallError::GarbageArguments)), "{number} {refused:?}");
        // A handle, followed by lengths of 4 GB. READDIR reads these bytes as a cookie, a verifier
        // and a count.
        let args = (root, (u32::MAX, u32::MAX, u32::MAX, u32::MAX), u32::MAX);
        if !matches!(number, procedure::ACCESS | procedure::READDIR) {
            let refused = client.call_raw(number, &args).await;
            assert!(matches!(refused, Err(CallError::GarbageArguments)), "{number} {refused:?}");
        }
    }
    let claims = (root, 0_u64, (5_u32, 0_u32, u32::MAX));
    let refused = client.call_raw(procedure::WRITE, &claims).await;
    assert!(matches!(refused, Err(CallError::GarbageArguments)), "{refused:?}");
    // The call asks to write more bytes than it contains.
    let short = (root, 0_u64, (50_u32, 0_u32, Opaque(b"12345")));
    assert_eq!(status(&rig, procedure::WRITE, &short).await, Status::Invalid);
    let refused = client.call_raw(22, &()).await;
    assert!(matches!(refused, Err(CallError::ProcedureUnavailable)), "{refused:?}");
    for (program, expected) in [(100_006, "no such program"), (100_000, "versions 2 to 2")] {
        let refused = rig.client(program).call_raw(0, &()).await.expect_err("it is not there");
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}

// RFC 1813 3.3.16-a: READDIR has no more bytes than the caller allows; if not one entry fits,
// NFS3ERR_TOOSMALL.
#[tokio::test(flavor = "multi_thread")]
async fn lists_with_no_room_or_a_cookie_of_nobody_are_refused() {
    let rig = Rig::new();
    let (_, root) = rig.nfs().await;
    let small = (root, 0_u64, 0_u64, 100_u32);
    assert_eq!(status(&rig, procedure::READDIR, &small).await, Status::TooSmall);
    let nobody = (root, u64::MAX, 0_u64, 4_096_u32);
    assert_eq!(status(&rig, procedure::READDIR, &nobody).await, Status::BadCookie);
}
