//! A stack over a TUN interface, for programs: the kernel's end has an address, ours has another.
//!
//! Called by: the programs of `bin`, tests.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use wirespeed::base::Cidr;
use wirespeed::device::tap::{Config, Setup, Tap};
use wirespeed::{LinkKind, PortConfig, PortId, Route, Stack, StackConfig};

/// The options that say which interface, and who we are on it.
#[derive(clap::Args)]
pub struct Interface {
    /// The TUN interface to make or join.
    #[arg(long, default_value = "ws0")]
    pub dev: String,
    /// The kernel's address on it, with its network.
    #[arg(long, default_value = "10.1.0.1/24")]
    pub kernel: Cidr,
    /// Our address, of the same network.
    #[arg(long, default_value = "10.1.0.2")]
    pub ours: IpAddr,
}

impl Interface {
    /// A stack over it.
    ///
    /// # Errors
    /// As [`stack`].
    pub fn stack(&self) -> Result<Stack> {
        Ok(stack(&self.dev, self.kernel, self.ours)?.0)
    }
}

/// Open the interface `name`, give the kernel's end the address `kernel`, and make a stack with
/// the address `ours`, of the same network, that reaches everything else through the kernel.
///
/// # Errors
/// The interface cannot be opened or set up; the addresses are not of one network.
pub fn stack(name: &str, kernel: Cidr, ours: IpAddr) -> Result<(Stack, PortId)> {
    if !kernel.contains(ours) || kernel.addr == ours {
        bail!("give both ends addresses of one network, like --kernel 10.1.0.1/24 --ours 10.1.0.2");
    }
    let config = Config { name: Some(name.to_owned()), link: LinkKind::Ip, ..Config::default() };
    let mut tap = Tap::open(&config)?;
    tap.configure(&Setup { addresses: vec![kernel], up: true, ..Setup::default() })?;
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).context("the system gives no random seed")?;
    let seed = u128::from_ne_bytes(seed);
    let mut stack = Stack::new(StackConfig::new([seed as u64, (seed >> 64) as u64]));
    let addresses = vec![Cidr { addr: ours, prefix_len: kernel.prefix_len }];
    let port = stack.add_port(Box::new(tap), PortConfig { addresses, ..PortConfig::default() });
    let anywhere = if ours.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    let dest = anywhere.parse().context("a network that is everything")?;
    stack.add_route(Route::new(dest, Some(kernel.addr), port.0));
    Ok((stack, port))
}
