//! Cells of a command line, the figures of one cell, and the form of document, table and plot.

use clap::{CommandFactory, FromArgMatches, Parser};
use serde_json::Value;
use sim::goodput::{measure, measure_unless};

use super::*;
use crate::{Args, perform};

#[derive(Parser)]
struct Lab {
    #[command(flatten)]
    args: Args,
}

fn args(line: &str) -> Result<Args, String> {
    let words = ["lab", "wan"].into_iter().chain(line.split_whitespace());
    let matches = Lab::command().try_get_matches_from(words).map_err(|e| e.to_string())?;
    Ok(Lab::from_arg_matches(&matches).map_err(|e| e.to_string())?.args)
}

fn cells(line: &str) -> Vec<Cell> {
    let args = args(line).expect("it is understood");
    let options = Options::from_arg_matches(&args.one().matches).expect("it is understood");
    options.choice.cells(args.one().common.quick).expect("they can be run")
}

fn document(line: &str, stopped: &(dyn Fn() -> bool + Sync)) -> Value {
    let args = args(&format!("{line} --json")).expect("it is understood");
    let finished = perform(&args, stopped).expect("it runs");
    serde_json::from_str(&finished.text).expect("one document")
}

#[test]
fn without_a_choice_there_are_all_impairments_and_all_controls() {
    let laws = tcp::cc::Algorithm::ALL.len();
    assert_eq!(cells("").len(), 3 * 6 * laws);
    assert_eq!(cells("--quick").len(), 3 * laws);
}

#[test]
fn a_choice_is_all_combinations_and_nothing_twice() {
    let chosen =
        cells("--rate 10Mbit,20Mbit --delay 5ms --queue-bdp 0.5,1,1 --loss 0,1% --cc cubic");
    assert_eq!(chosen.len(), 2 * 2 * 2);
    let names: Vec<_> = chosen.iter().map(|cell| cell.path.name()).collect();
    assert_eq!(names[0], "10 Mb/s, 10 ms round trip, queue 0.5 BDP (6.25 kB)");
    assert_eq!(chosen[1].impairment.name(), "1 % lost");
    let late = cells("--late 1%:10ms,0:5ms --cc newreno");
    assert_eq!(late.len(), 3 * 2, "on the usual paths");
    assert_eq!(late[0].impairment.name(), "1 % 10 ms late");
    assert_eq!(late[1].impairment.name(), "nothing");
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    for (line, says) in [
        ("--cc vegas", "cubic"),
        ("--rate fast", "number"),
        ("--rate 1", "1kbit to 100Gbit"),
        ("--delay 50", "50ms"),
        ("--loss 0.01", "percent"),
        ("--rate 10mbps", "100Mbit"),
        ("--loss 1% --loss 2%", "multiple times"),
        ("--late 1%", "1%:10ms"),
        ("--queue-bdp -1", "--help"),
        ("--queue-bdp nan", "0.25"),
        ("--loss 300%", "more than 100%"),
        ("--seeds 0", "1..=10000"),
        ("--jobs 0", "1..=256"),
        ("--seconds 0", "1..=3600"),
    ] {
        let error = args(line).expect_err(line);
        assert!(error.contains(says), "{line}: {error}");
    }
    for (line, says) in [
        ("--rate 100Gbit --delay 10s", "--queue-bdp"),
        ("--seeds 10000", "100000 at most"),
        ("--plot a.png", "rsvg-convert"),
    ] {
        let error = perform(&args(line).expect("each word is right"), &|| true).expect_err(line);
        assert!(matches!(&error, Error::Usage(text) if text.contains(says)), "{line}: {error}");
    }
}

#[test]
fn figures_of_linux_stand_beside_the_cells_they_were_taken_on() {
    let find = |line: &str| linux(&cells(line)[0], 60);
    assert_eq!(find("--rate 100Mbit --loss 0 --cc cubic"), Some(0.984));
    assert_eq!(find("--rate 200Mbit --queue-bdp 0.25 --loss 0 --cc newreno"), Some(0.59));
    assert_eq!(find("--rate 100Mbit --late 1%:40ms --cc newreno"), Some(0.47));
    assert_eq!(find("--rate 20Mbit --delay 20ms --queue-bdp 1.5 --flows 4 --loss 0"), Some(0.994));
    let lossy = find("--rate 100Mbit --loss 1% --cc cubic").expect("measured");
    assert!((lossy - 0.01657).abs() < 1e-4, "{lossy}");
    assert_eq!(find("--rate 100Mbit --delay 49ms --loss 0 --cc cubic"), None);
    assert_eq!(linux(&cells("--rate 100Mbit --loss 0 --cc cubic")[0], 30), None);
}

