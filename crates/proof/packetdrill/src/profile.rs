//! The defaults of sockets as on Linux or as on FreeBSD, and the changes that a script makes with
//! `sysctl`.
//!
//! Called by: `interface.rs`, which reads `--so_flags`, and `socket.rs` for each new socket. Source
//! of the values: google's gtests/net/common/defaults.sh for Linux, shared facts about FreeBSD's
//! suite for FreeBSD.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use base::{Cidr, Duration, Mtu, Switch};
use device::Device as _;
use stack::{PortConfig, Route, Stack, StackConfig};
use tcp::cc::Algorithm;
use tcp::{Compat, Config, Ecn, MtuProbing};

use super::sysctls::Sysctls;
use super::wire::End;

/// The system whose defaults and option semantics the scripts expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum System {
    /// Buffer sizes are doubled, SHUT_RD keeps data that was received before, and every segment is
    /// acknowledged at once (Linux does so for a connection's first segments).
    #[default]
    Linux,
    /// Buffer sizes are as set, and the window scale is 6.
    FreeBsd,
}

/// The settings of `--so_flags`.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) system: System,
    /// The stack's addresses.
    pub(super) locals: Vec<IpAddr>,
    pub(super) mtu: Mtu,
    /// Maximum bytes of a super-segment; 0 for no TSO.
    pub(super) tso_max_bytes: usize,
    /// The file to which the scripts' `sysctl` command writes.
    pub(super) sysctls: Option<PathBuf>,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            system: System::default(),
            locals: vec![
                IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)),
                IpAddr::V6(Ipv6Addr::new(0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1)),
            ],
            mtu: Mtu::ETHERNET,
            tso_max_bytes: 0,
            sysctls: None,
        }
    }
}

impl Profile {
    /// A stack with one port, over which every destination is reachable.
    pub(super) fn stack(&self, wire: &End) -> Stack {
        let seed = [0x7061_636b, 0x6472_696c];
        let config = StackConfig { solicited_node_reports: false, ..StackConfig::new(seed) };
        let mut stack = Stack::new(config);
        let whole = |ip: &IpAddr| Cidr::new(*ip, if ip.is_ipv4() { 32 } else { 128 });
        let config = PortConfig {
            addresses: self.locals.iter().filter_map(whole).collect(),
            ..PortConfig::default()
        };
        let device = Box::new(wire.device(self.mtu, self.tso_max_bytes));
        debug_assert!(device.tx_ready(), "a new queue has room");
        let port = stack.add_port(device, config);
        for any in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            if let Some(dest) = Cidr::new(any, 0) {
                stack.add_route(Route::new(dest, None, port.0));
            }
        }
        // Scripts state when each segment leaves, and few of them expect pacing.
        stack.set_switch(Switch::Pacing, false);
        stack
    }

    /// The current value of `net.ipv4.tcp_fastopen`. The default is 1 as on Linux: clients only.
    pub(super) fn fast_open(&self) -> u64 {
        self.sysctls.as_deref().and_then(|path| Sysctls::read(path).fast_open()).unwrap_or(1)
    }

    /// The settings of a new socket. Also sets the stack's switches from the current sysctls.
    pub(super) fn begin(&mut self, stack: &mut Stack, wire: &End) -> Config {
        let mut config = match self.system {
            System::Linux => linux(),
            System::FreeBsd => free_bsd(),
        };
        let Some(path) = &self.sysctls else { return config };
        let sysctls = Sysctls::read(path);
        for switch in [Switch::TailProbe, Switch::Rack] {
            stack.set_switch(switch, true);
        }
        sysctls.apply(&mut config, stack);
        if let Some(key) = sysctls.fast_open_key() {
            stack.set_fast_open_key(key);
        }
        if self.tso_max_bytes > 0 && sysctls.plain_segments() {
            self.tso_max_bytes = 0;
            for port in stack.port_ids() {
                // The new device has the same link kind, so it is never refused.
                drop(stack.replace_port(port, Box::new(wire.device(self.mtu, 0))));
            }
        }
        config
    }
}

/// Linux's settings after google's defaults.sh has run.
fn linux() -> Config {
    Config {
        receive_buffer_bytes: 540_000 / 2,
        receive_buffer_max_bytes: 15 * 1024 * 1024,
        send_buffer_bytes: 256 * 1024,
        send_buffer_max_bytes: 4 * 1024 * 1024,
        // A write may queue as many bytes as the send buffer holds.
        unsent_limit_bytes: u32::MAX,
        // Scripts are short, so they would see only the quick ACKs of a connection's first
        // segments.
        ack_delay: Duration::ZERO,
        rto_initial: Duration::from_secs(1),
        // Scripts pace slowly, so super-segments have Linux's minimum (`tcp_min_tso_segs`).
        super_segments_max: 2,
        syn_retries_max: 5,
        compat: Compat {
            unsent_acks_answered: false,
            growth_when_half_used: true,
            reduces_whole_window: true,
            growth_by_delivery: true,
            // The value that RFC 8985 section 7.2 recommends.
            peer_ack_delay: Duration::from_millis(200),
            probe_min: Duration::from_millis(2),
            ..Compat::default()
        },
        algorithm: Algorithm::Cubic,
        ecn: Ecn::Off,
        mtu_probing: MtuProbing::Off,
        ..Config::default()
    }
}

/// FreeBSD 14's default settings, and the values for which its suite asks.
fn free_bsd() -> Config {
    Config {
        receive_buffer_bytes: 65_536,
        receive_buffer_max_bytes: 2 * 1024 * 1024,
        send_buffer_bytes: 32_768,
        send_buffer_max_bytes: 2 * 1024 * 1024,
        unsent_limit_bytes: u32::MAX,
        ack_delay: Duration::from_millis(40),
        rto_min: Duration::from_millis(230),
        rto_initial: Duration::from_secs(1),
        algorithm: Algorithm::Cubic,
        ecn: Ecn::Accept,
        mtu_probing: MtuProbing::Off,
        ..Config::default()
    }
}
