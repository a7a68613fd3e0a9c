//! Sockets over TUN and TAP against the kernel of this machine, each case in a network namespace
//! of its own: drivers that sleep at descriptors, devices that disappear, options as packets have
//! them.
//!
//! No harness, as in the device crate's tests: a case that lacks root, `/dev/net/tun` or iproute2
//! is a skip with its reason. An argument that is not an option picks cases by part of their name.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod gone;
#[cfg(target_os = "linux")]
mod narrow;
#[cfg(target_os = "linux")]
#[path = "../../../device/tests/tap/netns.rs"]
mod netns;

/// A name, and what to do in a namespace.
#[cfg(target_os = "linux")]
type Case = (&'static str, fn());

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cases = [cases::CASES, gone::CASES, narrow::CASES].concat();
    if arguments.iter().any(|a| a == "--list") {
        cases.iter().for_each(|(name, _)| println!("{name}: test"));
        return std::process::ExitCode::SUCCESS;
    }
    let picked = arguments.iter().find(|a| !a.starts_with('-'));
    let cases: Vec<Case> =
        cases.into_iter().filter(|(name, _)| picked.is_none_or(|p| name.contains(p))).collect();
    println!("running {} tests", cases.len());
    let missing = netns::missing();
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for (name, case) in cases {
        if let Some(missing) = missing.or_else(|| netns::lacks(name)) {
            println!("test {name} ... ignored, {missing}");
            ignored += 1;
        } else if netns::run(case) {
            println!("test {name} ... ok");
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed += 1;
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; \
         0 filtered out; finished in 0.00s"
    );
    if failed == 0 { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("running 0 tests");
    println!("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
