//! Files and trees, copied to the server and from it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{Rig, pattern};
use crate::client::{Copied, Error, Reader, Unfinished, exports, get_tree, mount, put_tree};
use crate::proto::{Kind, Status};

/// The names and contents of all files below a directory.
fn contents(of: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut stack = vec![of.to_path_buf()];
    while let Some(dir) = stack.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(of).expect("below").display().to_string();
            let kind = fs::symlink_metadata(&path).expect("it is there");
            if kind.is_dir() {
                all.push((name, b"dir".to_vec()));
                stack.push(path);
            } else if kind.is_symlink() {
                let to = fs::read_link(&path).expect("a link");
                all.push((name, to.display().to_string().into_bytes()));
            } else {
                all.push((name, fs::read(&path).expect("a file")));
            }
        }
    }
    all.sort();
    all
}

fn sample(at: &Path) {
    fs::create_dir_all(at.join("a/b c")).expect("room");
    fs::create_dir_all(at.join("empty")).expect("room");
    for (name, bytes) in
        [("none", 0), ("one", 1), ("a/odd", 1_000_003), ("a/b c/x", 256 << 10), ("a/b c/y", 4_097)]
    {
        fs::write(at.join(name), pattern(bytes)).expect("room");
    }
    symlink("b c/x", at.join("a/link")).expect("room");
    symlink("/nowhere", at.join("dangling")).expect("room");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_the_same_after_it_was_copied_to_the_server_and_back() {
    let rig = Rig::new();
    let (mut nfs, root) = rig.nfs().await;
    nfs.ask_limits(&root).await.expect("limits");
    let (from, back) = (rig.dir.join("from"), rig.dir.join("back"));
    sample(&from);
    let bytes = 1_000_003 + 262_144 + 4_097 + 1;
    let expected = Copied { files: 5, dirs: 4, links: 2, others: 0, bytes };
    // The second copy replaces the files of the first one.
    for _ in 0..2 {
        let put = put_tree(&nfs, &from, (root, b"copy"), &Unfinished::new(7))
            .await
            .expect("it is copied");
        assert_eq!(put, expected);
        let copy = nfs.lookup(&root, b"copy").await.expect("it is there");
        assert_eq!(get_tree(&nfs, copy, &back, 8).await.expect("it is copied"), expected);
        assert_eq!(contents(&rig.tree().join("copy")), contents(&from));
        assert_eq!(contents(&back), contents(&from));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_reads_and_files_that_grow_or_shrink_are_read_to_their_end() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let nfs = nfs.with_transfer(512);
    let data = pattern(100_001);
    fs::write(rig.tree().join("f"), &data).expect("room");
    let (file, of) = nfs.lookup(&root, b"f").await.expect("it is there");
    assert_eq!((of.kind, of.size), (Kind::Regular, 100_001));
    for size in [of.size, 5_000, 1 << 20] {
        let mut reader = Reader::new(&nfs, file, size);
        let mut got = Vec::new();
        while let Some(chunk) = reader.next().await.expect("data") {
            got.extend_from_slice(chunk.data());
        }
        assert!(got == data, "the data read with size {size} differs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_many_entries_is_listed_whole() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    let name = |n: u32| format!("{n:05}-{}", "x".repeat(n as usize % 200));
    (0..3_000).for_each(|n| fs::write(rig.tree().join(name(n)), "").expect("room"));
    let listed = nfs.with_transfer(8_192).list(&root).await.expect("a list");
    let names: Vec<_> = listed.iter().map(|e| String::from_utf8_lossy(&e.name.0)).collect();
    assert_eq!(names, (0..3_000).map(name).collect::<Vec<_>>());
    assert!(listed.iter().all(|e| e.handle.is_some() && e.attributes.is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_below_are_mounted_and_nothing_above_is() {
    let rig = Rig::new();
    fs::create_dir_all(rig.tree().join("a/b")).expect("room");
    symlink("..", rig.tree().join("up")).expect("room");
    let client = rig.client(crate::mount::PROGRAM);
    assert_eq!(exports(&client).await.expect("a list"), [b"/".to_vec()]);
    let (nfs, root) = rig.nfs().await;
    let below = mount(&client, b"/a//b/").await.expect("a directory");
    assert_eq!(nfs.walk(&root, b"a/b").await.expect("a directory").0, below);
    for (path, status) in [
        (&b"/.."[..], Status::Access),
        (b"/a/../..", Status::Access),
        (b"/none", Status::NoEntry),
        (b"/up", Status::NotDirectory),
    ] {
        let refused = mount(&client, path).await;
        assert!(matches!(refused, Err(Error::Status(s)) if s == status), "{path:?} {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_leaves_nothing_that_looks_whole() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    fs::create_dir(rig.tree().join("f")).expect("room");
    fs::write(rig.tree().join("f/inside"), "x").expect("room");
    let from = rig.dir.join("file");
    fs::write(&from, pattern(300_000)).expect("room");
    // A directory has the name already, so the last step, RENAME, fails.
    let failed = put_tree(&nfs, &from, (root, b"f"), &Unfinished::new(7)).await;
    assert!(matches!(failed, Err(Error::Status(Status::IsDirectory))), "{failed:?}");
    let names: Vec<_> = contents(&rig.tree()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["f", "f/inside"]);
    let copy = nfs.lookup(&root, b"f").await.expect("it is there");
    fs::write(rig.dir.join("in the way"), "x").expect("room");
    let failed = get_tree(&nfs, copy, &rig.dir.join("in the way"), 7).await;
    assert!(matches!(failed, Err(Error::Local(..))), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_here_is_not_followed_by_a_copy_from_the_server() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    fs::create_dir_all(rig.tree().join("d/sub")).expect("room");
    fs::write(rig.tree().join("d/sub/f"), "x").expect("room");
    let (to, elsewhere) = (rig.dir.join("to"), rig.dir.join("elsewhere"));
    fs::create_dir_all(&to).expect("room");
    fs::create_dir_all(&elsewhere).expect("room");
    symlink(&elsewhere, to.join("sub")).expect("room");
    let from = nfs.lookup(&root, b"d").await.expect("it is there");
    let refused = get_tree(&nfs, from, &to, 7).await;
    assert!(matches!(refused, Err(Error::LinkInTheWay(_))), "{refused:?}");
    assert!(contents(&elsewhere).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_are_kept_and_those_that_run_as_others_are_not() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    nfs.create(&root, b"f", 0o6751).await.expect("it is made");
    let mode = fs::metadata(rig.tree().join("f")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);
}
