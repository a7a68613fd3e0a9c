//! The ways out: the host's sockets, and a proxy or a tunnel that the settings name.
//!
//! Called by: `machine.rs`, once.

use anyhow::{Context, Result};
use outside::{Clock, Egress, Host, Tunnel, TunnelConfig};
use policy::Rules;
use policy::rules::Server;

use super::settings::Settings;

/// Open the ways out.
pub(super) fn open(host: Host, settings: &Settings, rules: &Rules, clock: Clock) -> Result<Egress> {
    let mut egress = Egress::from(host);
    if let Some(known) = &settings.tunnel {
        let config = TunnelConfig::parse(&known.text)?;
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).context("the system gives no random seed")?;
        let half = |at| u64::from_le_bytes(core::array::from_fn(|i| seed[at + i]));
        let tunnel = Tunnel::open(&config, &known.endpoints, [half(0), half(8)], clock)
            .context("the tunnel of --via cannot be opened: is its ListenPort free?")?;
        egress.set_tunnel(tunnel).context("epoll refuses the tunnel")?;
    }
    egress.ask_through(asks_through(settings, rules));
    Ok(egress)
}

/// Do questions for names go by the way of `--via`? Those to servers that the user has named do.
pub(super) fn asks_through(settings: &Settings, rules: &Rules) -> bool {
    settings.asks_through || rules.dns.servers != [Server::Host]
}
