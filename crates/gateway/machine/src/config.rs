//! What a program says about its gateway.
//!
//! Called by: programs; `running.rs` turns it into settings.

use core::fmt;

use anyhow::{Result, bail};
use base::Mtu;

use super::networks::Network;
use super::settings::{Learn, Settings, Tool};
use super::values::{Dns, MTU_MAX, Net4, Net6, Usage};
use super::vm::Vm;

/// What takes the lines of the log.
pub type Log = Box<dyn FnMut(&str) + Send>;
/// What takes messages for people.
pub type Say = Box<dyn Fn(&str) + Send>;

/// A gateway to be. [`Config::default`] has no machine and denies everything.
pub struct Config {
    /// The rules, in the language of docs/gateway.md: what may be reached, published ports
    /// (`[[publish]]`), limits (`[limits]`), name servers (`[dns]`). An empty text denies
    /// everything; `default = "allow"` allows everything but the host itself. No rule can `ask`.
    pub policy: String,
    /// The links of the machines.
    pub vms: Vec<Vm>,
    /// Join all machines by a switch: they are in one network and reach each other. Otherwise each
    /// has the next network.
    pub switched: bool,
    /// The private IPv4 network, 10.0.2.0/24 by default: the gateway is .2 and stands for the host,
    /// the resolver is .3, and the first machine gets .100 by DHCP.
    pub net4: Net4,
    /// The IPv6 network, a random one by default.
    pub net6: Net6,
    /// The name servers behind the resolver: those of the host by default, and changes of them.
    pub dns: Dns,
    /// The MTU that machines are told, 576 to 65520. The largest one costs least.
    pub mtu: u16,
    /// Takes a line of JSON for every flow that ended or was refused, without its end of line. The
    /// gateway's thread calls it, and waits for it.
    pub log: Option<Log>,
    /// Takes messages for people. The gateway's thread calls it, and waits for it.
    pub say: Option<Say>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            policy: String::new(),
            vms: Vec::new(),
            switched: false,
            net4: Net4::default(),
            net6: Net6::Ula,
            dns: Dns::Host,
            mtu: MTU_MAX.bytes() as u16,
            log: None,
            say: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("vms", &self.vms).finish_non_exhaustive()
    }
}

impl Config {
    /// The settings of the gateway.
    ///
    /// # Errors
    /// Parts do not fit together, with what to do.
    pub(super) fn settings(&self) -> Result<Settings> {
        if self.vms.is_empty() {
            bail!("no machine has a link: add one to vms");
        }
        if self.net4 == Net4::Off && self.net6 == Net6::Off {
            bail!("net4 and net6 are off, which leaves no network: give one of them");
        }
        let least = if self.net6 == Net6::Off { 576 } else { Mtu::MIN_V6.bytes() };
        let mtu = usize::from(self.mtu);
        if !(least..=MTU_MAX.bytes()).contains(&mtu) {
            let most = MTU_MAX.bytes();
            return Err(Usage(format!("mtu is {mtu}: give {least} to {most}")).into());
        }
        let links = if self.switched { 1 } else { self.vms.len() };
        let networks = Network::of_links(self.net4, self.net6, links)?;
        let learn = Learn { mtu: self.mtu, routes_v6: self.net6.is_given(), ..Learn::default() };
        Ok(Settings {
            is_switched: self.switched && self.vms.len() > 1,
            configures: true,
            ..Settings::new(Tool::Gateway, networks, &self.dns, learn)
        })
    }
}
