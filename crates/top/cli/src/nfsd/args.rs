//! The command line of `nfsd`.
//!
//! Called by: clap, then `run.rs`.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::outside;

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
    pub(super) dir: PathBuf,
    /// Where to listen [default: 127.0.0.1:2049]
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "dev")]
    pub(super) listen: Option<SocketAddr>,
    /// Over UDP as well as TCP
    #[arg(long)]
    pub(super) udp: bool,
    /// Change nothing
    #[arg(long)]
    pub(super) read_only: bool,
    /// Tell the port mapper of this machine
    #[arg(long, conflicts_with = "dev")]
    pub(super) register: bool,
    /// Connections at a time; more are closed
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) most: u32,
    /// Calls carried out at a time; more wait
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) calls: u32,
    #[command(flatten)]
    pub(super) outside: outside::Args,
}
