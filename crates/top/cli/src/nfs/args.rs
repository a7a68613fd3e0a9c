//! The command line of `nfs`.
//!
//! Called by: clap, then `run.rs`.

use ::nfs::client::Url;

use wirespeed::Duration;

use crate::ttcp::values::gap;
use crate::{names, network};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A URL is nfs://HOST[:PORT]/EXPORT/PATH. With a PORT, NFS and MOUNT are there; otherwise the port
mapper of HOST is asked. ?nfsport=N&mountport=N behind the path gives both. A server that takes
calls from ports below 1024 alone has to be told otherwise (`insecure` in exports(5)).

Try:  wirespeed nfs ls nfs://192.0.2.1/srv/files
      wirespeed nfs cp -r nfs://192.0.2.1/srv/files .")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) what: What,
}

#[derive(clap::Subcommand, Debug)]
pub(super) enum What {
    /// List a directory, or a file
    Ls {
        /// What to list
        #[arg(value_name = "URL")]
        url: Url,
        /// With modes, sizes and times
        #[arg(short = 'l')]
        long: bool,
        #[command(flatten)]
        how: How,
    },
    /// Print a file
    Cat {
        /// The file
        #[arg(value_name = "URL")]
        url: Url,
        #[command(flatten)]
        how: How,
    },
    /// Copy a file or a directory, from a server or to it
    ///
    /// A file is written under a temporary name and gets its own when it is whole and on the disk.
    Cp {
        /// A URL or a path
        #[arg(value_name = "FROM")]
        from: String,
        /// A path or a URL; if it is a directory, into it
        #[arg(value_name = "TO")]
        to: String,
        /// Directories with all that is in them
        #[arg(short = 'r')]
        recursive: bool,
        #[command(flatten)]
        how: How,
    },
}

/// How the server is reached.
#[derive(clap::Args, Debug)]
pub(super) struct How {
    /// Over UDP
    #[arg(long)]
    pub(super) udp: bool,
    /// Bytes of a READ and a WRITE [default: 262144 over TCP, 8192 over UDP]
    #[arg(long, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(512..=1_048_576))]
    pub(super) bytes: Option<u32>,
    /// Let frames to the server leave so far apart, start to start: 60us, 0.5ms (with --dev)
    ///
    /// For servers that lose frames which come one right behind the other.
    #[arg(long, value_name = "TIME", requires_all = ["udp", "dev"], value_parser = gap,
          hide_short_help = true)]
    pub(super) gap: Option<Duration>,
    #[command(flatten)]
    pub(super) network: network::Args,
    #[command(flatten)]
    pub(super) names: names::Args,
}
