//! Standard input and output of a transfer, in the forms that shells and other programs pass.

use testbed::{Need, Running};

use crate::cases::{Case, DEVICE, sink};
use crate::fixture::Fixture;

pub(crate) const CASES: &[Case] = &[
    ("standard_input_goes_out_whole_from_a_file_a_pipe_and_a_socket", &[Need::SOCAT], input),
    ("standard_output_gets_all_and_keeps_what_was_there", &[Need::SOCAT], output),
    ("a_full_disk_ends_it_with_what_to_do", &[Need::SOCAT], full),
    ("a_reader_that_goes_away_ends_it_with_a_sentence", &[Need::SOCAT], reader),
];

const TOOL: &str = env!("CARGO_BIN_EXE_wirespeed");

/// socat sends the file `in`, as soon as it can connect.
fn source(fixture: &Fixture) -> Running {
    fixture.start("socat -u OPEN:in TCP4:10.9.0.2:5001,retry=50,interval=0.2")
}

fn input(fixture: &Fixture) {
    let sum = fixture.file("in", 3_000_001);
    let tool = format!("{TOOL} ttcp -t 10.9.0.1 {DEVICE}");
    let script = format!("#!/bin/sh\nexec {tool}\n");
    std::fs::write(fixture.folder.join("tool.sh"), script).expect("room on the disk");
    for words in [
        format!("timeout 60 {tool} < in"),
        format!("timeout 60 sh -c 'cat in | {tool}'"),
        // Here input and output are one socket, which cannot be opened by path.
        "timeout 60 socat -u OPEN:in EXEC:'sh tool.sh'".to_owned(),
    ] {
        let mut socat = sink(fixture, 4);
        let (code, out, err) = fixture.run(&words);
        assert!(code == 0 && out.is_empty(), "{words}: {code} {err}");
        assert!(socat.succeeds());
        assert_eq!(fixture.sum("out"), sum, "{words}: {err}");
        assert!(err.contains(&sum) && err.contains("ttcp-t: 3000001 bytes in"), "{err}");
    }
}

fn output(fixture: &Fixture) {
    fixture.file("in", 3_000_001);
    std::fs::write(fixture.folder.join("out"), "what was there\n").expect("room on the disk");
    let _socat = source(fixture);
    let (code, _, err) = fixture.tool(&format!("ttcp -r {DEVICE} >> out"));
    assert_eq!(code, 0, "{err}");
    let read = |name| std::fs::read(fixture.folder.join(name)).expect("it is there");
    let (sent, mut got) = (read("in"), read("out"));
    let received = got.split_off("what was there\n".len());
    assert_eq!(String::from_utf8_lossy(&got), "what was there\n");
    assert!(received == sent, "{} bytes received", received.len());
}

fn full(fixture: &Fixture) {
    fixture.file("in", 1_000_000);
    for to in ["--file /dev/full", "> /dev/full"] {
        let _socat = source(fixture);
        let (code, _, err) = fixture.tool(&format!("ttcp -r {DEVICE} {to}"));
        assert!(code == 1 && err.contains("make room on the disk"), "{to}: {code} {err}");
    }
    // The transfer succeeds, but its report cannot be written.
    let _socat = sink(fixture, 4);
    let line = format!("ttcp -t 10.9.0.1 {DEVICE} -s --bytes 1K --json > /dev/full");
    let (code, _, err) = fixture.tool(&line);
    assert!(code == 1 && err.contains("make room on the disk"), "{code} {err}");
}

fn reader(fixture: &Fixture) {
    fixture.file("in", 1_000_000);
    let _socat = source(fixture);
    let (_, out, err) =
        fixture.run(&format!("sh -c '{TOOL} ttcp -r {DEVICE} | head -c 10 | wc -c'"));
    assert_eq!(out.trim(), "10", "{err}");
    assert!(err.contains("the program that read it has ended"), "{err}");
}
