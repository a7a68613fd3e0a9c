//! Chooses the colour of each series by its name, so that the same thing has the same colour in all
//! plots.
//!
//! Called by: the page of `lab all`. Colours are those of the pages' theme: `--s1` to `--s8`, and
//! `--quiet` for a series that others are compared with. The second of two things that belong
//! together (UDP with TCP, Linux's congestion control with ours) is dashed or hollow in the same
//! colour.

use std::collections::BTreeMap;

/// A colour of the theme, and whether lines are dashed and dots are hollow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tint {
    pub(crate) colour: &'static str,
    pub(crate) hollow: bool,
}

const fn full(colour: &'static str) -> Tint {
    Tint { colour, hollow: false }
}

const fn hollow(colour: &'static str) -> Tint {
    Tint { colour, hollow: true }
}

/// Our stack with its default settings, the kernel's, and hosts of the past each have a colour.
/// Congestion controls have colours too; CUBIC, the default, has that of our stack.
const THINGS: &[(&str, Tint)] = &[
    ("ours", full("--s1")),
    ("TCP", full("--s1")),
    ("UDP", hollow("--s1")),
    ("delivered", full("--s1")),
    ("median, least and most", full("--s1")),
    ("at the level", full("--s1")),
    ("line mode", full("--s1")),
    ("settings of today", full("--s1")),
    ("all others on", full("--s1")),
    ("ours, mem to mem", full("--s1")),
    ("ours, TAP to TAP", hollow("--s1")),
    ("ours, AF_XDP between two veths", full("--s7")),
    ("ours > ours", full("--s1")),
    ("ours > libtirpc", full("--s7")),
    ("libtirpc > libtirpc", full("--s2")),
    ("the kernel between two veths", full("--s2")),
    ("1989", full("--s5")),
    ("settings of 1989", full("--s5")),
    ("workstations of 1988", full("--s5")),
    ("character mode", full("--s5")),
    ("STREAMS, allocate", full("--s5")),
    ("STREAMS, allocate and free", hollow("--s5")),
    ("vendor", full("--s8")),
    ("STREAMS, one allocation", full("--s8")),
    ("STREAMS, one processor", hollow("--s8")),
    ("fixed", full("--s4")),
    ("a copy alone", full("--quiet")),
    ("each frame interrupts", full("--quiet")),
    ("all others off", full("--quiet")),
    ("averaged over all", full("--s7")),
    ("sender", full("--s1")),
    ("receiver", full("--s3")),
    ("forwarder", full("--s4")),
    ("cubic", full("--s1")),
    ("newreno", full("--s3")),
    ("bbr", full("--s2")),
    ("reno", full("--s4")),
    ("tahoe", full("--s5")),
    ("linux-cubic", hollow("--s1")),
    ("linux-reno", hollow("--s3")),
    ("linux-bbr", hollow("--s2")),
];

/// Colours for names that are not in [`THINGS`], in the order in which they are used: colours that
/// few things have come first.
const OTHERS: [&str; 8] = ["--s6", "--s4", "--s8", "--s7", "--s3", "--s5", "--s2", "--s1"];

/// The tints that names on a page were given: a name keeps its tint in later plots.
#[derive(Default)]
pub(crate) struct Tints(BTreeMap<String, Tint>);

impl Tints {
    /// A tint for each series of a plot. No two of them are alike until all colours are used.
    pub(crate) fn of<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> Vec<Tint> {
        let mut taken: Vec<Tint> = Vec::new();
        for name in names {
            let known = known(name).or_else(|| self.0.get(name).copied());
            let tint = match known {
                // Two flows of one kind behind one queue: the second is dashed.
                Some(tint) if taken.contains(&tint) => Tint { hollow: !tint.hollow, ..tint },
                Some(tint) => tint,
                None => {
                    let free = OTHERS.into_iter().flat_map(|colour| [full(colour), hollow(colour)]);
                    let mut free = free.filter(|tint| !taken.contains(tint));
                    let tint = free.next().unwrap_or(full("--quiet"));
                    self.0.insert(name.to_owned(), tint);
                    tint
                }
            };
            taken.push(tint);
        }
        taken
    }
}

/// The tint of a name in [`THINGS`]. The name may also say where the thing is, or the transport
/// (`wire: ours TCP`).
fn known(name: &str) -> Option<Tint> {
    let name = name.split_once(": ").map_or(name, |(_, rest)| rest);
    let of = |name: &str| THINGS.iter().find(|(thing, _)| *thing == name).map(|(_, tint)| *tint);
    of(name).or_else(|| {
        let (thing, transport) = name.rsplit_once(' ')?;
        match transport {
            "TCP" => of(thing),
            "UDP" => of(thing).map(|tint| Tint { hollow: true, ..tint }),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_tint_on_a_page_and_a_plot_has_no_tint_twice() {
        let mut tints = Tints::default();
        let plots = [
            &["cubic", "newreno", "bbr", "reno", "tahoe"][..],
            &["cubic", "cubic"],
            &["bbr", "linux-bbr", "something new"],
            &["a copy alone", "ours", "STREAMS, allocate", "something new"],
            &["wire: 1989 TCP", "wire: fixed TCP", "wire: ours TCP", "wire: ours UDP"],
        ];
        let all: Vec<Vec<Tint>> = plots.iter().map(|names| tints.of(names.to_vec())).collect();
        for (names, tints) in plots.iter().zip(&all) {
            let mut apart = tints.clone();
            apart.sort();
            apart.dedup();
            assert_eq!(apart.len(), names.len(), "{names:?}: {tints:?}");
        }
        assert_eq!((all[0][2], all[0][2]), (all[2][0], full("--s2")), "bbr");
        assert_eq!(all[1], [full("--s1"), hollow("--s1")]);
        assert_eq!(all[2][2], all[3][3], "something new");
        assert_eq!(all[3][1], all[4][2], "ours");
        assert_eq!(all[4][3], hollow("--s1"), "UDP");
    }

    #[test]
    fn there_are_more_series_than_tints() {
        let names: Vec<String> = (0..40).map(|n| format!("series {n}")).collect();
        assert_eq!(Tints::default().of(names.iter().map(String::as_str)).len(), 40);
    }
}
