//! Tests of whole stacks: transfers, ladders, hostile bytes, prediction on against off.

mod acd;
mod addresses;
mod addressless;
mod autoconf;
mod broadcast;
mod checksums;
mod craft;
#[cfg(unix)]
mod devices;
mod flows;
mod follow;
mod forward;
mod frag;
mod groups;
mod host;
mod hostile;
mod icmp;
mod idle;
mod ipv4_options;
mod ladder;
mod loans;
mod mitigation;
mod mtu;
mod pace;
mod path_mtu;
mod ports;
mod predict;
mod progress;
mod rare_timers;
mod redirect;
mod requirements;
mod resolve;
mod taps;
mod transfer;
mod udp;
