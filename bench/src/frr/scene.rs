//! The networks of the rows: a provider with BIRD, a control namespace with zebra and bgpd, and the
//! namespace of our router. Called by `routes.rs` and `stream.rs`.
//!
//! Without mirrors the control namespace has an interface `wan` of its own that leads to the
//! provider, so that zebra and its routes outlive the router. Its number is always the same,
//! because recorded routes name it.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::daemons::{Bird, Frr, MODULE};
use super::feed::BGPD;
use super::router::METRICS;
use super::space::{Space, until};
use super::world::World;

/// The number of the interface `wan`.
const WAN: u32 = 11;
/// How long BGP may take to begin, and to send all routes.
const LIMIT: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(500);

/// Where the daemons of a router are, and the provider that their interface `wan` leads to.
pub(super) struct Control {
    pub(super) space: Space,
    pub(super) provider: Space,
}

impl Control {
    /// A kernel that routes, or would.
    ///
    /// # Errors
    /// Without root or iproute2.
    pub(super) fn new() -> Result<Control> {
        let (space, provider) = (Space::new("control")?, Space::new("provider")?);
        Space::join((&space, "wan", WAN), (&provider, "eth0"))?;
        for address in ["192.0.2.2/24", "2001:db8:1::2/64 nodad"] {
            space.ip(&format!("addr add {address} dev wan"))?;
        }
        provide(&provider)?;
        Ok(Control { space, provider })
    }
}

/// The provider's addresses.
fn provide(provider: &Space) -> Result<()> {
    provider.ip("addr add 192.0.2.1/24 dev eth0")?;
    provider.ip("addr add 2001:db8:1::1/64 dev eth0 nodad")
}

/// The namespace of our router, with a host behind each of its ports.
pub(super) struct Ground {
    pub(super) space: Space,
    pub(super) wan: Space,
    pub(super) lan: Space,
}

impl Ground {
    /// Two ports with nothing that runs beyond them.
    ///
    /// # Errors
    /// Without root or iproute2.
    pub(super) fn new() -> Result<Ground> {
        let [space, wan, lan] = [Space::new("router")?, Space::new("wan")?, Space::new("lan")?];
        for (port, host) in [("wan", &wan), ("lan", &lan)] {
            Space::join((&space, port, 0), (host, "eth0"))?;
            space.leave_to_router(port)?;
        }
        provide(&wan)?;
        lan.ip("addr add 10.1.0.9/24 dev eth0")?;
        lan.ip("route add default via 10.1.0.1")?;
        Ok(Ground { space, wan, lan })
    }

    /// What our router reads, with the daemons in another namespace.
    pub(super) fn config(&self, control: &Space) -> String {
        format!(
            "[frr]\nfpm = \"127.0.0.1:2620\"\nnamespace = \"{}\"\n{PORTS}{METRICS}",
            control.name()
        )
    }

    /// The same, with mirrors of its ports there.
    pub(super) fn config_with_mirrors(&self, control: &Space) -> String {
        let mirrors = format!("[control]\nmirrors = \"all\"\nnamespace = \"{}\"\n", control.name());
        format!("{mirrors}[frr]\nfpm = \"127.0.0.1:2620\"\n{PORTS}{METRICS}")
    }
}

const PORTS: &str = "[[port]]\nname = \"wan\"\ndevice = \"packet:wan\"\n\
                     addresses = [\"192.0.2.2/24\", \"2001:db8:1::2/64\"]\n\
                     [[port]]\nname = \"lan\"\ndevice = \"packet:lan\"\n\
                     addresses = [\"10.1.0.1/24\"]\n";

/// zebra and bgpd in a namespace; zebra connects at once where `zebra` says so.
///
/// # Errors
/// A daemon does not start.
pub(super) fn daemons<'a>(world: &World, space: &'a Space, zebra: &str) -> Result<Frr<'a>> {
    let mut frr = Frr::new(world, space, space.name())?;
    let mut words = vec!["-s", "90000000"];
    if zebra != WITHOUT_FPM {
        words.extend(MODULE);
    }
    frr.start("zebra", zebra, &words)?;
    frr.start("bgpd", BGPD, &[])?;
    Ok(frr)
}

/// Of [`daemons`]: zebra has no FPM.
pub(super) const WITHOUT_FPM: &str = "!\n";

/// Waits until BGP is up.
///
/// # Errors
/// It is not.
pub(super) fn until_established(bird: &Bird<'_>) -> Result<()> {
    let is_up = || Ok(bird.ask(&["show", "protocols", "up"])?.contains("Established"));
    until("BGP is up", LIMIT, LOOK, is_up)
}

/// Waits until zebra has so many routes of BGP in its kernel's tables.
///
/// # Errors
/// It has not.
pub(super) fn until_installed(frr: &Frr<'_>, v4: usize, v6: usize) -> Result<()> {
    let has = |command: &str, count: usize| {
        let said = frr.vtysh(&[command])?;
        let said: Value = serde_json::from_str(&said).context("vtysh prints no JSON")?;
        let rows = said["routes"].as_array().into_iter().flatten();
        let of_bgp = rows.filter(|row| row["type"] == "ebgp");
        let fib: u64 = of_bgp.filter_map(|row| row["fib"].as_u64()).sum();
        anyhow::Ok(fib >= count as u64)
    };
    let have =
        || Ok(has("show ip route summary json", v4)? && has("show ipv6 route summary json", v6)?);
    until("zebra has all routes", LIMIT, LOOK, have)
}
