//! A port in an interval: its traffic, and the share of the link's time that it took.
//!
//! Called by: `top.rs`; `besides.rs` asks for links. Source: Linux
//! `Documentation/ABI/testing/sysfs-class-net` and `sysfs-class-net-statistics`.

use std::fs;

use super::traffic::Amount;

/// `IFF_UP` of Linux `uapi/linux/if.h`.
const UP: u32 = 1;

/// A port in an interval.
#[derive(Clone, Debug)]
pub(super) struct PortState {
    pub(super) name: String,
    /// Received and sent.
    pub(super) amounts: [Amount; 2],
    /// The same as carried on the link.
    pub(super) on_link: [Amount; 2],
    pub(super) link: Link,
}

/// The link's state in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// In bits a second.
    pub(super) rate_bps: Option<u64>,
    /// Half duplex: one direction at a time.
    pub(super) is_half_duplex: bool,
    pub(super) is_down: bool,
    pub(super) collisions: Option<u64>,
    pub(super) errors: Option<u64>,
}

impl PortState {
    /// Percentage of the link's time that was used: by the busier direction, on half duplex by
    /// both.
    pub(super) fn share(&self, seconds: f64) -> Option<f64> {
        let [received, sent] = self.on_link.map(|amount| amount.bytes);
        let bytes = match self.link.is_half_duplex {
            true => received + sent,
            false => received.max(sent),
        };
        let rate_bps = self.link.rate_bps?;
        Some(bytes as f64 * 8.0 / seconds * 100.0 / rate_bps as f64)
    }
}

/// The kernel's counts since the interface was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    collisions: Option<u64>,
    errors: Option<u64>,
}

impl Totals {
    /// The difference since `then`; 0 if another interface of that name has smaller counts.
    fn since(self, then: Totals) -> Totals {
        let since = |now: Option<u64>, then: Option<u64>| {
            now.zip(then).map(|(now, then)| now.saturating_sub(then))
        };
        Totals {
            collisions: since(self.collisions, then.collisions),
            errors: since(self.errors, then.errors),
        }
    }
}

/// An interface of this machine.
pub(super) struct Interface {
    name: String,
    /// The counts at the last look.
    before: Totals,
}

impl Interface {
    pub(super) fn new(name: &str) -> Interface {
        let mut interface = Interface { name: name.to_owned(), before: Totals::default() };
        interface.before = interface.totals();
        interface
    }

    /// The link since the last look, as far as the system knows.
    pub(super) fn look(&mut self) -> Link {
        let now = self.totals();
        let Totals { collisions, errors } = now.since(self.before);
        self.before = now;
        let rate_mbps = self.number("speed").filter(|&mbps| mbps > 0);
        let flags = self.text("flags").and_then(|hex| {
            let digits = hex.strip_prefix("0x")?;
            u32::from_str_radix(digits, 16).ok()
        });
        Link {
            rate_bps: rate_mbps.map(|mbps| mbps * 1_000_000),
            is_half_duplex: self.text("duplex").is_some_and(|duplex| duplex == "half"),
            is_down: flags.is_some_and(|flags| flags & UP == 0),
            collisions,
            errors,
        }
    }

    fn totals(&self) -> Totals {
        let errors = self.number("statistics/rx_errors").zip(self.number("statistics/tx_errors"));
        Totals {
            collisions: self.number("statistics/collisions"),
            errors: errors.map(|(received, sent)| received + sent),
        }
    }

    fn text(&self, what: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/sys/class/net/{}/{what}", self.name)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The kernel reports an unknown value as -1, or refuses to read it.
    fn number(&self, what: &str) -> Option<u64> {
        self.text(what)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of 10 Mb/s with these bytes received and sent.
    fn port(on_link: [u64; 2], is_half_duplex: bool) -> PortState {
        PortState {
            name: "port".to_owned(),
            amounts: [Amount::default(); 2],
            on_link: on_link.map(|bytes| Amount { frames: 1, bytes }),
            link: Link { rate_bps: Some(10_000_000), is_half_duplex, ..Link::default() },
        }
    }

    #[test]
    fn both_ways_of_a_half_duplex_link_share_it() {
        let bytes = [500_000, 250_000];
        assert_eq!(port(bytes, false).share(1.0), Some(40.0));
        assert_eq!(port(bytes, false).share(2.0), Some(20.0));
        assert_eq!(port(bytes, true).share(1.0), Some(60.0));
        let unknown = PortState { link: Link::default(), ..port(bytes, true) };
        assert_eq!(unknown.share(1.0), None);
    }

    #[test]
    fn counts_since_boot_are_shown_as_those_of_the_interval() {
        let totals = |collisions, errors| Totals { collisions, errors };
        let then = totals(Some(70), Some(9));
        assert_eq!(totals(Some(75), Some(9)).since(then), totals(Some(5), Some(0)));
        assert_eq!(totals(Some(1), None).since(then), totals(Some(0), None));
        assert_eq!(then.since(Totals::default()), Totals::default(), "unknown until then");
    }

    #[test]
    fn of_an_interface_that_is_not_there_nothing_is_known() {
        assert_eq!(Interface::new("no/such").look(), Link::default());
    }
}
