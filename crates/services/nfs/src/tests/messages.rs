//! Our messages are the same as those of crate `nfs3_types`, in both directions.

use nfs3_types::nfs3 as theirs;
use nfs3_types::xdr_codec::{Opaque as TheirOpaque, Pack, Unpack};
use rpc::xdr::{Decoder, Encode, Opaque};

use super::Rig;
use crate::proto::{At, Handle, SetAttributes, SetTime, Stable, Time, Write, WriteHead, procedure};

fn ours(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

fn packed(value: &impl Pack) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.pack(&mut bytes).expect("room");
    bytes
}

#[test]
fn arguments_are_the_same_bytes() {
    let handle = Handle::new(b"a handle").expect("it fits");
    let fh = || theirs::nfs_fh3 { data: TheirOpaque::owned(b"a handle".to_vec()) };
    let head = WriteHead { file: handle, offset: 1 << 40, count: 5, stable: Stable::DataSync };
    let write = Write { head, data: Opaque(b"12345") };
    let args = theirs::WRITE3args {
        file: fh(),
        offset: 1 << 40,
        count: 5,
        stable: theirs::stable_how::DATA_SYNC,
        data: TheirOpaque::borrowed(b"12345"),
    };
    assert_eq!(ours(&write), packed(&args));
    assert_eq!(Decoder::whole::<Write<'_>>(&packed(&args)), Ok(write));
    let time = Time { seconds: 5, nanoseconds: 6 };
    let set = SetAttributes {
        mode: Some(0o644),
        uid: None,
        gid: Some(7),
        size: Some(9),
        atime: SetTime::Now,
        mtime: SetTime::To(time),
    };
    let args = theirs::sattr3 {
        mode: theirs::Nfs3Option::Some(0o644),
        uid: theirs::Nfs3Option::None,
        gid: theirs::Nfs3Option::Some(7),
        size: theirs::Nfs3Option::Some(9),
        atime: theirs::set_atime::SET_TO_SERVER_TIME,
        mtime: theirs::set_mtime::SET_TO_CLIENT_TIME(theirs::nfstime3 { seconds: 5, nseconds: 6 }),
    };
    assert_eq!(ours(&set), packed(&args));
    assert_eq!(Decoder::whole::<SetAttributes>(&packed(&args)), Ok(set));
}

/// The results of a call, decoded by `nfs3_types`, which must leave no bytes.
async fn understood<T: Unpack>(rig: &Rig, number: u32, args: &impl Encode) -> T {
    let client = rig.client(crate::proto::PROGRAM);
    let results = client.call_raw(number, args).await.expect("results");
    let (value, bytes) = T::unpack(&mut &results[..]).expect("they are understood");
    assert_eq!(bytes, results.len());
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_understood() {
    let rig = Rig::new();
    std::fs::write(rig.tree().join("f"), "data").expect("room");
    let (_, root) = rig.nfs().await;
    let at = At { dir: root, name: Opaque(b"f") };
    let found: theirs::LOOKUP3res = understood(&rig, procedure::LOOKUP, &at).await;
    let handle = Handle::new(&found.unwrap().object.data).expect("it fits");
    let of: theirs::GETATTR3res = understood(&rig, procedure::GETATTR, &handle).await;
    let of = of.unwrap().obj_attributes;
    assert_eq!((of.type_, of.size), (theirs::ftype3::NF3REG, 4));
    let read: theirs::READ3res<'_> =
        understood(&rig, procedure::READ, &(handle, 0_u64, 100_u32)).await;
    let read = read.unwrap();
    assert_eq!((&read.data.0[..], read.eof), (&b"data"[..], true));
    let list: theirs::READDIR3res<'_> =
        understood(&rig, procedure::READDIR, &(root, 0_u64, 0_u64, 4_096_u32)).await;
    assert_eq!(list.unwrap().reply.entries.0.len(), 3);
    let plus = (root, 0_u64, 0_u64, (4_096_u32, 4_096_u32));
    let list: theirs::READDIRPLUS3res<'_> = understood(&rig, procedure::READDIRPLUS, &plus).await;
    assert_eq!(list.unwrap().reply.entries.0.len(), 3);
    let info: theirs::FSINFO3res = understood(&rig, procedure::FSINFO, &root).await;
    assert_eq!(info.unwrap().rtmax, 1 << 20);
    let none = At { dir: root, name: Opaque(b"none") };
    // The results of a failed call contain their optional parts as absent.
    let found: theirs::LOOKUP3res = understood(&rig, procedure::LOOKUP, &none).await;
    assert!(matches!(found, theirs::Nfs3Result::Err((theirs::nfsstat3::NFS3ERR_NOENT, _))));
    let renamed: theirs::RENAME3res = understood(&rig, procedure::RENAME, &(none, none)).await;
    assert!(matches!(renamed, theirs::Nfs3Result::Err(_)));
    let linked: theirs::LINK3res = understood(&rig, procedure::LINK, &(root, none)).await;
    assert!(matches!(linked, theirs::Nfs3Result::Err(_)));
    let removed: theirs::REMOVE3res = understood(&rig, procedure::REMOVE, &none).await;
    assert!(matches!(removed, theirs::Nfs3Result::Err(_)));
}
