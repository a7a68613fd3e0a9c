//! Gives nonsense to every option of every tool: one sentence, exit code 2, and nothing is begun.
//! The options come from the program's own command line, so that new ones are tested as well.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use clap::builder::ValueParser;
use clap::{Arg, Command, value_parser};

use crate::common::{program, stderr};

/// No valid value of anything: no number in a range, no choice, no address.
const NONSENSE: [&str; 7] =
    ["nonsense", "", "-1", "nan", "inf", "1e999", "99999999999999999999999999"];

/// A tool that runs this long has begun something, and fails the test.
const TIMEOUT: Duration = Duration::from_secs(60);

/// All tools and experiments, by their words.
fn tools(command: &Command, path: &[String], found: &mut Vec<(Vec<String>, Command)>) {
    if command.get_subcommands().next().is_none() {
        found.push((path.to_vec(), command.clone()));
    }
    for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
        tools(part, &[path, &[part.get_name().to_owned()]].concat(), found);
    }
}

/// An empty directory, to find files that a tool leaves.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("room for a directory");
    directory
}

/// Run the tool in a directory; `None` if it does not end.
fn ended(args: &[String], directory: &Path) -> Option<Output> {
    let mut command = program();
    command.args(args).current_dir(directory).env("WIRESPEED_RUNTIME_DIR", directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let begun = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if begun.elapsed() > TIMEOUT {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Some(child.wait_with_output().expect("it is ours"))
}

/// Checks for one sentence on standard error, nothing on standard output, no file left, and one of
/// these exit codes; the violation if there is one.
fn refused(args: &[String], codes: &[i32], directory: &Path) -> Option<String> {
    let wrong = |what: &str| Some(format!("{args:?} {what}"));
    let Some(output) = ended(args, directory) else { return wrong("was begun") };
    let (said, code) = (stderr(&output), output.status.code());
    // After the sentence clap prints the possible values and points to the help.
    let is_one = said.starts_with("error: ") && said.matches("error: ").count() == 1;
    let has_help = said.trim_end().ends_with("'--help'.") || code == Some(1);
    let left = std::fs::read_dir(directory).expect("it is there").count();
    match () {
        () if !code.is_some_and(|code| codes.contains(&code)) => {
            wrong(&format!("exits with {code:?}: {said}"))
        }
        () if !is_one || !has_help || said.contains("panicked") => wrong(&format!("says {said}")),
        () if !output.stdout.is_empty() => wrong("prints something"),
        () if left > 0 => wrong("leaves something behind"),
        () => None,
    }
}

/// An option with a value, as written on a command line.
fn with_value(arg: &Arg, value: &str) -> Vec<String> {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => vec![format!("--{long}={value}")],
        (None, Some(short)) => vec![format!("-{short}{value}")],
        (None, None) => unreachable!("an option has a name"),
    }
}

/// The name of a file, a device or a process: only the system can tell that it does not exist.
fn is_a_name(arg: &Arg) -> bool {
    let own = arg.get_value_parser().type_id();
    let is = |parser: ValueParser| parser.type_id() == own;
    is(value_parser!(PathBuf)) || is(value_parser!(String))
}

#[test]
fn nonsense_is_refused_by_every_option_of_every_tool() {
    let directory = directory("nonsense");
    let (mut found, mut tried, mut wrong) = (Vec::new(), 0, Vec::new());
    tools(&wirespeed_cli::command(), &[], &mut found);
    // Drop-ins say what their models say, as their own tests show.
    let drop_ins = ["pasta", "passt", "pesto", "slirp4netns"];
    found.retain(|(path, _)| !drop_ins.contains(&path[0].as_str()));
    for (path, tool) in &found {
        // ip(8) has this exit code.
        let wrong_line = if path[0] == "ip" { 1 } else { 2 };
        let mut refused = |option: Vec<String>, codes: &[i32]| {
            tried += 1;
            wrong.extend(refused(&[path.clone(), option].concat(), codes, &directory));
        };
        for arg in tool.get_arguments().filter(|arg| !arg.is_positional()) {
            if !arg.get_action().takes_values() {
                // Short flags may be combined, and none is called `=`.
                let value = if arg.get_long().is_some() { "nonsense" } else { "=nonsense" };
                refused(with_value(arg, value), &[wrong_line]);
            } else if is_a_name(arg) {
                refused(with_value(arg, "/nonexistent/nonsense"), &[1, 2]);
            } else {
                NONSENSE.iter().for_each(|value| refused(with_value(arg, value), &[wrong_line]));
            }
        }
        refused(vec!["--no-such-option".to_owned()], &[wrong_line]);
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(found.len() > 10 && tried > 300, "{} tools, {tried} tries", found.len());
}

#[test]
fn nonsense_is_refused_where_an_argument_has_no_name() {
    let directory = directory("unnamed");
    for args in [
        &["nonsense"][..],
        &["ping", "192.0.2.1", "nonsense"],
        &["ping", "192.0.2.1"],
        &["wire", "nonsense", "tap:w0"],
        &["wire", "tap:w0", "tap:"],
        &["wire", "tap:w0", "tap:w0"],
        &["show", "nonsense"],
        &["show", "connections", "nonsense"],
        &["show", "connections", "dport", "=", "nonsense"],
        &["show", "routes", "state", "established"],
        &["show", "tcp", "192.0.2.1"],
        &["lab", "nonsense"],
        &["man", "nonsense"],
        &["man", "lab", "nonsense"],
        &["completions", "nonsense"],
        &["services", "nonsense"],
    ] {
        let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(refused(&args, &[2], &directory), None);
    }
}

#[test]
fn ip_refuses_nonsense_as_ip_does() {
    let directory = directory("ip");
    for args in [
        &["ip", "nonsense"][..],
        &["ip", "", "show"],
        &["ip", "route", "nonsense"],
        &["ip", "neigh", "nonsense"],
        &["ip", "addr", "nonsense"],
        &["ip", "link", "set", "port0", "up"],
        &["ip", "rule", "add", "from", "192.0.2.1", "table", "100"],
        &["ip", "-x", "route"],
        &["ip", "-family"],
    ] {
        let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(refused(&args, &[1], &directory), None);
    }
}
