use super::*;

const FILE: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 7\n\
cmd:  ./a b=c: d 1000\npart: 1\n\n\ndesc: I1 cache: \n\npositions: line\nevents: Ir\n\
summary: 1000\n\n\nob=(1) /bin/a\nfl=(1) a.rs\nfn=(1) a::main\n16 100\ncfn=(2) a::bytepass_copy\n\
calls=3 0\n18 600\ncfn=(3) a::other\ncalls=1 0\n+2 300\n\nfn=(2)\n20 350\nfi=(9) inlined.rs\n\
* 50\ncfn=(4) memcpy\ncalls=3 0\n+3 150\ncfn=(5) a::bytepass_sum\ncalls=3 0\n-1 50\n\n\
fn=(5)\n30 50\n\nfn=(3)\n40 300\n\nfn=(4)\n50 150\n\ntotals: 1000\n";

#[test]
fn byte_passes_are_inclusive_and_counted_once() {
    // copy: 350 + 50 of its own and 150 in memcpy; sum: 50, not again as copy's callee.
    let counts = parse(FILE).unwrap();
    assert_eq!(counts, Counts { total: 1000, byte_passes: 600 });
}

#[test]
fn a_file_without_a_total_or_with_other_events_is_an_error() {
    assert!(parse("events: Ir\nfn=(1) a\n1 2\n").is_err());
    assert!(parse("events: Ir Dr\nsummary: 1 2\n").is_err());
    assert!(parse("events: Ir\nfn=(1)\nsummary: 1\n").is_err());
}

#[test]
fn set_up_cancels_out_and_byte_passes_are_apart() {
    let counts = |units: u64| Counts { total: 5_000 + units * 400, byte_passes: units * 150 };
    let rows = rows("segment", counts(1_000), counts(3_000), 2_000);
    let seen: Vec<_> = rows.iter().map(|r| (r.case.as_str(), r.instructions)).collect();
    assert_eq!(seen, [("segment", 250.0), ("segment, byte passes included", 400.0)]);
}

#[test]
fn a_case_without_byte_passes_is_one_row() {
    let counts = |units: u64| Counts { total: 7 + units * 3, byte_passes: 0 };
    assert_eq!(rows("a", counts(1_000), counts(3_000), 2_000).len(), 1);
}

fn row(case: &str, instructions: f64) -> Row {
    Row { case: case.to_owned(), instructions }
}

#[test]
fn one_percent_either_way_is_let_pass_and_more_is_not() {
    let baseline = [row("a", 300.0)];
    for near in [297.0, 300.0, 303.0] {
        assert!(compare(&baseline, &[row("a", near)]).is_empty(), "{near}");
    }
    for far in [296.9, 303.1] {
        assert_eq!(compare(&baseline, &[row("a", far)]).len(), 1, "{far}");
    }
}

#[test]
fn cases_that_come_and_go_are_told() {
    let moved = compare(&[row("a", 1.0)], &[row("b", 1.0)]);
    assert_eq!(moved.len(), 2);
    assert!(moved[0].contains("not in the baseline") && moved[1].contains("no longer counted"));
}

#[test]
fn a_blessed_baseline_reads_back_and_then_passes() {
    let name = format!("wirespeed-baseline-{}.json", std::process::id());
    let folder = std::env::temp_dir();
    let rows = [row("a", 300.0), row("b", 2.5)];
    assert_eq!(check(&folder, &name, &rows, false).unwrap(), 1);
    assert_eq!(check(&folder, &name, &rows, true).unwrap(), 0);
    assert_eq!(check(&folder, &name, &rows, false).unwrap(), 0);
    std::fs::remove_file(folder.join(name)).unwrap();
}
