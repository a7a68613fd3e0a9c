//! What `rpcinfo` prints, in the columns of other rpcinfos.
//!
//! Called by: `run.rs`.

use std::collections::{BTreeMap, BTreeSet};

use rpc::portmap::{Mapping, Rpcb, TCP, UDP};

use super::names::Names;
use wirespeed::control::text::plain;

/// The list of version 2.
pub(super) fn ports(list: &[Mapping], names: &Names) -> String {
    let mut text = "   program vers proto   port  service\n".to_owned();
    for m in list {
        let protocol = match m.protocol {
            TCP => "tcp".to_owned(),
            UDP => "udp".to_owned(),
            other => other.to_string(),
        };
        let (program, version, port) = (m.program, m.version, m.port);
        let name = names.of(program);
        text += &format!("{program:>10} {version:>4} {protocol:>5} {port:>6}  {name}\n");
    }
    text
}

/// The list of versions 3 and 4: a line for each program.
pub(super) fn summary(list: &[Rpcb], names: &Names) -> String {
    type Row = (BTreeSet<u32>, BTreeSet<String>, String);
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    for m in list {
        let row = rows.entry(m.program).or_default();
        row.0.insert(m.version);
        row.1.insert(plain(&m.netid));
        row.2 = plain(&m.owner);
    }
    let mut text =
        "   program version(s) netid(s)                         service     owner\n".to_owned();
    for (program, (versions, netids, owner)) in rows {
        let versions: Vec<String> = versions.iter().map(u32::to_string).collect();
        let netids: Vec<String> = netids.into_iter().collect();
        let (versions, netids) = (versions.join(","), netids.join(","));
        let name = names.of(program);
        text += &format!("{program:>10} {versions:<10} {netids:<32} {name:<11} {owner}\n");
    }
    text
}

/// A version that answers.
pub(super) fn ready(program: u32, version: u32) -> String {
    format!("program {program} version {version} ready and waiting\n")
}
