//! Lines, characters, and what a program does to its terminal.

use std::process::Command;
use std::time::{Duration, Instant};

use testbed::Case;

use crate::fixture::{TIMEOUT, client, daemon, daemon_by, edits_lines, wirespeed};
use crate::terminal::Terminal;

pub(crate) const CASES: &[Case] = &[
    ("lines_are_edited_by_the_client", &[], lines),
    ("the_cursor_moves_inside_the_line", &[], motion),
    ("a_character_that_ends_lines_sends_them", &[], ends_of_lines),
    ("a_program_has_characters_and_lines_again", &[], both),
    ("a_password_is_not_shown", &[], password),
    ("signals_reach_the_program", &[], signals),
    ("the_window_has_the_size_of_the_users", &[], window),
    ("without_linemode_the_terminal_there_edits", &[], characters),
    ("the_client_says_its_terminal", &[], terminal),
    ("output_stops_and_resumes", &[], stops),
];

fn lines() {
    let _daemon = daemon(&[], &["sh", "-c", "echo ready; exec cat"]);
    let mut user = client(&[]);
    user.shows("Escape character is '^]'.", TIMEOUT);
    user.shows("ready", TIMEOUT);
    edits_lines(&mut user);
    user.types(b"hexx\x7f\x7fllo\r");
    // Shown here, and then by the program.
    user.shows("llo\r\nhello\r\n", TIMEOUT);
    // The end-of-file character ends the input only on an empty line.
    user.types(b"half\x04");
    user.shows("halfhalf", TIMEOUT);
    user.types(b"\r\x04");
    user.shows("Connection closed by foreign host.", TIMEOUT);
    assert_eq!(user.ends(TIMEOUT).and_then(|status| status.code()), Some(0));
}

fn motion() {
    let _daemon = daemon(&[], &["sh", "-c", "echo ready; exec cat"]);
    let mut user = client(&[]);
    user.shows("ready", TIMEOUT);
    edits_lines(&mut user);
    // Ctrl-A, an arrow, Ctrl-E, Ctrl-B, Delete, which is a key alone.
    user.types(b"ellx\x01h\x05\x02\x1b[3~o\x01\x1b[C\x0bi\r");
    user.shows("\r\nhi\r\n", TIMEOUT);
    user.types(b"\x1dset ecr ^X\r");
    user.types(b"\x1dslc\r");
    user.shows("ECR    ^X", TIMEOUT);
    user.types(b"abc\x01\x18\r");
    user.shows("\r\nbc\r\n", TIMEOUT);
}

fn ends_of_lines() {
    let script = "stty eol ';' noflsh; echo ready; head -c3 | od -An -c; stty -a";
    let _daemon = daemon(&[], &["sh", "-c", script]);
    let mut user = client(&[]);
    user.shows("ready", TIMEOUT);
    edits_lines(&mut user);
    // No end of a line.
    user.types(b"ax\x7fb;");
    user.shows("a   b   ;", TIMEOUT);
    // The terminal's own settings are as the program left them.
    user.shows("eol = ;", TIMEOUT);
    user.shows(" noflsh", TIMEOUT);
}

fn both() {
    let script = "read a; echo got-$a; stty -icanon -echo min 1; echo raw; c=$(head -c1); \
                  echo char-$c; stty icanon echo; echo cooked; read b; echo got-$b";
    let _daemon = daemon(&[], &["sh", "-c", script]);
    let mut user = client(&[]);
    // Characters that are typed before the ends have agreed are sent as they are.
    edits_lines(&mut user);
    user.types(b"xx\x7f1\r");
    user.shows("got-x1", TIMEOUT);
    user.shows("raw\r\n", TIMEOUT);
    // No end of a line.
    user.types(b"k");
    user.shows("char-k", TIMEOUT);
    user.shows("cooked", TIMEOUT);
    user.types(b"ab\x7fc\r");
    user.shows("got-ac", TIMEOUT);
    assert_eq!(user.ends(TIMEOUT).and_then(|status| status.code()), Some(0));
}

