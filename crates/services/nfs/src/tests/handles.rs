//! A handle stands for one file as long as the file exists: under other names, after a restart of
//! the server, but never outside the directory.

use std::fs;
use std::path::Path;

use rpc::xdr::Opaque;

use super::files::{at, status};
use super::{Rig, pattern, serving};
use crate::client::{Error, Nfs};
use crate::proto::{Handle, Stable, Status, procedure};

async fn is_stale(nfs: &Nfs, file: &Handle) -> bool {
    matches!(nfs.getattr(file).await, Err(Error::Status(Status::Stale)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_is_the_file_whatever_others_call_it() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    fs::create_dir_all(rig.tree().join("a/b")).expect("room");
    fs::create_dir(rig.tree().join("elsewhere")).expect("room");
    fs::write(rig.tree().join("a/b/f"), "data").expect("room");
    let (file, _) = nfs.walk(&root, b"a/b/f").await.expect("it is there");
    let (dir, _) = nfs.walk(&root, b"a/b").await.expect("it is there");
    let rename = |from: &str, to: &str| {
        fs::rename(rig.tree().join(from), rig.tree().join(to)).expect("it is there");
    };
    // Rename the file, its directory, the directory above, and all of them.
    for (from, to) in [
        ("a/b/f", "a/b/g"),
        ("a/b", "a/c"),
        ("a", "d"),
        ("d/c/g", "elsewhere/h"),
        ("d/c", "elsewhere/i"),
    ] {
        rename(from, to);
        assert_eq!(nfs.read(&file, 0, 10).await.expect(to).data(), b"data");
        assert_eq!(nfs.getattr(&dir).await.expect(to).kind, crate::proto::Kind::Directory);
    }
    // Another name of the file has the same handle, and the file is found by it when the first name
    // is gone.
    fs::hard_link(rig.tree().join("elsewhere/h"), rig.tree().join("d/other")).expect("room");
    assert_eq!(nfs.walk(&root, b"d/other").await.expect("it is there").0, file);
    fs::remove_file(rig.tree().join("d/other")).expect("it is there");
    assert_eq!(nfs.read(&file, 0, 10).await.expect("data").data(), b"data");
    fs::hard_link(rig.tree().join("elsewhere/h"), rig.tree().join("d/other")).expect("room");
    let (elsewhere, _) = nfs.lookup(&root, b"elsewhere").await.expect("it is there");
    nfs.remove(&elsewhere, b"h").await.expect("it is removed");
    assert_eq!(nfs.read(&file, 0, 10).await.expect("data").data(), b"data");
    assert_eq!(status(&rig, procedure::LINK, &(file, at(root, b"last"))).await, Status::Ok);
    fs::remove_file(rig.tree().join("d/other")).expect("it is there");
    fs::remove_file(rig.tree().join("last")).expect("it is there");
    assert!(is_stale(&nfs, &file).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_outlive_the_server() {
    let mut rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let dir = nfs.mkdir(&root, b"dir", 0o755).await.expect("it is made");
    let file = nfs.create(&dir, b"f", 0o644).await.expect("it is made");
    nfs.write(&file, 0, b"data", Stable::FileSync).await.expect("it is written");
    let gone = nfs.create(&dir, b"gone", 0o644).await.expect("it is made");
    rig.servers = serving(&rig.tree(), false);
    fs::rename(rig.tree().join("dir"), rig.tree().join("was moved")).expect("it is there");
    fs::remove_file(rig.tree().join("was moved/gone")).expect("it is there");
    fs::write(rig.tree().join("was moved/gone"), "another").expect("room");
    let nfs = Nfs::over_streams(rig.client(crate::proto::PROGRAM));
    assert_eq!(nfs.read(&file, 0, 10).await.expect("data").data(), b"data");
    assert_eq!(nfs.lookup(&dir, b"f").await.expect("it is there").0, file);
    assert_eq!(nfs.lookup(&root, b"was moved").await.expect("it is there").0, dir);
    assert!(is_stale(&nfs, &gone).await, "another file");
}

/// A file that was written a moment ago is still open. It is moved out of the served directory,
/// once by itself and once with its directory.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_moved_out_is_reached_no_more() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let outside = |path: &Path| fs::read(path).expect("it is there");
    for (moved, at) in [("dir/f", "f"), ("dir", "dir/f")] {
        let dir = match nfs.mkdir(&root, b"dir", 0o755).await {
            Ok(dir) => dir,
            Err(_) => nfs.lookup(&root, b"dir").await.expect("it is there").0,
        };
        let file = nfs.create(&dir, b"f", 0o644).await.expect("it is made");
        nfs.write(&file, 0, b"inside", Stable::Unstable).await.expect("it is written");
        assert_eq!(nfs.read(&file, 0, 10).await.expect("data").data(), b"inside");
        let there = rig.dir.join("there");
        fs::create_dir_all(&there).expect("room");
        let to = there.join(Path::new(moved).file_name().expect("a name"));
        fs::rename(rig.tree().join(moved), &to).expect("it is there");
        let written = nfs.write(&file, 0, b"OUTSIDE", Stable::Unstable).await;
        assert!(matches!(written, Err(Error::Status(Status::Stale))), "{moved}: {written:?}");
        assert_eq!(outside(&there.join(at)), b"inside");
        let read = nfs.read(&file, 0, 10).await;
        assert!(matches!(read, Err(Error::Status(Status::Stale))), "{moved}: {read:?}");
        assert!(matches!(nfs.commit(&file).await, Err(Error::Status(Status::Stale))));
        // The file comes back under another name, and its handle finds it there.
        fs::rename(&to, rig.tree().join("back")).expect("it is there");
        let back =
            Path::new("back").join(Path::new(at).strip_prefix(moved_name(moved)).expect("in"));
        let path = back.to_str().expect("text").trim_end_matches('/');
        assert_eq!(nfs.walk(&root, path.as_bytes()).await.expect("it is there").0, file);
        nfs.write(&file, 0, b"INSIDE", Stable::Unstable).await.expect("it is written");
        fs::rename(rig.tree().join("back"), there.join(format!("over {}", at.len())))
            .expect("it is there");
    }
}

fn moved_name(moved: &str) -> &str {
    moved.rsplit('/').next().unwrap_or(moved)
}

/// RFC 1813 section 2.6: results contain the attributes of a file before the call and after it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_before_a_change_is_told() {
    use crate::proto::{Before, Changed, How, Made, SetAttributes, Written};
    use rpc::xdr::Decoder;
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let of = async |file: &Handle| nfs.getattr(file).await.expect("attributes");
    let seen =
        |of: crate::proto::Attributes| Before { size: of.size, mtime: of.mtime, ctime: of.ctime };
    let set = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
    let mut was = of(&root).await;
    let mut is = async |changed: Changed, what: &str| {
        assert_eq!(changed.before, Some(seen(was)), "{what}");
        was = of(&root).await;
        assert_eq!(changed.after, Some(was), "{what}");
    };
    let made = |results: &[u8]| Decoder::whole::<Made>(results).expect("results").dir;
    let call = async |number, args: Vec<u8>| {
        let (status, results) =
            super::files::call(&rig, number, &super::datagrams::Raw(&args)).await;
        assert_eq!(status, Status::Ok, "procedure {number}");
        results
    };
    let args = |args: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        args(&mut out);
        out
    };
    use rpc::xdr::Encode;
    let create = args(&|out| (at(root, b"f"), How::Guarded(set)).encode(out));
    is(made(&call(procedure::CREATE, create).await), "CREATE").await;
    let mkdir = args(&|out| (at(root, b"d"), set).encode(out));
    is(made(&call(procedure::MKDIR, mkdir).await), "MKDIR").await;
    let symlink = args(&|out| (at(root, b"s"), set, Opaque(b"x")).encode(out));
    is(made(&call(procedure::SYMLINK, symlink).await), "SYMLINK").await;
    let (file, _) = nfs.lookup(&root, b"f").await.expect("it is there");
    let link = args(&|out| (file, at(root, b"l")).encode(out));
    let results = call(procedure::LINK, link).await;
    let (_, changed): (Option<crate::proto::Attributes>, Changed) =
        Decoder::whole(&results).expect("results");
    is(changed, "LINK").await;
    let rename = args(&|out| (at(root, b"l"), at(root, b"m")).encode(out));
    let results = call(procedure::RENAME, rename).await;
    let (from, _): (Changed, Changed) = Decoder::whole(&results).expect("results");
    is(from, "RENAME").await;
    let remove = args(&|out| at(root, b"m").encode(out));
    let results = call(procedure::REMOVE, remove).await;
    is(Decoder::whole(&results).expect("results"), "REMOVE").await;
    let rmdir = args(&|out| at(root, b"d").encode(out));
    let results = call(procedure::RMDIR, rmdir).await;
    is(Decoder::whole(&results).expect("results"), "RMDIR").await;
    let before = of(&file).await;
    let results = call(procedure::SETATTR, args(&|out| (file, set, false).encode(out))).await;
    let changed: Changed = Decoder::whole(&results).expect("results");
    assert_eq!(changed, Changed { before: Some(seen(before)), after: Some(of(&file).await) });
    for _ in 0..2 {
        let before = of(&file).await;
        let data = (file, 0_u64, (5_u32, Stable::Unstable, Opaque(b"12345")));
        let results = call(procedure::WRITE, args(&|out| data.encode(out))).await;
        let written: Written = Decoder::whole(&results).expect("results");
        let after = Some(of(&file).await);
        assert_eq!(written.file, Changed { before: Some(seen(before)), after });
    }
    let before = of(&file).await;
    let results = call(procedure::COMMIT, args(&|out| (file, 0_u64, 0_u32).encode(out))).await;
    let (changed, _): (Changed, [u8; 8]) = Decoder::whole(&results).expect("results");
    assert_eq!(changed, Changed { before: Some(seen(before)), after: Some(before) });
}

/// There are more files than the table holds; each of them is found.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_a_crowd_is_found_after_a_restart() {
    let mut rig = Rig::new();
    for dir in 0..20 {
        let dir = rig.tree().join(format!("{dir}"));
        fs::create_dir(&dir).expect("room");
        (0..50).for_each(|n| fs::write(dir.join(format!("{n}")), pattern(n)).expect("room"));
    }
    let (nfs, root) = rig.nfs().await;
    let mut files = Vec::new();
    for n in 0..20 {
        let path = format!("{n}/{}", n + 5);
        files.push(nfs.walk(&root, path.as_bytes()).await.expect("it is there").0);
    }
    rig.servers = serving(&rig.tree(), false);
    let nfs = Nfs::over_streams(rig.client(crate::proto::PROGRAM));
    for (n, file) in files.iter().enumerate() {
        assert_eq!(nfs.getattr(file).await.expect("attributes").size, n as u64 + 5);
    }
}
