//! What a port was given, as one line for the user; the name servers of several sources in turn.
//!
//! Called by: `outside.rs`, `auto.rs`, `dhcp.rs` and `dhcp6.rs`.

use std::fmt::Display;

use wirespeed::Duration;

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
