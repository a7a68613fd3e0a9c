//! `wirespeed proxy`: SOCKS5 and HTTP on one port, with the rules, the names and the ways out of
//! a gateway.
//!
//! Called by: `lib.rs`. The gateway is crate `machine`, without a private network.
//! docs/gateway.md is the user's guide.

mod args;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use machine::parts::{Given as What, Tool};
use outside::{Bound, Listen};

pub(crate) use args::{Args, address};

use crate::gateways::serve::{self, How};
use crate::gateways::{Learns, Options, open};
use crate::{Outcome, output};

/// Run it until Ctrl-C.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    args.outer.check()?;
    let options = Options::without_network(&args.outer);
    let learns = options.learn.as_deref().map(Learns::begin).transpose()?;
    let listeners = args.listen.iter().map(|at| listener(*at)).collect::<Result<Vec<_>>>()?;
    let (at, more): (Vec<_>, Vec<_>) =
        listeners.into_iter().map(|(at, fd)| (at, (What::Proxy, fd))).unzip();
    let mut settings = open::settings(Tool::Proxy, &options, Vec::new(), 0)?;
    settings.credentials.clone_from(&args.user);
    let is_open = args.user.is_none() && args.listen.iter().any(|at| !at.ip().is_loopback());
    if is_open {
        output::err(
            "warning: everybody who reaches this port can use it: give --user NAME:PASSWORD",
        );
    }
    let how = How { options: &options, settings, learns: learns.as_ref(), more, leaves: None };
    let running = serve::begin(how)?;
    for at in at {
        output::err(&format!("wirespeed proxy: SOCKS5 and HTTP at {at}"));
    }
    running.wait()?;
    learns.map_or(Ok(()), Learns::end)?;
    Ok(Outcome::Done)
}

/// A listening socket, and its address.
fn listener(at: SocketAddr) -> Result<(SocketAddr, OwnedFd)> {
    let listen = Listen { address: Some(at.ip()), interface: None, port: at.port() };
    let bound = Bound::tcp(&listen)
        .with_context(|| format!("{at} cannot be listened at: give another port by --listen"))?;
    let fd = bound.into_fd();
    let own = rustix::net::getsockname(&fd).ok().and_then(|own| SocketAddr::try_from(own).ok());
    Ok((own.unwrap_or(at), fd))
}
