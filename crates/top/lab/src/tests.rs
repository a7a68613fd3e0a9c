//! Common properties of all experiments: the envelope, rows that exist even if they were not
//! measured, and options that are refused if they would change nothing.

use clap::{CommandFactory, FromArgMatches, Parser};
use serde_json::Value;

use super::*;

#[derive(Parser)]
struct Lab {
    #[command(flatten)]
    args: Args,
}

fn args(line: &str) -> Args {
    let words = ["lab"].into_iter().chain(line.split_whitespace());
    let matches = Lab::command().try_get_matches_from(words).expect(line);
    Lab::from_arg_matches(&matches).expect(line).args
}

/// The document of a run that is stopped before anything is measured.
fn stopped(line: &str) -> Value {
    let finished = perform(&args(&format!("{line} --json")), &|| true).expect(line);
    serde_json::from_str(&finished.text).expect("one document")
}

#[test]
fn a_measurement_of_a_minute_is_stopped_in_its_middle() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 100;
    let finished = perform(&args("pps --seconds 60 --json"), &stop).expect("pps");
    assert!(finished.interrupted);
    let found: Value = serde_json::from_str(&finished.text).expect("one document");
    assert!(found["rows"].as_array().is_some_and(|rows| rows.len() == 12), "{found}");
}

#[test]
fn every_experiment_has_the_envelope_and_its_rows_though_nothing_was_measured() {
    let envelope: Vec<&str> = "lab question version machine settings seconds interrupted units \
                               rows fits samples shows notes"
        .split(' ')
        .collect();
    let rungs = wire::checksum::Ladder::available().count();
    let cases = [
        ("wan --rate 10Mbit --loss 0 --cc cubic,newreno", 2, "share", 0),
        ("fair --pairs cubic+bbr,bbr+bbr", 2, "ratio", 0),
        ("mitigation", 6 + 5 + 4 * 7, "time_ms", 0),
        ("tap --bytes 10000", 6 * 12, "ns", 6),
        ("pps", 2 * 6, "pps", 0),
        ("ablate", 8 + 28, "effect", 0),
        ("budget", 3 * 15, "ns", 0),
        ("livelock", 8, "delivered_pps", 0),
        ("forward", 4 * 10, "ns", 0),
        ("storm", 4, "per_original", 0),
        ("telnet", 4, "packets", 0),
        ("elbow", 4 + 1 + 3 * 2, "worst", 0),
        ("ethernet1988", 16 + 1 + 3 * 6 + 2, "kb_per_s", 0),
        ("cray", 2 + 2 * (rungs + 1) + 2 * 6 + 2 * 3, "mbps", 0),
        ("explain", crate::explained::SITUATIONS.len(), "share", 0),
        ("knee", 13 + 11 + 8 + 6 + 11, "gbps", 5),
    ];
    assert_eq!(cases.len(), EXPERIMENTS.len(), "an experiment is missing here");
    for (line, rows, key, fits) in cases {
        let found = stopped(line);
        let document = found.as_object().expect("an object");
        assert!(envelope.iter().all(|&key| document.contains_key(key)), "{line}: {found}");
        assert_eq!(document.len(), envelope.len(), "{line}: {found}");
        assert_eq!(found["interrupted"], true, "{line}");
        assert_eq!(found["fits"].as_array().map(Vec::len), Some(fits), "{line}");
        let list = found["rows"].as_array().expect("rows");
        assert_eq!(list.len(), rows, "{line}");
        for row in list {
            let row = row.as_object().expect("an object");
            assert_eq!(row.get(key), Some(&Value::Null), "{line}: {row:?}");
        }
        let said = found["notes"].to_string();
        assert!(said.contains("were not run to their end"), "{line}: {said}");
    }
}

#[test]
fn an_option_that_would_change_nothing_is_refused_with_who_takes_it() {
    for (line, says) in [
        ("tap --seeds 3", "'lab tap' has no use for --seeds; experiments that take it: wan"),
        ("mitigation --seeds 1", "take it: wan, fair"),
        ("pps --first-seed 1", "--first-seed; experiments that take it: wan, fair, mitigation"),
        ("forward --seeds 2", "--seeds; experiments that take it: wan, fair"),
        ("livelock --jobs 2", "--jobs; experiments that take it: wan, fair, mitigation"),
    ] {
        let error = perform(&args(line), &|| true).expect_err(line);
        assert!(matches!(&error, Error::Usage(text) if text.contains(says)), "{line}: {error}");
    }
    for line in ["mitigation --first-seed 7 --jobs 1", "wan --seeds 2 --first-seed 7 --jobs 1"] {
        stopped(line);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn pairs_have_no_picture_and_say_so_before_they_are_run() {
    let error = perform(&args("wan --peer kernel --plot /dev/null"), &|| true);
    let error = error.expect_err("there is no picture");
    assert!(matches!(&error, Error::Usage(text) if text.contains("--plot")), "{error}");
}

#[test]
fn help_offers_what_an_experiment_takes_and_nothing_else() {
    for experiment in EXPERIMENTS {
        let mut lab = Lab::command();
        let command = lab.find_subcommand_mut(experiment.name).expect("it is there");
        let help = command.render_long_help().to_string();
        for option in ["--quick", "--json", "--out", "--plot"] {
            assert!(help.contains(option), "{}: {help}", experiment.name);
        }
        for id in options::SOME {
            let option = format!("--{} ", id.replace('_', "-"));
            let takes = experiment.takes.contains(&id);
            assert_eq!(help.contains(&option), takes, "{} {option}: {help}", experiment.name);
        }
        assert!(experiment.takes.iter().all(|id| options::SOME.contains(id)), "no such option");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_pause_that_a_queue_swallows_does_not_void_a_run() {
    let path = |mbps: u64, delay_ms, queue_bytes| {
        let delay = base::Duration::from_millis(delay_ms);
        let mut path = sim::goodput::Goodput::new(mbps * 1_000_000, delay);
        path.queue_bytes = queue_bytes;
        path
    };
    for (mbps, delay_ms, queue_bytes, longest_us) in [
        (100, 50, 1_250_000, 25_000),
        (200, 50, 625_000, 12_500),
        (20, 20, 150_000, 10_000),
        (100, 50, 0, 0),
        (1, 50, usize::MAX, 25_000),
    ] {
        let longest = crate::real::longest_pause(&path(mbps, delay_ms, queue_bytes));
        assert_eq!(longest.as_micros(), longest_us, "{mbps} Mb/s, {queue_bytes} bytes");
    }
}
