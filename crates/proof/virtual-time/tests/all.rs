//! The tests of worlds in virtual time, in one program, so that they are linked once.

mod clocks;
mod hosts;
mod http;
mod links;
mod replay;
#[path = "../examples/day/services.rs"]
mod services;
#[path = "../examples/day/traffic.rs"]
mod traffic;
