//! `wirespeed lab` as users run it: exit codes, files that cannot be written, Ctrl-C.

use serde_json::Value;

use crate::common::{code, file, program, run, stderr};

const ONE: [&str; 10] =
    ["lab", "wan", "--rate", "10Mbit", "--delay", "5ms", "--loss", "1%", "--cc", "cubic"];

/// The one document, which has the envelope of all experiments.
fn document(output: &std::process::Output) -> Value {
    let found: Value = serde_json::from_slice(&output.stdout).expect("one document");
    for key in
        ["lab", "version", "machine", "settings", "rows", "fits", "samples", "shows", "notes"]
    {
        assert!(!found[key].is_null(), "no {key}: {found}");
    }
    found
}

fn one(more: &[&str]) -> std::process::Output {
    let args: Vec<&str> =
        ONE.iter().chain(&["--seconds", "2", "--seeds", "2"]).chain(more).copied().collect();
    run(&args)
}

#[test]
fn a_bad_command_line_says_what_to_do_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["lab"], "wan"),
        (&["lab", "moon"], "--help"),
        (&["lab", "wan", "--cc", "vegas"], "cubic"),
        (&["lab", "wan", "--late", "1%"], "1%:10ms"),
        (&["lab", "wan", "--plot", "x.png"], "rsvg-convert"),
        (&["lab", "wan", "--rate", "100Gbit", "--delay", "10s"], "--queue-bdp"),
        (&["lab", "wan", "--warp"], "--help"),
        (&["lab", "fair", "--pairs", "cubic"], "as cubic+bbr"),
        (&["lab", "fair", "--pairs", "linux-vegas+cubic"], "linux-reno"),
        (&["lab", "tap", "--seeds", "3"], "no use for --seeds; experiments that take it: wan"),
        (&["lab", "mitigation", "--seeds", "3"], "take it: wan"),
        (&["lab", "pps", "--first-seed", "3"], "take it: wan, fair, mitigation"),
        (&["lab", "forward", "--ip", "5"], "4,6"),
        (&["lab", "forward", "--routes", "2M"], "as 1, 10k or 1M"),
        (&["lab", "forward", "--over", "mem", "--seconds", "0"], "0.01 to 60"),
        (&["lab", "budget", "--seconds", "9"], "0.02 to 5"),
        (&["lab", "budget", "--hz", "1"], "10 to 20000"),
        (&["lab", "livelock", "--jobs", "1"], "take it: wan, fair, mitigation"),
        (&["lab", "knee", "--over", "write", "--apply"], "add unit to --over"),
        (&["lab", "knee", "--seconds", "0"], "0.005 to 60"),
        (&["lab", "cray", "--seconds", "nan"], "0.01 to 60"),
        (&["lab", "ethernet1988", "--buffer", "1000"], "3072"),
    ];
    for &(args, says) in cases {
        let output = run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn one_cell_gives_a_table_or_one_document() {
    let table = one(&[]);
    assert_eq!(code(&table), 0, "{}", stderr(&table));
    assert_eq!(stderr(&table), "", "neither bar nor colours without a terminal");
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.contains("1 % lost") && text.contains("cubic"), "{text}");
    let found = document(&one(&["--json"]));
    assert_eq!(found["lab"], "wan");
    let share = format!("{:.3}", found["rows"][0]["share"].as_f64().expect("a share"));
    assert!(text.contains(&share), "{share}: {text}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_measured() {
    for (path, says) in [
        ("/does/not/exist/x.svg", "mkdir -p"),
        (concat!(env!("CARGO_TARGET_TMPDIR"), "/lab-folder.svg"), "folder"),
    ] {
        if path.contains("lab-folder") {
            std::fs::create_dir_all(path).expect("the target folder can be written");
        }
        for option in ["--plot", "--out"] {
            // If the experiment ran first, this would take hours.
            let output = run(&["lab", "wan", "--seconds", "3600", "--seeds", "50", option, path]);
            assert_eq!(code(&output), 1, "{}", stderr(&output));
            assert!(stderr(&output).contains(path), "{}", stderr(&output));
            assert!(stderr(&output).contains(says), "{}", stderr(&output));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_and_the_table_is_there_nevertheless() {
    for option in ["--plot", "--out"] {
        let output = one(&[option, "/dev/full"]);
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains("df -h"), "{}", stderr(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 % lost"));
    }
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = program().args(ONE).args(["--seconds", "1"]).stdout(full).output();
    let output = output.expect("it starts");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("standard output"), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_at_once_with_what_there_is_and_130() {
    use std::io::Read;
    use std::process::Stdio;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process};

    let (plot, _) = file("lab-stopped.svg", 0);
    let (out, _) = file("lab-stopped.json", 0);
    // One seed takes a moment, all of them many minutes.
    let mut child = program()
        .args(ONE)
        .args(["--seeds", "10000", "--seconds", "1", "--json"])
        .arg("--plot")
        .arg(&plot)
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    std::thread::sleep(Duration::from_secs(4));
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{said}");
    let found: Value = serde_json::from_str(&text).expect("the document is whole");
    assert_eq!(found["interrupted"], true);
    let seeds = found["rows"][0]["seeds"].as_u64();
    assert!(Some(0) < seeds && seeds < Some(10_000), "{seeds:?} of the seeds were run");
    assert!(said.contains("stopped"), "{said}");
    assert_eq!(std::fs::read_to_string(&out).expect("written"), text);
    let picture = std::fs::read_to_string(&plot).expect("written");
    assert!(picture.contains("stopped before its end"), "{picture}");
}

#[test]
fn mitigation_halves_the_interrupts_with_each_level_and_shows_no_step() {
    let plot = concat!(env!("CARGO_TARGET_TMPDIR"), "/mitigation.svg");
    let asked = ["lab", "mitigation", "--segments", "4000", "--json", "--plot", plot];
    let output = run(&asked);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found = document(&output);
    let bulk: Vec<f64> = found["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row["segments"] == 4000)
        .map(|row| row["interrupts_hz"].as_f64().expect("a rate"))
        .collect();
    assert_eq!(bulk.len(), 6);
    assert!(bulk.windows(2).all(|two| two[1] < 0.7 * two[0]), "{bulk:?}");
    let said = found["shows"].to_string();
    assert!(said.contains("No step"), "{said}");
    let svg = std::fs::read_to_string(plot).expect("a plot");
    assert!(svg.contains("level 5: 32 segments"));
}

fn a_line_is_within_its_intervals(line: &Value) {
    for (value, interval) in [
        ("intercept_ns", "intercept_interval_ns"),
        ("slope_ns_per_byte", "slope_interval_ns_per_byte"),
    ] {
        let number = |value: &Value| value.as_f64().expect("a number");
        let ends = &line[interval];
        let interval = number(&ends[0])..=number(&ends[1]);
        assert!(interval.contains(&number(&line[value])), "{line}");
    }
}

/// Times depend on the machine, so only the presence of rows and notes is checked.
#[test]
fn experiments_with_real_time_have_all_rows_and_say_what_they_mean() {
    let cases: [(&[&str], usize, usize, &str); 4] = [
        (&["tap", "--bytes", "10000"], 12 * 6, 6, "above a copy alone"),
        (&["pps", "--seconds", "0.01"], 6 * 2, 0, "Two stacks on one thread"),
        (&["livelock"], 8, 0, "of its peak"),
        (&["forward", "--over", "mem", "--seconds", "0.01"], 9, 0, "In memory our router takes"),
    ];
    for (args, rows, fits, note) in cases {
        let plot = format!("{}/lab-{}.svg", env!("CARGO_TARGET_TMPDIR"), args[0]);
        let asked = [&["lab"], args, &["--quick", "--json", "--plot", &plot]].concat();
        let output = run(&asked);
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
        let found = document(&output);
        let fitted = found["fits"].as_array().expect("fits");
        assert_eq!(fitted.len(), fits, "{args:?}");
        for (way, fit) in fitted.iter().enumerate() {
            a_line_is_within_its_intervals(&fit["line"]);
            match way {
                0 => assert!(fit["above_copy"].is_null(), "a copy beside itself: {fit}"),
                _ => a_line_is_within_its_intervals(&fit["above_copy"]),
            }
        }
        assert_eq!(found["rows"].as_array().expect("rows").len(), rows, "{args:?}");
        let said = format!("{}{}", found["shows"], found["notes"]);
        assert!(said.contains(note), "{args:?}: {said}");
        assert!(std::fs::read_to_string(&plot).expect("a plot").contains("wirespeed lab"));
    }
    for seconds in ["0", "-1", "nan", "1e9"] {
        let output = run(&["lab", "pps", "--quick", "--seconds", seconds]);
        assert_eq!(code(&output), 2, "{seconds}: {}", stderr(&output));
    }
}

/// The unit that is stored is the one that a transfer uses; a file that cannot be used is reported
/// and changes nothing.
#[test]
fn the_unit_of_a_machine_is_used_and_a_bad_file_is_not() {
    let home = std::env::temp_dir().join(format!("wirespeed-unit-{}", std::process::id()));
    let folder = home.join("wirespeed");
    std::fs::create_dir_all(&folder).expect("a directory");
    let ttcp = |more: &[&str]| {
        let args = [&["ttcp", "--json", "--bytes", "1M"], more].concat();
        let output = program().args(args).env("XDG_CONFIG_HOME", &home).output().expect("it runs");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let found: Value = serde_json::from_slice(&output.stdout).expect("one document");
        (found["settings"].clone(), stderr(&output))
    };
    let (settings, said) = ttcp(&[]);
    assert_eq!(settings["write_unit_bytes"], 46 * 1024);
    assert_eq!((settings["write_unit_from"].as_str(), &*said), (Some("default"), ""));

    let path = folder.join("units.toml");
    let cpu = ::lab::Machine::now().cpu_model;
    let text = format!(
        "[write]\nunit_bytes = 8192\nknee_bytes = 7000.0\nknee_interval_bytes = [6000.0, 8000.0]\n\
         [machine]\ncpu_model = {cpu:?}\nversion = \"1\"\n"
    );
    std::fs::write(&path, &text).expect("a file");
    let (settings, said) = ttcp(&[]);
    assert_eq!((&settings["write_unit_bytes"], &*said), (&Value::from(8192), ""));
    assert_eq!(settings["write_unit_from"].as_str(), path.to_str());
    let (settings, _) = ttcp(&["--switch", "write-units=off"]);
    assert!(settings["write_unit_bytes"].is_null());

    std::fs::write(&path, text.replace("8192", "8192000")).expect("a file");
    let (settings, said) = ttcp(&[]);
    assert_eq!(settings["write_unit_bytes"], 46 * 1024);
    assert!(said.contains("lab knee --apply") && said.contains("8192000"), "{said}");
    std::fs::remove_dir_all(&home).expect("it was there");
}

/// Two rounds support no conclusion, whatever the machine: nothing is stored, and the tool says so.
#[test]
fn what_the_samples_do_not_support_is_not_stored() {
    let home = std::env::temp_dir().join(format!("wirespeed-knee-{}", std::process::id()));
    let args = [
        "lab",
        "knee",
        "--over",
        "unit",
        "--rounds",
        "2",
        "--seconds",
        "0.005",
        "--json",
        "--apply",
    ];
    let output = program().args(args).env("XDG_CONFIG_HOME", &home).output().expect("it runs");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found = document(&output);
    assert!(found["settings"]["applied_unit_bytes"].is_null(), "{found}");
    assert!(found["notes"].to_string().contains("Nothing is stored"), "{found}");
    assert!(!home.exists(), "it made a file");
    // A place that cannot be written to is reported before anything is measured.
    std::fs::write(&home, "a file").expect("room");
    let output = program().args(args).env("XDG_CONFIG_HOME", &home).output().expect("it runs");
    std::fs::remove_file(&home).expect("it was there");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("Set XDG_CONFIG_HOME"), "{}", stderr(&output));
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}
