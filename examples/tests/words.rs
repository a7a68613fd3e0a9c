//! The programs' messages for commands that cannot be carried out: one line, and no interface is
//! opened before the other options were checked.

use std::process::Command;

/// Refused by every system, so that a program that opens it first complains of this.
const NO_DEVICE: &str = "a-name-longer-than-15-bytes";

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    said
}

#[test]
fn a_url_is_looked_at_before_the_interface() {
    let get = |more: &[&str]| {
        let fixed = ["--dev", NO_DEVICE, "-o", "/dev/null"];
        said(env!("CARGO_BIN_EXE_https-get"), &[&fixed[..], more].concat())
    };
    assert!(get(&["ftp://10.1.0.1/file"]).contains("http://"));
    assert!(get(&["http://example.org/file"]).contains("must be an address"));
    assert!(get(&["/file"]).contains("a whole URL"));
    assert!(get(&["https://10.1.0.1/file"]).contains("--certificate FILE"));
    assert!(get(&["--certificate", "/nowhere", "https://10.1.0.1/"]).contains("/nowhere"));
    let said = get(&["http://10.1.0.1/file"]);
    assert!(said.contains(NO_DEVICE) || said.contains("/dev/net/tun"), "{said}");
}

#[test]
fn an_interface_that_cannot_be_is_one_line() {
    let fixed = ["--dev", NO_DEVICE];
    let proxy = said(env!("CARGO_BIN_EXE_proxy"), &fixed);
    assert!(proxy.contains(NO_DEVICE) || proxy.contains("/dev/net/tun"), "{proxy}");
    let more = ["--certificate", "/dev/null", "/"];
    let files = said(env!("CARGO_BIN_EXE_https-files"), &[&fixed[..], &more].concat());
    assert!(files.contains(NO_DEVICE) || files.contains("/dev/net/tun"), "{files}");
}
