//! The tests of sockets over stacks in memory, in one program, so that they are linked once. `idle`
//! is a program of its own, because it measures the processor time of its process; `tun` is another
//! one, because it needs root.

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
mod stepped;
mod tasks;
mod urgent;
#[cfg(target_os = "linux")]
mod vm;
