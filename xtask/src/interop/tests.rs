use std::time::Duration;

use super::*;

const ABSENT: Need = Need::Program { program: "no-such-program-here", package: "no-such-package" };

fn only(text: &str) -> Asked<'_> {
    Asked { only: Some(text), ..Asked::default() }
}

fn ok(_: &Workbench) -> Result<()> {
    Ok(())
}

fn bad(_: &Workbench) -> Result<()> {
    bail!("saw 1, expected 2")
}

const SUITE: Suite = Suite {
    name: "sample",
    cases: &[
        Case { name: "good", needs: &[], run: ok },
        Case { name: "bad", needs: &[], run: bad },
        Case { name: "lacking", needs: &[ABSENT, Need::File("/no/such/file")], run: bad },
    ],
    apart: false,
};

#[test]
fn cases_pass_fail_and_skip_by_name() {
    let mut tally = Tally::default();
    run(Path::new("/"), &[&SUITE], Asked::default(), &mut tally).unwrap();
    assert_eq!((tally.passed, tally.failed, tally.skipped), (1, 1, 1));
    let closing = tally.closing();
    assert!(closing.contains("interop sample: bad: saw 1, expected 2"), "{closing}");
    assert!(
        closing.contains(
            "lacking: no-such-program-here (Debian package no-such-package), /no/such/file"
        )
    );
}

#[test]
fn one_case_runs_alone_and_an_unknown_one_is_a_wrong_command_line() {
    let mut tally = Tally::default();
    run(Path::new("/"), &[&SUITE], only("goo"), &mut tally).unwrap();
    assert_eq!((tally.passed, tally.failed, tally.skipped), (1, 0, 0));
    let e = run(Path::new("/"), &[&SUITE], only("best"), &mut tally).unwrap_err();
    assert!(e.is::<Usage>() && e.to_string().contains("lacking"), "{e}");
}

#[test]
fn missing_packages_are_listed_once() {
    assert_eq!(needs::packages(&[&SUITE, &SUITE], &[ABSENT]), ["no-such-package"]);
}

#[test]
fn a_library_is_found_or_named_with_its_package() {
    let root = Path::new("/");
    let absent = Need::Library { file: "libno-such.so.9", package: "libno-such9" };
    let missing = absent.missing(root).unwrap();
    assert_eq!(missing, "libno-such.so.9 (Debian package libno-such9)");
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    assert_eq!(Need::Library { file: "libc.so.6", package: "libc6" }.missing(root), None);
}

#[test]
fn an_unknown_suite_is_a_wrong_command_line_that_lists_the_known() {
    let e = choose(Some("nonsense")).map(|_| ()).unwrap_err();
    assert!(e.is::<Usage>());
    assert!(e.to_string().contains("core"));
    assert_eq!(choose(Some("core")).unwrap().len(), 1);
}

#[test]
fn a_suite_that_is_apart_is_run_by_name_alone() {
    assert!(choose(None).unwrap().iter().all(|suite| suite.name != "attacks"));
    assert_eq!(choose(Some("attacks")).unwrap().len(), 1);
    let names: Vec<_> = choose(Some("ip")).unwrap().iter().map(|suite| suite.name).collect();
    assert_eq!(names, ["ip", "ip-transfers"]);
    let of = |name| choose(Some(name)).unwrap().iter().map(|suite| suite.name).collect::<Vec<_>>();
    assert_eq!((of("router"), of("router-soak")), (vec!["router"], vec!["router-soak"]));
}

#[test]
fn suite_names_are_unique_and_suites_are_not_empty() {
    let suites: Vec<_> = SUITES.iter().collect();
    for (i, suite) in suites.iter().enumerate() {
        assert!(!suite.cases.is_empty(), "{} has no case", suite.name);
        assert!(suites[..i].iter().all(|other| other.name != suite.name), "{} twice", suite.name);
    }
}

#[test]
fn the_workbench_makes_files_and_leaves_nothing() {
    let bench = Workbench::new(Path::new("/"), Asked::default()).unwrap();
    let file = bench.file("f", 1003).unwrap();
    assert_eq!(std::fs::read(&file).unwrap().len(), 1003);
    drop(bench);
    assert!(!file.exists());
}

#[test]
fn programs_have_a_time_limit_and_their_complaints_are_shown() {
    let bench = Workbench::new(Path::new("/"), Asked::default()).unwrap();
    let limit = Duration::from_secs(20);
    assert_eq!(bench.run(Command::new("echo").arg("a"), limit).unwrap(), "a\n");
    let mut both = Command::new("sh");
    both.args(["-c", "echo a; echo b >&2"]);
    assert_eq!(bench.run_both(&mut both, limit).unwrap(), ("a\n".to_owned(), "b\n".to_owned()));
    let e = bench.run(Command::new("sh").args(["-c", "echo why >&2; exit 3"]), limit).unwrap_err();
    assert!(e.to_string().ends_with("why"), "{e}");
    let e = bench.run(Command::new("sleep").arg("60"), Duration::from_millis(1)).unwrap_err();
    assert!(e.to_string().contains("killed"), "{e}");
}

#[test]
fn the_lines_that_close_a_capture_say_what_was_dropped_whatever_it_is() {
    let closing = "3000 packets captured\n3100 packets seen by the filter\n7 packets dropped for \
                   want of room\n";
    assert_eq!(dump::counted(closing, "captured").unwrap(), 3000);
    assert_eq!(dump::counted(closing, "dropped").unwrap(), 7);
    let e = dump::counted("3000 packets captured\n", "dropped").unwrap_err();
    assert!(e.to_string().contains("no word on packets dropped"), "{e}");
}

#[test]
fn root_is_missing_for_everyone_else() {
    let missing = Need::Root.missing(Path::new("/"));
    assert_eq!(missing.is_none(), process::is_root());
}
