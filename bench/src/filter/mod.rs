//! The rows of bench `filter`. Called by `main.rs`. `rules` defines the rules for our filter and
//! for nft. `memory` measures our router with known flows, `kernel` compares it with Linux and nft,
//! `flows` measures first packets of flows, `load` a reload and a flood of SYNs, `segments`
//! super-segments through TAPs.

mod flows;
mod kernel;
mod load;
mod memory;
mod rules;
mod segments;

use anyhow::Result;
use lab::forward::{Rig, Shape, Transport};

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::memory::instructions_with;
use rules::Rules;

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "64-byte TCP, 1,000 flows, 100 rules with state: ns added a packet / forwarding \
             without",
            Lower,
            1.0,
            0.6,
            "x",
            memory::added_by_states,
        ),
        spec(
            "64-byte TCP, 1,000 flows, 100 rules with state: packets per CPU-second, ours / nft \
             with conntrack",
            Higher,
            20.0,
            35.0,
            "x",
            kernel::with_states,
        ),
        spec(
            "64-byte TCP, 1,000 flows, 100 rules with state and source NAT: packets per \
             CPU-second, ours / nft masquerade",
            Higher,
            20.0,
            35.0,
            "x",
            kernel::with_nat,
        ),
        spec(
            "64-byte TCP, 1,000 flows, state and source NAT: ns added / forwarding without",
            Lower,
            1.3,
            0.8,
            "x",
            memory::added_by_nat,
        ),
        spec(
            "a million states, random: ns added / ns added with 1,000",
            Lower,
            4.5,
            2.5,
            "x",
            memory::million_states,
        ),
        spec(
            "100 rules, no state, none matches: ns a packet, ours / nft",
            Lower,
            0.06,
            0.03,
            "x",
            kernel::without_states,
        ),
        spec(
            "1,000 rules / 100 rules, first packets of flows",
            Lower,
            3.0,
            2.0,
            "x",
            flows::many_rules,
        ),
        spec("a set of 1,000,000 networks / a set of 10", Lower, 4.0, 2.0, "x", flows::large_set),
        spec(
            "new UDP flows per CPU-second with 100 rules, ours / nft",
            Higher,
            5.0,
            10.0,
            "x",
            flows::with_states,
        ),
        spec(
            "new UDP flows per CPU-second with 100 rules and source NAT, ours / nft",
            Higher,
            8.0,
            15.0,
            "x",
            flows::with_nat,
        ),
        spec(
            "bytes a state at a million, without NAT, IPv4",
            Lower,
            176.0,
            150.0,
            "bytes",
            memory::bytes_v4,
        ),
        spec(
            "bytes a state at a million, without NAT, IPv6",
            Lower,
            256.0,
            216.0,
            "bytes",
            memory::bytes_v6,
        ),
        spec("two shards / one, with state and NAT", Higher, 1.6, 1.85, "x", memory::two_cores),
        spec(
            "reload of 1,000 rules with a million states: longest pause, us of the forwarding \
             thread's CPU time",
            Lower,
            100.0,
            20.0,
            "us",
            load::longest_pause,
        ),
        spec(
            "goodput of established flows at 100,000 SYNs a second of random sources, the table \
             full / without",
            Higher,
            0.9,
            0.98,
            "x",
            load::flood,
        ),
        spec(
            "TCP between two namespaces through two TAPs with offloads, Gb per CPU-second of \
             everything, ours / the kernel routing between two veths",
            Higher,
            0.5,
            0.62,
            "x",
            segments::beside_veths,
        ),
        spec(
            "TCP through two TAPs with offloads, filter and NAT on / off",
            Higher,
            0.9,
            0.97,
            "x",
            segments::with_filter,
        ),
        spec(
            "no filter in the file: instructions per forwarded packet / the baseline of icount \
             before this issue",
            Lower,
            1.01,
            1.0,
            "x",
            without_filter,
        ),
    ]
};

/// Instructions of case `forwarded-64` of `icount` before the router had a filter.
const FORWARDED_BEFORE: f64 = 271.9;

fn without_filter(_: &Bench) -> Result<Figure> {
    let now = instructions_with("forwarded-64", &[])?;
    let value = now / FORWARDED_BEFORE;
    let note = format!("{now:.1} over {FORWARDED_BEFORE:.1}, by valgrind, the router's turn alone");
    Ok(Figure { value, samples: vec![value], note })
}

/// The router for `icount`: 100 rules with state, and source NAT if `is_masqueraded`. It has one
/// connection, as in the cases without rules.
///
/// # Errors
/// The handshake does not pass the router.
pub fn counted(is_masqueraded: bool) -> Result<Rig> {
    memory::router(one(), Some(Rules { is_masqueraded, ..rules::stateful(100) }))
}

/// The same with rules that keep no state.
///
/// # Errors
/// If the rules are wrong.
pub fn stateless() -> Result<Rig> {
    memory::router(one(), Some(Rules { has_states: false, ..rules::stateful(100) }))
}

/// One connection.
fn one() -> Shape {
    Shape { transport: Transport::Tcp, ..Shape::default() }
}
