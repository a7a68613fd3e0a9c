//! What a port was given, as one line for the user; the name servers of several sources in turn.
//!
//! Called by: `network.rs`, `auto.rs`, `dhcp.rs` and `dhcp6.rs`.

use std::fmt::Display;

use wirespeed::Duration;
use wirespeed::net::dhcp::LossReason;

use crate::output;

/// `address: A/B for 600 s, by DHCP from S; router R; name servers N, N`, without what is empty.
pub(super) fn line<T: Display>(what: &str, routers: &[T], name_servers: &[T]) -> String {
    let list = |all: &[T]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut line = what.to_owned();
    for (name, all) in [("router", routers), ("name server", name_servers)] {
        match all.len() {
            0 => {}
            1 => line += &format!("; {name} {}", list(all)),
            _ => line += &format!("; {name}s {}", list(all)),
        }
    }
    line
}

/// How long a lease is valid.
pub(super) fn time(valid: Option<Duration>) -> String {
    match valid {
        Some(valid) => format!("for {} s", valid.as_millis() / 1_000),
        None => "for ever".to_owned(),
    }
}

/// An address by `protocol` is no longer ours.
pub(super) fn lost(address: impl Display, protocol: &str, why: LossReason) {
    let why = match why {
        LossReason::Expired => {
            format!("no {protocol} server extended the lease in time; asking again")
        }
        LossReason::Refused => format!("a {protocol} server ended it; asking for another"),
        LossReason::Conflict => "another host has it; asking for another".to_owned(),
        LossReason::Released => "it was given back".to_owned(),
    };
    output::err(&format!("warning: {address} is no longer ours: {why}"));
}

/// The stack did not take an address by `protocol`.
pub(super) fn not_added(address: impl Display, protocol: &str, why: impl Display) {
    output::err(&format!("warning: {address}, by {protocol}, cannot be used: {why}"));
}

/// Another host has an address by `protocol`; asking for another `takes` so long, if that is known.
pub(super) fn declined(address: impl Display, protocol: &str, takes: &str) {
    output::err(&format!(
        "warning: another host has {address}, which the {protocol} server gave us: asking for \
         another{takes}"
    ));
}

/// The first of each list, then the second of each, each once.
pub(super) fn in_turn<T: Copy + PartialEq>(lists: &[Vec<T>]) -> Vec<T> {
    let most = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = Vec::new();
    for one in (0..most).flat_map(|at| lists.iter().filter_map(move |list| list.get(at))) {
        if !all.contains(one) {
            all.push(*one);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_there_is() {
        assert_eq!(line::<u8>("address: A", &[], &[]), "address: A");
        assert_eq!(line("a", &["r"], &["n", "m"]), "a; router r; name servers n, m");
        assert_eq!(time(Some(Duration::from_secs(600))), "for 600 s");
        assert_eq!(time(None), "for ever");
    }

    #[test]
    fn some_of_each_source_come_first() {
        assert_eq!(in_turn(&[vec![1, 2, 3], vec![], vec![4, 1, 5]]), [1, 4, 2, 3, 5]);
        assert!(in_turn::<u8>(&[]).is_empty());
    }
}
