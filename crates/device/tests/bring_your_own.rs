//! The example that strangers start from, run as written, and its device put to the contract.
#![cfg(all(unix, not(loom)))]

#[path = "../examples/bring_your_own.rs"]
mod example;

#[test]
fn the_example_runs() {
    example::main().expect("sockets can be made");
}
