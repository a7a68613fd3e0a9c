//! The program `rpc-board`: notices are pinned and read over TCP and UDP.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use testbed::Running;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rpc-board");

fn run(at: &str, words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(words).args(["--at", at]).output().expect("it starts")
}

#[test]
fn notices_are_pinned_and_read_over_tcp_and_udp() {
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--at", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut board = Running(serve.spawn().expect("it starts"));
    let mut first = String::new();
    let printed = board.0.stdout.take().expect("it is piped");
    BufReader::new(printed).read_line(&mut first).expect("a line");
    let at = first.trim().rsplit(' ').next().expect("an address");
    for (words, expected) in [
        (&["pin", "back at noon", "--by", "cook"][..], "1 notices\n"),
        (&["pin", "lost: one sock", "--udp"], "2 notices\n"),
        (&["read"], "cook: back at noon\nsomebody: lost: one sock\n"),
        (&["read", "--udp"], "cook: back at noon\nsomebody: lost: one sock\n"),
    ] {
        let output = run(at, words);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{words:?} {output:?}");
    }
    let long = "x".repeat(201);
    let refused = run(at, &["pin", &long]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot decode"), "{refused:?}");
}
