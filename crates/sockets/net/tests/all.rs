//! The tests of sockets over stacks in memory, one program, so that all is linked once. `idle` is
//! alone, because it measures the processor time of its process; `tun` needs root.

mod blocking;
mod cancel;
mod chaos;
mod common;
mod endings;
mod eyeballs;
mod fast_open;
#[path = "flood/main.rs"]
mod flood;
mod forwarder;
mod mitigation;
mod names;
mod no_runtime;
mod same_errors;
#[cfg(target_os = "linux")]
mod several_ports;
mod shards;
mod states;
mod tasks;
mod urgent;
#[cfg(target_os = "linux")]
mod vm;
