//! Tests of whole stacks: transfers, ladders, hostile bytes, prediction on against off.

mod craft;
mod hostile;
mod icmp;
mod ladder;
mod path_mtu;
mod predict;
mod resolve;
mod transfer;
