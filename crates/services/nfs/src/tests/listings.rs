//! Names are neither missed nor listed twice while other names are made and removed.

use std::collections::HashSet;
use std::fs;

use rpc::xdr::{Bytes, Decode, Decoder};

use super::Rig;
use super::files::call;
use crate::proto::{Attributes, Handle, Status, procedure};

/// The names and cookies that follow a cookie, as many as 1,000 bytes hold, and whether the
/// directory ends there.
async fn next(rig: &Rig, dir: Handle, cookie: u64) -> (Vec<(Vec<u8>, u64)>, bool) {
    let (status, results) = call(rig, procedure::READDIR, &(dir, cookie, (0_u64, 1_000_u32))).await;
    assert_eq!(status, Status::Ok);
    let mut from = Decoder::new(&results);
    let _: (Option<Attributes>, u64) = Decode::decode(&mut from).expect("results");
    let mut names = Vec::new();
    while bool::decode(&mut from).expect("results") {
        let (_, name, cookie): (u64, Bytes, u64) = Decode::decode(&mut from).expect("an entry");
        names.push((name.0, cookie));
    }
    (names, bool::decode(&mut from).expect("results"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_lists_and_removes_misses_nothing() {
    let rig = Rig::new();
    let (nfs, root) = rig.nfs().await;
    (0..500).for_each(|n| fs::write(rig.tree().join(format!("n{n}")), "").expect("room"));
    let (mut cookie, mut removed) = (0, 0);
    loop {
        let (names, is_end) = next(&rig, root, cookie).await;
        for (name, at) in names {
            cookie = at;
            if !matches!(&name[..], b"." | b"..") {
                nfs.remove(&root, &name).await.expect("it is there");
                removed += 1;
            }
        }
        if is_end {
            break;
        }
    }
    assert_eq!((removed, fs::read_dir(rig.tree()).expect("a directory").count()), (500, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_all_the_time_is_listed_once() {
    let mut rig = Rig::new();
    let (_, root) = rig.nfs().await;
    (0..300).for_each(|n| fs::write(rig.tree().join(format!("kept{n}")), "").expect("room"));
    let (mut cookie, mut seen, mut round) = (0, HashSet::new(), 0);
    loop {
        let (names, is_end) = next(&rig, root, cookie).await;
        for (name, at) in names {
            cookie = at;
            assert!(seen.insert(name.clone()), "twice: {}", String::from_utf8_lossy(&name));
        }
        if is_end {
            break;
        }
        // Other files are made and removed, and the server restarts.
        round += 1;
        fs::write(rig.tree().join(format!("new{round}")), "").expect("room");
        let _ = fs::remove_file(rig.tree().join(format!("new{}", round / 2)));
        if round % 3 == 0 {
            rig.servers = super::serving(&rig.tree(), false);
        }
    }
    assert!((0..300).all(|n| seen.contains(format!("kept{n}").as_bytes())));
}
