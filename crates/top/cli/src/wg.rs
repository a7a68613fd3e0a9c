//! `wirespeed wg FILE`: a WireGuard tunnel for one program, or for those that know proxies; the
//! host has no interface of it, and no right is needed.
//!
//! Called by: `lib.rs`. It is `netns --via wg:FILE`, or `proxy --via wg:FILE`. docs/gateway.md is
//! the user's guide.

mod args;

use anyhow::{Result, anyhow};

pub(crate) use args::Args;

use crate::gateways::{Options, Outer};
use crate::{Outcome, Usage, netns, proxy};

/// Run the program, or the proxy until Ctrl-C.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if args.outer.via.is_some() {
        return Err(Usage("the tunnel is the way out: drop --via".to_owned()).into());
    }
    let file = args.file.to_str().ok_or_else(|| anyhow!("the file's name is no UTF-8"))?;
    let outer = Outer { via: Some(format!("wg:{file}")), ..args.outer.clone() };
    match args.socks {
        Some(listen) => proxy::main(&proxy::Args::of(listen, outer)),
        None => {
            let options = Options::with_network(outer).map_err(Usage)?;
            netns::main(&netns::Args::of(options, args.command.clone()))
        }
    }
}
