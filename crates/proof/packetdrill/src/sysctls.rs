//! Reads the file in which the scripts' `sysctl` command stores values, and applies them to
//! sockets.
//!
//! Called by: `profile.rs` and `options.rs`.

use std::collections::BTreeMap;
use std::path::Path;

use base::{Duration, Switch};
use stack::Stack;
use tcp::cc::Algorithm;
use tcp::{Config, Ecn, MtuProbing};

/// Maximum lines of the file that are read.
const LINES_MAX: usize = 10_000;

/// The values that scripts have set, by the last part of their names (`tcp_sack`).
#[derive(Debug, Default)]
pub(super) struct Sysctls(BTreeMap<String, String>);

impl Sysctls {
    /// Read lines `NAME=VALUE`. If a name occurs several times, the last line counts. A missing
    /// file counts as empty.
    pub(super) fn read(path: &Path) -> Sysctls {
        Sysctls::parse(&std::fs::read_to_string(path).unwrap_or_default())
    }

    fn parse(text: &str) -> Sysctls {
        let pairs = text.lines().take(LINES_MAX).filter_map(|line| line.split_once('='));
        let short = |name: &str| {
            let name = name.trim().trim_matches('"');
            name.rsplit(['.', '/']).next().unwrap_or(name).to_owned()
        };
        Sysctls(pairs.map(|(n, v)| (short(n), v.trim().trim_matches('"').to_owned())).collect())
    }

    fn number(&self, name: &str) -> Option<u64> {
        let text = self.0.get(name)?;
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// The three numbers of `tcp_rmem` or `tcp_wmem`.
    fn sizes(&self, name: &str) -> Option<[u32; 3]> {
        let mut figures = self.0.get(name)?.split_whitespace().map(|t| t.parse().unwrap_or(0));
        Some([figures.next()?, figures.next()?, figures.next()?])
    }

    fn small(&self, name: &str) -> Option<u8> {
        self.number(name).map(|n| u8::try_from(n).unwrap_or(u8::MAX))
    }

    /// The bits of `tcp_fastopen`.
    pub(super) fn fast_open(&self) -> Option<u64> {
        self.number("tcp_fastopen")
    }

    /// `tcp_fastopen_key`: four 32-bit words in hexadecimal digits, each stored little-endian.
    pub(super) fn fast_open_key(&self) -> Option<[u8; 16]> {
        let mut key = [0; 16];
        let mut words = self.0.get("tcp_fastopen_key")?.split('-');
        for to in key.chunks_mut(4) {
            let word = u32::from_str_radix(words.next()?.trim(), 16).ok()?;
            to.copy_from_slice(&word.to_le_bytes());
        }
        Some(key)
    }

    /// Has a script turned TSO off (`ethtool -K tun0 tso off`)?
    pub(super) fn plain_segments(&self) -> bool {
        self.0.get("tso").is_some_and(|value| value == "off")
    }

    /// Apply the values to a new socket's settings and to the stack.
    pub(super) fn apply(&self, config: &mut Config, stack: &mut Stack) {
        let flag = |name: &str, field: &mut bool| {
            if let Some(n) = self.number(name) {
                *field = n != 0;
            }
        };
        flag("tcp_timestamps", &mut config.timestamps);
        flag("tcp_sack", &mut config.sack);
        flag("tcp_window_scaling", &mut config.window_scaling);
        if let Some(n) = self.number("tcp_ecn") {
            config.ecn = [Ecn::Off, Ecn::On, Ecn::Accept][(n as usize).min(2)];
        }
        if let Some(n) = self.number("tcp_mtu_probing") {
            let all = [MtuProbing::Off, MtuProbing::AfterBlackHole, MtuProbing::Always];
            config.mtu_probing = all[(n as usize).min(2)];
        }
        if let Some([_, start, most]) = self.sizes("tcp_rmem") {
            (config.receive_buffer_bytes, config.receive_buffer_max_bytes) = (start / 2, most);
        }
        if let Some([_, start, most]) = self.sizes("tcp_wmem") {
            (config.send_buffer_bytes, config.send_buffer_max_bytes) = (start, most);
        }
        if let Some(n) = self.number("tcp_notsent_lowat") {
            config.unsent_limit_bytes = u32::try_from(n).unwrap_or(u32::MAX);
        }
        if let Some(n) = self.small("tcp_min_tso_segs") {
            config.super_segments_max = u16::from(n);
        }
        if let Some(n) = self.small("tcp_tso_win_divisor") {
            config.compat.super_room_part = u16::from(n);
        }
        if let Some(n) = self.small("tcp_syn_retries") {
            config.syn_retries_max = n;
        }
        if let Some(n) = self.small("tcp_retries2") {
            config.retries_max = n;
        }
        if let Some(n) = self.number("tcp_rto_max_ms") {
            config.rto_max = Duration::from_millis(n);
        }
        if let Some(n) = self.number("tcp_fin_timeout") {
            config.fin_wait_2 = Duration::from_secs(n);
        }
        let algorithm = self.0.get("tcp_congestion_control").map(String::as_str);
        config.algorithm = algorithm.and_then(algorithm_named).unwrap_or(config.algorithm);
        if let Some(n) = self.number("tcp_early_retrans") {
            stack.set_switch(Switch::TailProbe, n != 0);
        }
        if let Some(n) = self.number("tcp_recovery") {
            stack.set_switch(Switch::Rack, n & 1 != 0);
        }
    }
}

/// The algorithm of this name. Linux calls NewReno (RFC 5681 with RFC 6582) `reno`.
pub(super) fn algorithm_named(name: &str) -> Option<Algorithm> {
    match name {
        "reno" => Some(Algorithm::NewReno),
        _ => Algorithm::ALL.iter().copied().find(|a| a.name() == name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_go_by_their_last_name_and_the_last_counts() {
        let text = "net.ipv4.tcp_sack=1\n/proc/sys/net/ipv4/tcp_sack=0\n\
                    net.ipv4.tcp_rmem=4096 540000 15728640\nnet.ipv4.tcp_fastopen=0x70403\n";
        let sysctls = Sysctls::parse(text);
        assert_eq!(sysctls.number("tcp_sack"), Some(0));
        assert_eq!(sysctls.sizes("tcp_rmem"), Some([4096, 540_000, 15_728_640]));
        assert_eq!(sysctls.number("tcp_fastopen"), Some(0x70403));
    }

    #[test]
    fn linux_has_its_own_name_for_new_reno() {
        assert_eq!(algorithm_named("reno"), Some(Algorithm::NewReno));
        assert_eq!(algorithm_named("cubic"), Some(Algorithm::Cubic));
        assert_eq!(algorithm_named("vegas"), None);
    }
}