/// CUBIC fills a clean path of 20 Mb/s and 40 ms with a queue of one BDP. A sender that never grew
/// its initial window of ten segments would reach 0.145, and no flow reaches more than 1. With one
/// packet in a hundred lost, RFC 9438's response function (the Reno-friendly region) gives about 15
/// segments a round trip: 0.2 of this path.
#[test]
fn cubic_fills_a_clean_path_and_follows_the_response_function_on_a_lossy_one() {
    let line = "--rate 20Mbit --delay 20ms --loss 0,1% --cc cubic --seconds 30 --seeds 3 --jobs 2";
    let found = document(line, &|| false);
    let share = |row: usize, key: &str| found["rows"][row][key].as_f64().expect("a share");
    assert!((0.93..=1.0).contains(&share(0, "share")), "{}", found["rows"][0]);
    assert!((0.12..=0.4).contains(&share(1, "share")), "{}", found["rows"][1]);
    assert!(share(1, "share_min") < share(1, "share_max"), "three seeds, one result");
    assert!(found["rows"][1]["retransmits"].as_f64() > Some(50.0));
    let queue = found["rows"][0]["queue_bytes_max"].as_u64().expect("bytes");
    assert!((90_000..=100_000).contains(&queue), "a window beyond the path stands in the queue");
}

#[test]
fn the_document_has_the_shape_of_all_experiments() {
    let line = "--rate 10Mbit --delay 5ms --loss 0,1% --cc cubic,newreno --seconds 2 --seeds 2";
    let found = document(line, &|| false);
    for key in ["question", "version", "machine", "settings", "seconds", "units", "notes"] {
        assert!(!found[key].is_null(), "{key}");
    }
    assert_eq!((&found["lab"], &found["interrupted"]), (&"wan".into(), &false.into()));
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(4));
    assert_eq!(found["samples"].as_array().map(Vec::len), Some(8));
    let keys: Vec<_> = COLUMNS.iter().map(|column| column.key).collect();
    for row in found["rows"].as_array().expect("rows") {
        let row = row.as_object().expect("an object");
        assert_eq!(row.len(), keys.len(), "each key once");
        assert!(keys.iter().all(|&key| row.contains_key(key)), "{row:?}");
        assert_eq!(row["seeds"], 2);
    }
    assert_eq!(found["units"]["rate_bps"], "bit/s");
    // The same seeds give the same figures with any number of threads.
    let again = document(&format!("{line} --jobs 3"), &|| false);
    assert_eq!(found["samples"], again["samples"]);
}

#[test]
fn what_is_stopped_keeps_every_cell_and_says_how_many_it_has_not() {
    let found = document("--rate 10Mbit --loss 0 --cc cubic,newreno --seeds 2", &|| true);
    assert_eq!(found["interrupted"], true);
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(2));
    assert!(found["rows"][0]["share"].is_null() && found["rows"][0]["seeds"] == 0);
    assert!(found["notes"].to_string().contains("2 of 2 cells were not run"), "{found}");
}

#[test]
fn looking_whether_to_stop_changes_nothing() {
    let path = cells("--rate 10Mbit --delay 7ms --loss 1% --cc cubic")[0].goodput(5, 3);
    let (whole, looked) = (measure(&path), measure_unless(&path, || false));
    let (whole, looked) = (whole.expect("equal streams"), looked.expect("equal streams"));
    assert_eq!(format!("{whole:?}"), format!("{:?}", looked.expect("nobody stopped it")));
    assert!(measure_unless(&path, || true).expect("nothing was wrong").is_none());
}

#[test]
fn the_table_and_the_plot_say_what_the_document_says() {
    let path = std::env::temp_dir().join(format!("wirespeed-wan-{}.svg", std::process::id()));
    let line = format!(
        "--rate 10Mbit --delay 5ms --loss 0,1% --cc cubic,newreno --seconds 2 --seeds 1 --plot {}",
        path.display()
    );
    let finished = perform(&args(&line).expect("it is understood"), &|| false).expect("it runs");
    let plot = std::fs::read_to_string(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it was there");
    for says in ["10 Mb/s, 10 ms round trip", "1 % lost", "newreno", "2 virtual seconds"] {
        assert!(finished.text.contains(says), "{says}: {}", finished.text);
    }
    assert!(finished.text.lines().all(|line| line.chars().count() <= 100), "{}", finished.text);
    assert!(finished.remarks.iter().any(|remark| remark.contains("wrote")));
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"), "{plot}");
    for says in ["10 Mb/s, 10 ms round trip", "1 % lost", "newreno", "goodput", "wirespeed"] {
        assert!(plot.contains(says), "{says}: {plot}");
    }
    // Table and plot show the median of each cell.
    let found = document(&line.replace("--plot", "--out"), &|| false);
    std::fs::remove_file(&path).expect("the document went there");
    for row in found["rows"].as_array().expect("rows") {
        let share = format!("{:.3}", row["share"].as_f64().expect("a share"));
        assert!(finished.text.contains(&share) && plot.contains(&share), "{share}: {plot}");
    }
}
