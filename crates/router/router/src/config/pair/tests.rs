//! The keys of `[pair]`, and the file of its key.

use crate::config::Config;
use crate::machine::Machine;

const PORTS: &str =
    "[[port]]\nname = \"lan\"\ndevice = \"tap:ws0\"\naddresses = \"192.0.2.1/24\"\n";

#[test]
fn a_pair_needs_a_key_that_nobody_else_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("pair-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("room");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    write("key", &format!("{}\n", "5a".repeat(32)), 0o600);
    write("open", &"5a".repeat(32), 0o640);
    write("bad", "secret", 0o600);
    let read = |text: &str| {
        let mut machine = Machine::beside(&folder.join("router.toml"));
        Config::parse_with("router.toml", &format!("{PORTS}{text}"), &mut machine)
    };
    let pair = |more: &str| format!("[filter]\n[pair]\nlocal = \"192.0.2.1\"\n{more}");
    let right = pair("peer = \"192.0.2.9\"\nkey = \"key\"\n");
    let read_right = read(&right).expect("nothing is wrong").pair.expect("a pair");
    assert_eq!(read_right.far().to_string(), "192.0.2.9:3780");
    assert_eq!(read_right.key, statesync::Key::new([0x5a; 32]));
    let wrong = |text: &str, part: &str| {
        let said = read(text).expect_err("it is wrong").to_string();
        assert!(said.contains(part), "{said}");
    };
    wrong(&right.replace("[filter]", ""), "add one, or remove [pair]");
    wrong(&right.replace("\"key\"", "\"gone\""), "umask 077; head -c 32 /dev/urandom");
    wrong(&right.replace("\"key\"", "\"open\""), "chmod 600");
    wrong(&right.replace("\"key\"", "\"bad\""), "32 bytes in hexadecimal or base64");
    wrong(&right.replace("\"192.0.2.9\"", "\"2001:db8::9\""), "another host of its version");
    wrong(&right.replace("\"192.0.2.9\"", "\"192.0.2.1\""), "another host of its version");
    wrong(&right.replace("\"192.0.2.1\"", "\"192.0.2.77\""), "no address of a port");
    wrong(&pair("peer = \"192.0.2.9\"\n"), "[pair] has no key");
    std::fs::remove_dir_all(folder).expect("it is ours");
}
