//! Mirrors of ports: interfaces of the kernel in which routing daemons and other programs see our
//! ports. Packets that nothing of ours wants are punted there, and what programs send by a mirror
//! leaves by its port.
//!
//! Called by: both processes of `wirespeed up`. The first one makes the interfaces
//! (`daemon/mirrors.rs`), the worker passes frames ([`Mirrors`], in `frames.rs`). The worker knows
//! what a port is like, and may be taken over, so that its word about it is a [`State`] that is
//! checked: with it the worker can change the addresses, link address, MTU and carrier of mirrors
//! that the configuration has, and nothing else. Addresses that programs give a mirror are the
//! port's ([`OfProgram`]): the first process reads them, and `programs.rs` adds them.
//! docs/decisions/0148-mirrors.md, 0153-addresses-of-programs.md. Limits: [`ADDRESSES_MAX`],
//! [`PROGRAMS_MAX`].

pub(crate) mod counts;
mod frames;
mod programs;
mod say;

use core::net::IpAddr;
use std::collections::BTreeSet;

use base::MacAddr;
use serde::{Deserialize, Serialize};

pub(crate) use frames::Mirrors;

/// The most addresses of a mirror; further ones of the port are not mirrored.
pub const ADDRESSES_MAX: usize = 256;

/// The most addresses of programs at a mirror; others are not the port's.
pub const PROGRAMS_MAX: usize = 64;

/// The MTUs in bytes that a TAP can have (Linux `drivers/net/tun.c`).
const MTU: core::ops::RangeInclusive<usize> = 68..=65_521;

/// What a port is like: so is its mirror to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its name, and the interface's.
    pub port: String,
    /// Its link address.
    pub mac: [u8; 6],
    /// The largest packet in bytes.
    pub mtu: usize,
    /// Is its link up?
    pub carrier: bool,
    /// Its usable addresses, each with the length of its network's prefix.
    pub addresses: BTreeSet<(IpAddr, u8)>,
    /// Does the worker have a descriptor of the mirror, which it can use?
    pub has_device: bool,
}

/// An address that a program has given a mirror, or an interface above it with a link address of
/// its own: VRRP's, while this router is the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfProgram {
    /// The address.
    pub ip: IpAddr,
    /// The length of its network's prefix in bits.
    pub prefix_len: u8,
    /// The link address of the interface above the mirror that has it; `None`: the mirror itself.
    pub mac: Option<[u8; 6]>,
}

impl State {
    /// May a mirror be like this?
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), String> {
        let mac = MacAddr(self.mac);
        if mac.is_group() || mac == MacAddr::default() {
            return Err(format!("{mac} is no link address of a host"));
        }
        if !MTU.contains(&self.mtu) {
            return Err(format!("an MTU of {} bytes", self.mtu));
        }
        if self.addresses.len() > ADDRESSES_MAX {
            return Err(format!("more than {ADDRESSES_MAX} addresses"));
        }
        let is_unfit = |&&(ip, len): &&(IpAddr, u8)| {
            let most = if ip.is_ipv4() { 32 } else { 128 };
            let is_wide = len == 0 || len > most;
            is_wide || ip.is_unspecified() || ip.is_multicast() || ip.is_loopback()
        };
        match self.addresses.iter().find(is_unfit) {
            Some((ip, len)) => Err(format!("the address {ip}/{len}")),
            None => Ok(()),
        }
    }

    /// The MTU of a mirror: a TAP's is less than the largest of a port.
    pub(crate) fn mtu(bytes: usize) -> usize {
        bytes.clamp(*MTU.start(), *MTU.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(addresses: &[&str]) -> State {
        let cidr = |text: &&str| {
            let cidr: base::Cidr = text.parse().expect("an address");
            (cidr.addr, cidr.prefix_len)
        };
        State {
            port: "wan".to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1_500,
            carrier: true,
            addresses: addresses.iter().map(cidr).collect(),
            has_device: false,
        }
    }

    #[test]
    fn a_worker_that_was_taken_over_cannot_have_any_mirror() {
        let good = state(&["192.0.2.1/24", "fe80::1/64", "2001:db8::1/128"]);
        assert_eq!(good.check(), Ok(()));
        for bad in
            ["127.0.0.1/8", "224.0.0.5/32", "0.0.0.0/8", "192.0.2.1/0", "::1/128", "ff02::5/16"]
        {
            let why = state(&[bad]).check().expect_err(bad);
            assert!(why.contains(bad), "{why}");
        }
        let with = |mac, mtu| State { mac, mtu, ..good.clone() };
        for state in [
            with([3, 0, 0, 0, 0, 1], 1_500),
            with([0; 6], 1_500),
            with(good.mac, 67),
            with(good.mac, 65_522),
        ] {
            assert!(state.check().is_err(), "{state:?}");
        }
        let many: Vec<String> =
            (0..=256).map(|n| format!("10.0.{}.{}/32", n / 100, n % 100 + 1)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(state(&many).check().is_err() && state(&many[..256]).check().is_ok());
    }

    /// Its message has room for all addresses.
    #[test]
    fn the_longest_state_is_a_message() {
        let ip = |n: u16| {
            (IpAddr::from([0x2001, 0xdb8, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, n]), 128)
        };
        let addresses = (0xfe00..0xfe00 + ADDRESSES_MAX as u16).map(ip).collect();
        let state = State { port: "a".repeat(15), addresses, ..state(&[]) };
        let bytes = serde_json::to_vec(&state).expect("numbers and texts");
        assert!(bytes.len() < crate::orders::MESSAGE_MAX, "{}", bytes.len());
    }
}
