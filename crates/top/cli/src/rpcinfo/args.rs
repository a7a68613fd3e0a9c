//! The command line of `rpcinfo`, with the letters of other rpcinfos.
//!
//! Called by: clap, then `run.rs`.

/// The options.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("what").args(["p", "s", "t", "u"]).required(true)))]
#[command(after_help = "\
What a host has, by its port mapper:   wirespeed rpcinfo -p 192.0.2.1
Whether its NFS answers over TCP:      wirespeed rpcinfo -t 192.0.2.1 nfs 3")]
pub(crate) struct Args {
    /// List programs with their ports (port mapper version 2)
    #[arg(short = 'p')]
    pub(super) p: bool,
    /// List programs with their versions and transports (rpcbind version 4)
    #[arg(short = 's')]
    pub(super) s: bool,
    /// Call procedure 0 of a program over TCP
    #[arg(short = 't', requires = "program")]
    pub(super) t: bool,
    /// Call procedure 0 of a program over UDP
    #[arg(short = 'u', requires = "program")]
    pub(super) u: bool,
    /// Name or address of the host
    #[arg(value_name = "HOST", default_value = "127.0.0.1")]
    pub(super) host: String,
    /// Number of the program, or its name of /etc/rpc, for -t and -u
    #[arg(value_name = "PROGRAM")]
    pub(super) program: Option<String>,
    /// Its version [default: all that the server has]
    #[arg(value_name = "VERSION")]
    pub(super) version: Option<u32>,
}
