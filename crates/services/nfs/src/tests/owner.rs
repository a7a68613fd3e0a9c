//! RFC 1813 section 4.4: the owner of a file may read and write it whatever its mode. The server
//! does not run as root here, even if the tests do.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::Rig;
use crate::client::{Error, Nfs};
use crate::proto::{Handle, SetAttributes, Stable, Status};

/// The user and group number of nobody.
const NOBODY: u32 = 65_534;

/// Run `work` as the user nobody, with a directory that belongs to that user.
fn as_nobody(work: impl AsyncFnOnce(&Rig, Nfs, Handle) + Send + 'static, is_read_only: bool) {
    let done = std::thread::spawn(move || {
        let rig = Rig::with(is_read_only);
        fs::write(rig.tree().join("theirs"), "theirs").expect("room");
        fs::set_permissions(rig.tree().join("theirs"), PermissionsExt::from_mode(0o600))
            .expect("it is ours");
        fs::write(rig.tree().join("secret"), "ours").expect("room");
        if geteuid().is_root() {
            for path in [rig.tree(), rig.tree().join("secret")] {
                chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
            }
            let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            set_thread_groups(&[]).expect("root may");
            set_thread_res_gid(gid, gid, gid).expect("root may");
            set_thread_res_uid(uid, uid, uid).expect("root may");
        }
        fs::set_permissions(rig.tree().join("secret"), PermissionsExt::from_mode(0o000))
            .expect("our stack connects");
        // The runtime's threads run as the same user as this thread.
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(async {
            let (nfs, root) = rig.nfs().await;
            work(&rig, nfs, root).await;
        });
        drop(runtime);
        rig
    });
    drop(done.join().expect("no panic"));
}

fn mode(rig: &Rig, name: &str) -> u32 {
    fs::metadata(rig.tree().join(name)).expect("it is there").permissions().mode() & 0o7777
}

#[test]
fn the_owner_may_read_and_write_whatever_the_mode() {
    as_nobody(
        async |rig, nfs, root| {
            for bits in [0o444, 0o200, 0o111, 0o000, 0o1444, 0o400] {
                let name = format!("{bits:o}");
                let file = nfs.create(&root, name.as_bytes(), bits).await.expect("it is made");
                nfs.write(&file, 0, b"data", Stable::Unstable).await.expect(&name);
                nfs.commit(&file).await.expect(&name);
                assert_eq!(nfs.read(&file, 0, 10).await.expect(&name).data(), b"data");
                let cut = SetAttributes { size: Some(2), ..SetAttributes::default() };
                nfs.setattr(&file, &cut).await.expect(&name);
                assert_eq!(mode(rig, &name), bits, "the mode was not restored");
            }
            // A file that existed before the server started is not open in the server.
            let (file, _) = nfs.lookup(&root, b"secret").await.expect("it is there");
            nfs.write(&file, 4, b" too", Stable::Unstable).await.expect("it is written");
            assert_eq!(nfs.read(&file, 0, 10).await.expect("data").data(), b"ours too");
            assert_eq!(mode(rig, "secret"), 0);
            use std::os::unix::fs::MetadataExt;
            if fs::metadata(rig.tree().join("theirs")).expect("there").uid() != geteuid().as_raw() {
                let (file, _) = nfs.lookup(&root, b"theirs").await.expect("it is there");
                let read = nfs.read(&file, 0, 10).await;
                assert!(matches!(read, Err(Error::Status(Status::Access))), "{read:?}");
            }
        },
        false,
    );
}

#[test]
fn a_read_only_server_changes_no_mode_for_a_moment_either() {
    as_nobody(
        async |rig, nfs, root| {
            let (file, before) = nfs.lookup(&root, b"secret").await.expect("it is there");
            let read = nfs.read(&file, 0, 10).await;
            assert!(matches!(read, Err(Error::Status(Status::Access))), "{read:?}");
            assert_eq!(nfs.getattr(&file).await.expect("attributes").ctime, before.ctime);
            assert_eq!(mode(rig, "secret"), 0);
        },
        true,
    );
}
