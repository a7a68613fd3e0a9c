//! How a screen is shown: the order of tables, one connection alone, and the help.
//!
//! Called by: `run.rs`, with the keys that were pressed; `report.rs` draws accordingly.

use clap::ValueEnum;

use super::limits::Id;

/// The order of tables. A table that lacks the figure is ordered by bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Most bits a second.
    #[default]
    Bits,
    /// Most frames or segments a second.
    Frames,
    /// The longest round trip.
    Rtt,
    /// Most retransmissions.
    Retransmits,
    /// Addresses and names.
    Name,
}

/// The keys, and what each of them does.
pub(super) const KEYS: [(&str, &str); 10] = [
    ("e", "explain the first connection, or go back"),
    ("j k", "the next connection, or the one before"),
    ("b", "order by bits a second"),
    ("f", "by frames or segments a second"),
    ("r", "by round trip, the longest first"),
    ("t", "by retransmissions"),
    ("n", "by name or address"),
    ("s", "the next of these orders"),
    ("?", "this help, or back"),
    ("q", "end, as do Escape and Ctrl-C"),
];

/// The settings that keys change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) order: Order,
    pub(super) help: bool,
    /// The connection that is shown alone.
    pub(super) detail: Option<Id>,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Bits => "bits",
            Order::Frames => "frames",
            Order::Rtt => "RTT",
            Order::Retransmits => "retransmits",
            Order::Name => "name",
        }
    }

    fn next(self) -> Order {
        match self {
            Order::Bits => Order::Frames,
            Order::Frames => Order::Rtt,
            Order::Rtt => Order::Retransmits,
            Order::Retransmits => Order::Name,
            Order::Name => Order::Bits,
        }
    }
}

impl View {
    /// Apply keys, to connections that are shown in this order; `true` if the screen changes.
    pub(super) fn press(&mut self, keys: &[u8], connections: &[Id]) -> bool {
        let before = *self;
        for key in keys {
            match key {
                b'b' => self.order = Order::Bits,
                b'f' => self.order = Order::Frames,
                b'r' => self.order = Order::Rtt,
                b't' => self.order = Order::Retransmits,
                b'n' => self.order = Order::Name,
                b's' => self.order = self.order.next(),
                b'?' | b'h' => self.help = !self.help,
                b'e' if self.detail.is_some() => self.detail = None,
                b'e' => self.detail = connections.first().copied(),
                b'j' => self.step(connections, |at| at + 1),
                b'k' => self.step(connections, |at| at.saturating_sub(1)),
                _ => {}
            }
        }
        *self != before
    }

    /// Go to the connection before or behind the one that is shown alone.
    fn step(&mut self, connections: &[Id], to: fn(usize) -> usize) {
        let shown = connections.iter().position(|&id| Some(id) == self.detail);
        if self.detail.is_some() {
            self.detail = connections.get(shown.map_or(0, to)).copied().or(self.detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_choose_the_order_and_the_help() {
        let mut view = View::default();
        assert!(view.press(b"n", &[]) && view.order == Order::Name);
        assert!(view.press(b"s", &[]) && view.order == Order::Bits);
        assert!(view.press(b"?", &[]) && view.help);
        assert!(view.press(b"?", &[]) && !view.help);
        assert!(!view.press(b"x", &[]) && !view.press(b"", &[]));
    }

    #[test]
    fn keys_choose_the_connection_that_is_shown_alone() {
        let ids = [7, 3, 5].map(|number| Id { stack: 0, number });
        let mut view = View::default();
        assert!(!view.press(b"e", &[]) && !view.press(b"j", &ids), "there is none");
        let mut shown = |keys: &[u8]| (view.press(keys, &ids), view.detail).1;
        assert_eq!(shown(b"e"), Some(ids[0]));
        assert_eq!(shown(b"k"), Some(ids[0]));
        assert_eq!(shown(b"jj"), Some(ids[2]));
        assert_eq!(shown(b"j"), Some(ids[2]), "it is the last");
        assert_eq!(shown(b"k"), Some(ids[1]));
        assert_eq!(shown(b"e"), None);
    }

    #[test]
    fn the_key_for_the_next_order_comes_to_all_of_them() {
        let mut view = View::default();
        let all: Vec<Order> = (0..5).map(|_| (view.press(b"s", &[]), view.order).1).collect();
        assert!(Order::value_variants().iter().all(|order| all.contains(order)), "{all:?}");
    }
}
