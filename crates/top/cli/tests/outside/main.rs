//! The stack and the program against the kernel of this machine over a TAP, each case in its own
//! network namespace: neighbour discovery, echoes, ICMP errors, connections both ways.
//!
//! There is no harness, so that a case whose needs are not met is skipped with the reason
//! (`testbed`). An argument that is not an option selects cases by a part of their name.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod auto;
#[cfg(target_os = "linux")]
mod dump;
#[cfg(target_os = "linux")]
mod dump_filters;
#[cfg(target_os = "linux")]
mod explain;
#[cfg(target_os = "linux")]
mod fib;
#[cfg(target_os = "linux")]
mod gateway;
#[cfg(target_os = "linux")]
mod gateway_passt;
#[cfg(target_os = "linux")]
mod gateway_qemu;
#[cfg(target_os = "linux")]
mod gateway_switch;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod nfs;
#[cfg(target_os = "linux")]
mod ping;
#[cfg(target_os = "linux")]
mod rpcbind;
#[cfg(target_os = "linux")]
mod services;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod trace;
#[cfg(target_os = "linux")]
mod up;
#[cfg(target_os = "linux")]
mod up_filter;
#[cfg(target_os = "linux")]
mod up_live;
#[cfg(target_os = "linux")]
mod up_mirrors;
#[cfg(target_os = "linux")]
mod up_next_hop_v6;
#[cfg(target_os = "linux")]
mod up_offloads;
#[cfg(target_os = "linux")]
mod up_pair;
#[cfg(target_os = "linux")]
mod up_paths;
#[cfg(target_os = "linux")]
mod up_policy;
#[cfg(target_os = "linux")]
mod up_ports;
#[cfg(target_os = "linux")]
mod up_shards;
#[cfg(target_os = "linux")]
mod up_sources;
#[cfg(target_os = "linux")]
mod up_users;
mod up_vrf;
#[cfg(target_os = "linux")]
mod wire;
#[cfg(target_os = "linux")]
mod written;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[
        auto::CASES,
        dump::CASES,
        dump_filters::CASES,
        explain::CASES,
        fib::CASES,
        gateway::CASES,
        gateway_passt::CASES,
        gateway_qemu::CASES,
        gateway_switch::CASES,
        nfs::CASES,
        ping::CASES,
        rpcbind::CASES,
        services::CASES,
        sockets::CASES,
        trace::CASES,
        up::CASES,
        up_filter::CASES,
        up_live::CASES,
        up_mirrors::CASES,
        up_next_hop_v6::CASES,
        up_offloads::CASES,
        up_pair::CASES,
        up_paths::CASES,
        up_policy::CASES,
        up_ports::CASES,
        up_shards::CASES,
        up_sources::CASES,
        up_users::CASES,
        up_vrf::CASES,
        wire::CASES,
        written::CASES,
    ];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
