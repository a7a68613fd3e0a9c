//! `wirespeed nfsd`: an NFS version 3 server of one directory, over the system's sockets or over a
//! stack on a device, until Ctrl-C.
//!
//! Called by: `lib.rs`. RFC 1813. The protocol is crate `nfs`, calls are those of crate `rpc`.

mod run;
mod sockets;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use rpc::blocking::Caller;
use rpc::portmap::{Mapping, PORT, PROGRAM, TCP, UDP, procedure};
use rpc::tasks::Totals;

use crate::clock::Interrupt;
use crate::{Outcome, network};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Whoever can connect may do in DIR what the user may who runs the server: credentials are not looked
at. So it listens at 127.0.0.1 unless told otherwise. Nothing outside of DIR is reached. NFS and
MOUNT are at the same port, version 3 each; the one export is /.

Try:  wirespeed nfsd /srv/files &
      wirespeed nfs ls nfs://127.0.0.1:2049/
      sudo mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,nolock 127.0.0.1:/ /mnt")]
pub(crate) struct Args {
    /// Directory to serve
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where to listen [default: 127.0.0.1:2049]
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "dev")]
    listen: Option<SocketAddr>,
    /// Over UDP as well as TCP
    #[arg(long)]
    udp: bool,
    /// Change nothing
    #[arg(long)]
    read_only: bool,
    /// Tell the port mapper of this machine
    #[arg(long, conflicts_with = "dev")]
    register: bool,
    /// Connections at a time; more are closed
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    most: u32,
    /// Calls carried out at a time; more wait
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    calls: u32,
    #[command(flatten)]
    network: network::Args,
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    run::run(args, &Interrupt::install()?)
}

/// The first line.
fn begin(args: &Args, at: &[SocketAddr]) -> String {
    let shown: Vec<String> = at.iter().map(SocketAddr::to_string).collect();
    format!(
        "serving {} at {}, {}, {}; Ctrl-C ends it\n",
        args.dir.display(),
        shown.join(", "),
        if args.udp { "TCP and UDP" } else { "TCP" },
        if args.read_only { "read only" } else { "for reading and writing" },
    )
}

/// The last line.
fn end(totals: &Totals) -> String {
    let mut text = format!("{} calls answered", totals.answered);
    if totals.brief > 0 {
        text += &format!(", {} replies cut short: clients did not read theirs", totals.brief);
    }
    for (reason, count) in &totals.drops {
        text += &format!(", {count} dropped: {}", reason.meaning());
    }
    text + "\n"
}

/// Programs that a port mapper knows of, as long as this lives.
struct Registered(Vec<Mapping>);

/// Tell it that NFS and MOUNT are at that port.
fn register(port: u16, with_udp: bool) -> Result<Registered> {
    let mut registered = Registered(Vec::new());
    let mut mapper = mapper().context("cannot reach the port mapper: start rpcbind")?;
    for program in [::nfs::proto::PROGRAM, ::nfs::mount::PROGRAM] {
        let protocols = [TCP, UDP].into_iter().take(1 + usize::from(with_udp));
        for protocol in protocols {
            let mapping = Mapping { program, version: 3, protocol, port: port.into() };
            let is_set: bool =
                mapper.call(procedure::SET, &mapping).context("the port mapper does not answer")?;
            if !is_set {
                bail!(
                    "the port mapper refuses program {program}: end the server that has it \
                     (`wirespeed rpcinfo -p`)"
                );
            }
            registered.0.push(mapping);
        }
    }
    Ok(registered)
}

fn mapper() -> std::io::Result<impl Caller> {
    crate::rpcinfo::udp(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), PROGRAM, 2)
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Ok(mut mapper) = mapper() else { return };
        for mapping in &self.0 {
            let _ = mapper.call::<_, bool>(procedure::UNSET, mapping);
        }
    }
}