fn password() {
    let script = "stty -echo; printf 'word: '; read w; stty echo; echo; echo len-${#w}; read x";
    let _daemon = daemon(&[], &["sh", "-c", script]);
    let mut user = client(&[]);
    user.shows("word: ", TIMEOUT);
    user.types(b"secret\r");
    user.shows("len-6", TIMEOUT);
    assert!(!user.shown().contains("secret"), "{}", user.shown());
    user.types(b"seen");
    user.shows("seen", TIMEOUT);
}

fn signals() {
    // Linux sends the signal, then drops output: text that a program prints at once may be lost.
    let script = "trap 'i=$((i+1)); sleep 0.1; echo int-$i' INT; \
                  trap 'q=$((q+1)); sleep 0.1; echo quit-$q' QUIT; \
                  echo ready; while :; do read a && echo got-$a; done";
    // As a script does to programs that it puts into the background.
    let ignores = "trap '' HUP INT QUIT TSTP; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    let wirespeed = wirespeed();
    command.envs(wirespeed.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["-c", ignores]).arg(wirespeed.get_program());
    let _daemon = daemon_by(command, &[], &["sh", "-c", script]);
    for options in [&[][..], &["--no-linemode"]] {
        let mut user = client(options);
        user.shows("ready", TIMEOUT);
        signalled(&mut user, b"dropped\x03", "int-");
        signalled(&mut user, b"\x1c", "quit-");
        user.types(b"a\r");
        user.shows("got-a", TIMEOUT);
        assert!(!user.shown().contains("got-dropped"));
        // A command of the tool. All signals before it have been counted.
        user.forgets();
        signalled(&mut user, b"\x1dsend ip\r", "int-");
    }
}

/// Type the keys that send a signal until the program says that it came. Once is not always enough:
/// a shell that looks for signals and then reads waits for a line in between.
fn signalled(user: &mut Terminal, keys: &[u8], answer: &str) {
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        user.types(keys);
        if user.shows_within(answer, Duration::from_secs(1)) {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "no {answer}: {:?}", user.shown());
    }
}

fn window() {
    let script = "trap 'stty size' WINCH; stty size; while :; do read a && stty size; done";
    let _daemon = daemon(&[], &["sh", "-c", script]);
    let mut user = client(&[]);
    user.shows("40 120\r\n", TIMEOUT);
    user.resizes(100, 30);
    user.types(b"\r");
    user.shows("30 100\r\n", TIMEOUT);
}

fn characters() {
    let _daemon = daemon(&[], &["sh", "-c", "echo ready; exec cat"]);
    let mut user = client(&["--no-linemode"]);
    user.shows("ready", TIMEOUT);
    user.types(b"ab\x7fc\r");
    user.shows("ac\r\n", TIMEOUT);
    user.types(b"\x1dstatus\r");
    user.shows("characters, shown by the server", TIMEOUT);
    user.types(b"\x1dmode line\r");
    edits_lines(&mut user);
    user.types(b"\x04");
    user.shows("closed by foreign host", TIMEOUT);
}

fn terminal() {
    let _daemon = daemon(&[], &["sh", "-c", "echo $TERM-; tty; read a"]);
    let mut user = client(&[]);
    user.shows("xterm-\r\n", TIMEOUT);
    user.shows("/dev/pts/", TIMEOUT);
}

fn stops() {
    let script = "read a; echo one; read b; echo two; read c; stty raw -echo; echo raw; \
                  c=$(head -c1 | od -An -tx1); echo got$c; stty sane; read d";
    let _daemon = daemon(&[], &["sh", "-c", script]);
    let mut user = client(&[]);
    user.types(b"\r");
    user.shows("one", TIMEOUT);
    user.types(b"\x13");
    user.types(b"\r");
    assert!(!user.shows_within("two", std::time::Duration::from_millis(500)));
    user.types(b"\x11");
    user.shows("two", TIMEOUT);
    user.types(b"\r");
    user.shows("raw", TIMEOUT);
    // A raw terminal has the character for itself.
    std::thread::sleep(std::time::Duration::from_millis(200));
    user.types(b"\x13");
    user.shows("got 13", TIMEOUT);
}
