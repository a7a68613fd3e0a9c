//! `ttcp -t` and `-r` against socat and the kernel's TCP over a TUN, each case in a namespace of
//! its own; `show` on a running one; what goes wrong.
//!
//! No harness: a case that lacks root, a device or a program is a skip with its reason, which
//! libtest cannot say at run time. The lines printed are libtest's.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod trouble;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let picked = arguments.iter().find(|a| !a.starts_with('-'));
    let all = [cases::CASES, streams::CASES, trouble::CASES];
    let cases: Vec<_> = all
        .into_iter()
        .flatten()
        .filter(|(name, ..)| picked.is_none_or(|p| name.contains(p.as_str())))
        .collect();
    if arguments.iter().any(|a| a == "--list") {
        cases.iter().for_each(|(name, ..)| println!("{name}: test"));
        return std::process::ExitCode::SUCCESS;
    }
    println!("running {} tests", cases.len());
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for (name, needs, case) in cases {
        if let Some(missing) = place::missing(needs) {
            println!("test {name} ... ignored, {missing}");
            ignored += 1;
        } else if std::panic::catch_unwind(|| case(&place::Place::new())).is_ok() {
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
