//! The code before and after a target's run: names, shares of time, logs, the table.

use super::outcome::{self, Outcome};
use super::*;

fn options() -> Options {
    Options { seconds: 60, target: None, jobs: 2, replay: None }
}

fn names() -> Vec<String> {
    ["tcp_header", "tcp_options", "tcb"].map(str::to_owned).to_vec()
}

#[test]
fn targets_are_the_programs_of_the_manifest_and_all_of_them_are_there() {
    let two =
        "[package]\nname = \"x\"\n[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\npath = \"p\"\n";
    assert_eq!(targets(two).unwrap(), ["a", "b"]);
    assert!(targets("[package]\nname = \"x\"\n").is_err());
    let root = crate::cargo::root().unwrap();
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
    for name in targets(&manifest).unwrap() {
        assert!(root.join(format!("fuzz/fuzz_targets/{name}.rs")).is_file(), "{name}");
    }
}

#[test]
fn a_target_is_chosen_by_name_and_an_unknown_one_is_refused() {
    assert_eq!(choose(&names(), &options()).unwrap(), names());
    let named = |name: &str| Options { target: Some(name.to_owned()), ..options() };
    assert_eq!(choose(&names(), &named("tcb")).unwrap(), ["tcb"]);
    let e = choose(&names(), &named("nonsense")).unwrap_err();
    assert!(e.is::<Usage>() && e.to_string().contains("tcp_header, tcp_options, tcb"));
}

#[test]
fn the_name_of_a_finding_tells_its_target() {
    let file = |name: &str| Options { replay: Some(name.into()), ..options() };
    let found = choose(&names(), &file("a/b/tcp_options-crash-01ab")).unwrap();
    assert_eq!(found, ["tcp_options"]);
    assert!(choose(&names(), &file("crash-01ab")).unwrap_err().is::<Usage>());
    let told = Options { target: Some("tcb".into()), ..file("crash-01ab") };
    assert_eq!(choose(&names(), &told).unwrap(), ["tcb"]);
}

#[test]
fn time_is_shared_by_rounds_and_nobody_gets_none() {
    assert_eq!(share(600, 17, 2), 66);
    assert_eq!(share(600, 1, 2), 600);
    assert_eq!(share(3, 17, 2), 1);
}

const CLEAN: &str = "\
INFO: Seed: 1
#2\tINITED cov: 30 ft: 31 corp: 1/1b exec/s: 0 rss: 40Mb
#4096\tpulse  cov: 77 ft: 81 corp: 9/100b lim: 40 exec/s: 2048 rss: 50Mb
#9000\tDONE   cov: 78 ft: 82 corp: 10/120b lim: 80 exec/s: 3000 rss: 51Mb
Done 9000 runs in 3 second(s)
stat::number_of_executed_units: 9000
stat::peak_rss_mb: 51
";

const FOUND: &str = "\
#512\tpulse  cov: 20 ft: 21 corp: 3/9b lim: 4 exec/s: 0 rss: 40Mb
thread '<unnamed>' panicked at crates/core/wire/src/tcp/options.rs:100:9:
index out of bounds: the len is 3 but the index is 3
==12== ERROR: libFuzzer: deadly signal
artifact_prefix='/t/findings/tcp_options-'; Test unit written to /t/findings/tcp_options-crash-1
Base64: CAE=
";

#[test]
fn a_log_without_findings_is_read() {
    let outcome = outcome::read("tcb", CLEAN, true, Duration::from_secs(3));
    assert_eq!((outcome.runs, outcome.coverage, outcome.seconds), (9_000, 78, 3.0));
    assert_eq!(outcome.finding, None);
}

#[test]
fn a_finding_has_its_input_and_begins_with_the_panic() {
    let outcome = outcome::read("tcp_options", FOUND, false, Duration::from_secs(1));
    let finding = outcome.finding.unwrap();
    assert_eq!(finding.file.unwrap(), PathBuf::from("/t/findings/tcp_options-crash-1"));
    assert!(finding.text.starts_with("   | thread"), "{}", finding.text);
    assert!(finding.text.contains("the index is 3"));
    // A program that cannot even start leaves a log without any of this.
    let outcome = outcome::read("tcb", "no such library\n", false, Duration::ZERO);
    assert!(outcome.finding.unwrap().text.contains("no such library"));
}

#[test]
fn a_finding_fails_a_case_that_was_stopped_is_skipped_and_the_rest_passes() {
    let root = crate::cargo::root().unwrap();
    let folders = Folders::new(&root);
    let mut tally = Tally::default();
    for outcome in [
        outcome::read("tcb", CLEAN, true, Duration::ZERO),
        outcome::read("tcp_options", FOUND, false, Duration::ZERO),
        Outcome::not_begun("link"),
    ] {
        check(&folders, &outcome, &mut tally);
    }
    assert_eq!((tally.passed, tally.failed, tally.skipped), (1, 1, 1));
    assert!(tally.closing().contains("cargo xtask fuzz --replay /t/findings/tcp_options-crash-1"));
}

#[test]
fn the_table_has_a_row_for_each_target() {
    let outcomes = [
        outcome::read("tcb", CLEAN, true, Duration::from_millis(3_100)),
        Outcome::not_begun("tcp_options"),
    ];
    let text = outcome::table(&outcomes);
    let rows: Vec<_> = text.lines().collect();
    assert_eq!(rows[0], "target               runs  coverage   seconds");
    assert_eq!(rows[1], "tcb                  9000        78       3.1");
    assert!(rows[2].starts_with("tcp_options") && rows[2].ends_with("stopped"));
}
