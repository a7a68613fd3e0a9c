//! Tests of the harness and the report: their shapes and rules, not measured times.

use std::cell::Cell;

use anyhow::{Result, bail};

use crate::harness::{Bench, Better, Figure, Row, Spec, best_of, paired};
use crate::measure::{Measurement, median, pattern};
use crate::report::{Machine, Report, short, wrapped};
use crate::{build, core, devices, ip, outside, tcp};

fn spec(better: Better, run: fn(&Bench) -> Result<Figure>) -> Spec {
    Spec { case: "a case", better, must: 2.0, aim: 3.0, unit: "x", run }
}

fn figure(value: f64) -> Result<Figure> {
    Ok(Figure { value, samples: vec![value], note: "how".into() })
}

/// Measures a row in a thread of its own, because measuring pins the thread.
fn row(better: Better, run: fn(&Bench) -> Result<Figure>) -> Row {
    let measure = move || Bench::new(true).unwrap().row(&spec(better, run));
    std::thread::spawn(measure).join().unwrap()
}

#[test]
fn a_row_that_cannot_be_measured_is_null_with_its_reason() {
    let row = row(Better::Higher, |_| bail!("not built yet"));
    assert_eq!(row.value, None);
    assert_eq!(row.note, "not built yet");
    assert!(!row.ok && !row.missed());
}

#[test]
fn must_is_a_floor_or_a_ceiling() {
    assert!(row(Better::Higher, |_| figure(2.0)).ok);
    assert!(row(Better::Higher, |_| figure(1.9)).missed());
    assert!(row(Better::Lower, |_| figure(2.0)).ok);
    assert!(row(Better::Lower, |_| figure(2.1)).missed());
}

#[test]
fn infinity_is_not_a_value() {
    assert_eq!(row(Better::Higher, |_| figure(f64::INFINITY)).value, None);
}

#[test]
fn the_report_has_the_shape_of_section_7() {
    let rows = vec![row(Better::Higher, |_| figure(2.5)), row(Better::Lower, |_| bail!("no"))];
    let report = Report { bench: "core", version: "0", machine: Machine::now(), rows };
    let mut text = Vec::new();
    report.json(&mut text).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["bench"], "core");
    assert!(json["machine"]["load_average"].is_array());
    let first = &json["rows"][0];
    for key in ["case", "value", "unit", "must", "aim", "better", "ok", "samples", "note"] {
        assert!(!first[key].is_null(), "{key} is missing");
    }
    assert_eq!(first["better"], "higher");
    let second = json["rows"][1].as_object().unwrap();
    assert!(second["value"].is_null() && second.contains_key("value"));
    assert_eq!(second["ok"], false);
}

#[test]
fn the_table_has_every_row_and_its_verdict() {
    let rows = vec![
        row(Better::Higher, |_| figure(2.5)),
        row(Better::Higher, |_| figure(1.0)),
        row(Better::Higher, |_| bail!("go not found")),
    ];
    let report = Report { bench: "core", version: "0", machine: Machine::now(), rows };
    let mut text = Vec::new();
    report.table(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in ["ok\n", "MISS\n", "not measured\n", "go not found", "2 of 3 rows measured"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}

#[test]
fn every_bench_has_the_rows_of_its_table() {
    for (rows, count) in [
        (build::ROWS, 8),
        (core::ROWS, 16),
        (outside::ROWS, 11),
        (tcp::ROWS, 22),
        (devices::ROWS, 15),
        (ip::ROWS, 10),
    ] {
        assert_eq!(rows.len(), count);
        for spec in rows {
            assert_eq!(spec.case.trim(), spec.case);
            assert!(!spec.case.contains("  "), "{}", spec.case);
            assert_eq!(rows.iter().filter(|other| other.case == spec.case).count(), 1);
            let is_sensible = match spec.better {
                Better::Higher => spec.aim >= spec.must,
                Better::Lower => spec.aim <= spec.must,
            };
            assert!(is_sensible, "{}", spec.case);
        }
    }
}

#[test]
fn a_row_about_a_law_that_the_stack_lacks_is_not_run() {
    let row = row(Better::Higher, |b| tcp::paths::share(b, &tcp::paths::path(1, 1, 1.0, "vegas")));
    assert!(row.value.is_none() && !row.ok, "{row:?}");
    assert!(row.note.starts_with("not run: no such law"), "{}", row.note);
}

#[test]
fn pairs_alternate_who_goes_first() {
    let order = std::cell::RefCell::new(String::new());
    let log = |name: char, value: f64| {
        order.borrow_mut().push(name);
        Ok(value)
    };
    let samples = paired(3, || log('a', 6.0), || log('b', 2.0)).unwrap();
    assert_eq!(samples, [3.0; 3]);
    assert_eq!(*order.borrow(), "abbaab");
    assert!(paired(1, || Ok(1.0), || Ok(0.0)).is_err());
}

#[test]
fn best_of_passes_over_what_fails() {
    let tried = Cell::new(0);
    let speed = |n: i32| {
        tried.set(tried.get() + 1);
        if n == 9 { bail!("no nines") } else { Ok(f64::from(n)) }
    };
    assert_eq!(best_of(&[1, 9, 3, 2], 2, Better::Higher, speed).unwrap(), 3);
    assert_eq!(tried.get(), 8);
    assert_eq!(best_of(&[2, 1, 3], 1, Better::Lower, speed).unwrap(), 1);
    assert!(best_of(&[9], 1, Better::Higher, speed).unwrap_err().to_string().contains("no nines"));
}

#[test]
fn small_helpers() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0]), 2.5);
    assert_eq!(short(1500.0), "1500");
    assert_eq!(short(0.95), "0.95");
    assert_eq!(short(2.5), "2.5");
    assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    assert_eq!(wrapped("", 7), [""]);
    assert_eq!(pattern(13).len(), 13);
    let nothing = Measurement::default();
    assert!(nothing.gbit_per_cpu_s().is_err() && nothing.units_per_cpu_s().is_err());
}

/// A peer that is compiled without optimisation would make our stack look better. The peers are
/// `smoltcp` with its dependencies, and the crates with which the rows about the kernel make system
/// calls.
#[test]
fn peers_are_optimised_as_their_users_build_them() {
    const PEERS: [&str; 8] = [
        "byteorder",
        "hash32",
        "heapless",
        "managed",
        "nix",
        "smoltcp",
        "socket2",
        "stable_deref_trait",
    ];
    let manifest = include_str!("../../Cargo.toml");
    for peer in PEERS {
        let line = format!("[profile.release.package.{peer}]\nopt-level = 3\n");
        assert!(manifest.contains(&line), "{peer} is not optimised in the workspace's Cargo.toml");
    }
}
