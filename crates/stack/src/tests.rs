//! Tests of whole stacks: transfers, ladders, hostile bytes, prediction on against off.

mod addresses;
mod autoconf;
mod broadcast;
mod checksums;
mod craft;
#[cfg(unix)]
mod devices;
mod flows;
mod follow;
mod frag;
mod hostile;
mod icmp;
mod idle;
mod ladder;
mod loans;
mod mitigation;
mod path_mtu;
mod ports;
mod predict;
mod requirements;
mod resolve;
mod taps;
mod transfer;
