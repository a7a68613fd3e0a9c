//! Pairings of a command line, starts of flows, goodput, and how our flows share a queue.

use base::Duration;
use clap::{CommandFactory, FromArgMatches, Parser};
use serde_json::Value;

use super::*;
use crate::{Args, perform};

#[derive(Parser)]
struct Lab {
    #[command(flatten)]
    args: Args,
}

fn args(line: &str) -> Result<Args, String> {
    let words = ["lab", "fair"].into_iter().chain(line.split_whitespace());
    let matches = Lab::command().try_get_matches_from(words).map_err(|e| e.to_string())?;
    Ok(Lab::from_arg_matches(&matches).map_err(|e| e.to_string())?.args)
}

fn options(line: &str) -> Options {
    Options::from_arg_matches(&args(line).expect(line).one().matches).expect(line)
}

fn pairings(line: &str) -> Vec<String> {
    let args = args(line).expect(line);
    options(line).choice.pairings(args.one().common.quick).iter().map(Pairing::name).collect()
}

fn document(line: &str) -> Value {
    let args = args(&format!("{line} --json")).expect(line);
    let finished = perform(&args, &|| false).expect(line);
    serde_json::from_str(&finished.text).expect("one document")
}

#[test]
fn pairs_are_those_of_the_command_line_or_all_that_say_something() {
    assert_eq!(pairings("").len(), 6);
    assert!(pairings("").iter().all(|name| !name.contains("linux")));
    let chosen = pairings("--pairs cubic+linux-cubic,bbr+bbr+newreno");
    assert_eq!(chosen, ["cubic + linux-cubic", "bbr + bbr + newreno"]);
    #[cfg(target_os = "linux")]
    {
        assert_eq!(pairings("--peer kernel").len(), 7);
        assert!(pairings("--peer kernel").iter().all(|name| name.contains("linux")));
        assert_eq!(pairings("--peer kernel --quick").len(), 2);
        args("--peer kernel --pairs cubic+bbr").expect_err("one or the other");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    for (line, says) in [
        ("--pairs cubic", "as cubic+bbr"),
        ("--pairs cubic+vegas", "cubic"),
        ("--pairs cubic+linux-vegas", "linux-reno"),
        ("--pairs cubic+cubic+cubic+cubic+cubic+cubic+cubic+cubic+cubic", "8 at most"),
        ("--stagger 10", "10"),
        ("--stagger 1000s", "at most 600s"),
        ("--rate 1", "1kbit to 100Gbit"),
        ("--delay 11s", "at most 10s"),
        ("--queue-bdp x", "bandwidth-delay"),
        ("--seconds 0", "1..=3600"),
    ] {
        let error = args(line).expect_err(line);
        assert!(error.contains(says), "{line}: {error}");
    }
}

#[test]
fn flows_begin_one_after_the_other_and_within_a_round_trip_of_their_time() {
    let options = options("--pairs cubic+bbr+newreno --stagger 10s");
    let pairing = &options.choice.pairings(false)[0];
    let contest = options.choice.contest(pairing, 60, 7);
    let rtt = Duration::from_millis(40);
    for (start, at) in contest.starts().iter().zip([0, 10, 20].map(Duration::from_secs)) {
        assert!(*start >= at && *start <= at + rtt, "{start:?}");
    }
    assert_eq!(contest.starts(), contest.starts(), "the same seed");
    assert_ne!(contest.starts(), options.choice.contest(pairing, 60, 8).starts());
    assert_eq!(contest.from(), Duration::from_secs(20));
    let looks: Vec<_> = contest.looks().collect();
    assert_eq!(looks.last(), Some(&Duration::from_secs(80)));
    assert!(looks.contains(&Duration::from_secs(20)) && looks.is_sorted());
}

#[test]
fn goodput_counts_from_when_the_last_flow_begins() {
    let options = options("--pairs cubic+cubic --stagger 2s");
    let contest = options.choice.contest(&options.choice.pairings(false)[0], 2, 1);
    let looks = [
        (0.0, vec![0, 0]),
        (2.0, vec![1_000_000, 0]),
        (3.0, vec![1_500_000, 125_000]),
        (4.0, vec![2_000_000, 500_000]),
    ];
    let outcome = contest.outcome(&looks, link::Counts::default());
    assert_eq!(outcome.flows_bps, [4e6, 2e6]);
    assert_eq!(outcome.rates[1], (3.0, vec![4e6, 1e6]));
    assert!((outcome.ratio() - 2.0).abs() < 1e-9);
    let turned = Outcome { flows_bps: vec![2e6, 4e6], ..outcome };
    assert!((turned.imbalance() - 2.0).abs() < 1e-9);
}

#[test]
fn ours_share_a_queue_with_ours() {
    let found = document("--pairs cubic+cubic,bbr+bbr --seconds 40 --seeds 2 --jobs 2");
    for row in found["rows"].as_array().expect("rows") {
        assert_eq!(row["seeds"], 2);
        let imbalance = row["imbalance"].as_f64().expect("it was measured");
        assert!((1.0..2.0).contains(&imbalance), "{row}");
        assert!(row["share"].as_f64().is_some_and(|share| share > 0.9), "{row}");
    }
    let rates = found["samples"][0]["rates"].as_array().expect("rates over time");
    assert_eq!(rates.len(), 80, "two a second");
}

#[test]
fn the_picture_has_a_strip_for_each_pairing() {
    let options = options("--pairs cubic+newreno,bbr+bbr");
    let pairings = options.choice.pairings(false);
    let picture = lines(&options.choice, &pairings, &[]);
    assert_eq!(picture.strips.len(), 2);
    let names: Vec<_> = picture.strips[0].series.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["cubic", "newreno"]);
}
