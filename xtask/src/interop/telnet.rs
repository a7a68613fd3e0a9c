//! Suite `telnet`: `wirespeed telnetd` with Debian's telnet and with our own, and `wirespeed
//! telnet` with Debian's telnetd. The client runs on a pseudoterminal, where the suite types and
//! reads as a user would. Programs at the server switch their terminal between whole lines and
//! single characters (`stty icanon`, `-icanon`), and the client has to follow (LINEMODE, RFC 1184).
//!
//! Called by: `mod.rs`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};

use super::host::{Host, Running};
use super::ip::capture::Capture;
use super::ip::{TCPDUMP, TSHARK};
use super::outside::{IP, SOCAT, shown};
use super::{Case, Need, Workbench};

const TELNET: Need = Need::Program { program: "inetutils-telnet", package: "inetutils-telnet" };
const TELNETD: Need = Need::Program { program: "telnetd", package: "inetutils-telnetd" };
const NANO: Need = Need::Program { program: "nano", package: "nano" };

/// Where both daemons listen.
const PORT: u16 = 2323;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "Debian's telnet: a typed line is one segment, and so is the answer of cat",
        needs: &[Need::Root, IP, TELNET, TCPDUMP, TSHARK],
        run: lines,
    },
    Case {
        name: "Debian's telnet: nano gets each key at once, and the shell whole lines again",
        needs: &[Need::Root, IP, TELNET, NANO],
        run: |bench| editor(bench, DEBIANS),
    },
    Case {
        name: "Debian's telnet: a password is not shown",
        needs: &[Need::Root, IP, TELNET],
        run: |bench| password(bench, DEBIANS),
    },
    Case {
        name: "Debian's telnet: Ctrl-C interrupts, a resize is seen, Ctrl-S stops the output",
        needs: &[Need::Root, IP, TELNET],
        run: |bench| signals(bench, DEBIANS),
    },
    Case {
        name: "Debian's telnet: a mode change every 10 ms, and no byte is lost or doubled",
        needs: &[Need::Root, IP, TELNET],
        run: |bench| restless(bench, DEBIANS),
    },
    Case {
        name: "our telnet: nano gets each key at once, and the shell whole lines again",
        needs: &[Need::Root, IP, NANO],
        run: |bench| editor(bench, OURS),
    },
    Case {
        name: "our telnet: a mode change every 10 ms, and no byte is lost or doubled",
        needs: &[Need::Root, IP],
        run: |bench| restless(bench, OURS),
    },
    Case {
        name: "Debian's telnetd gives our client a shell",
        needs: &[Need::Root, IP, SOCAT, TELNETD, TCPDUMP, TSHARK],
        run: debians_daemon,
    },
];

/// Returns the command line that starts a client, without the address.
type Client = fn(&Workbench) -> Result<Vec<String>>;

const DEBIANS: Client = |_| Ok(vec!["inetutils-telnet".to_owned()]);
const OURS: Client = |bench| Ok(vec![shown(&bench.wirespeed()?)?.to_owned(), "telnet".to_owned()]);

/// Start `wirespeed telnetd`, which runs this shell script for each client; returns it once it
/// listens.
fn daemon(bench: &Workbench, host: &Host<'_>, script: &str) -> Result<Running> {
    let mut ours = host.command(shown(&bench.wirespeed()?)?);
    ours.args(["telnetd", "--", "sh", "-c", script]);
    let running = host.start("telnetd", &mut ours)?;
    until_listening(host)?;
    Ok(running)
}

/// Wait until a program listens at [`PORT`].
fn until_listening(host: &Host<'_>) -> Result<()> {
    let listening = || {
        let mut command = host.command("sh");
        command.args(["-c", &format!("ss -Hltn sport = :{PORT} | grep -q LISTEN")]);
        Ok(command)
    };
    host.until(listening).map(drop)
}

/// Start that client; returns its user once the client is connected.
fn user(bench: &Workbench, host: &Host<'_>, client: Client) -> Result<User> {
    let words = client(bench)?;
    let mut command = host.command(&words[0]);
    command.args(&words[1..]).args(["127.0.0.1", &PORT.to_string()]);
    let mut user = User::new(command)?;
    user.sees("Escape character is '^]'.")?;
    Ok(user)
}

fn lines(bench: &Workbench) -> Result<()> {
    const LINE: &str = "the quick brown fox jumps over the lazy dog";
    let host = Host::without_tap(bench)?;
    let capture = Capture::start(bench, &host, "lo")?;
    let _daemon = daemon(bench, &host, "echo ready; exec cat")?;
    let mut user = user(bench, &host, DEBIANS)?;
    user.sees("ready")?;
    user.pauses(Duration::from_millis(500));
    for character in LINE.chars() {
        user.types(&character.to_string())?;
        user.pauses(Duration::from_millis(10));
    }
    user.types("\r")?;
    // The client echoes the line while it is typed; then cat prints it.
    user.sees(LINE)?;
    user.sees(LINE)?;
    user.types("\x04")?;
    user.sees("closed")?;
    let captured = capture.finish(bench)?;
    let hex = |text: &str| text.bytes().map(|b| format!("{b:02x}")).collect::<String>();
    let of = |port: &str| captured.lines(&format!("{port} && tcp.len > 0"), &["tcp.payload"]);
    let (from_server, from_client) = (of("tcp.srcport == 2323")?, of("tcp.dstport == 2323")?);
    // IAC DO LINEMODE, IAC WILL LINEMODE.
    ensure!(from_server.iter().any(|p| p.contains("fffd22")), "no DO LINEMODE: {from_server:?}");
    ensure!(from_client.iter().any(|p| p.contains("fffb22")), "no WILL LINEMODE: {from_client:?}");
    let line = hex(&format!("{LINE}\r\n"));
    for (segments, whose) in [(&from_client, "the typed"), (&from_server, "cat's")] {
        let whole = segments.iter().filter(|payload| **payload == line).count();
        ensure!(whole == 1, "{whole} segments, not 1, have exactly {whose} line: {segments:?}");
        let parts = segments.iter().filter(|p| p.len() < 8 && !p.starts_with("ff")).count();
        ensure!(parts == 0, "{parts} segments have only a part of {whose} line: {segments:?}");
    }
    Ok(())
}

fn editor(bench: &Workbench, client: Client) -> Result<()> {
    let host = Host::without_tap(bench)?;
    let file = bench.path("edited");
    let script = format!(
        "echo ready; read a; echo got-$a; nano -I {}; stty -a | grep -q -e ' icanon' && echo \
         lines; read b; echo got-$b",
        shown(&file)?
    );
    let _daemon = daemon(bench, &host, &script)?;
    let mut user = user(bench, &host, client)?;
    user.sees("ready")?;
    user.pauses(Duration::from_millis(500));
    user.types("fx\x7fi\r")?;
    user.sees("got-fi")?;
    user.sees("nano")?;
    user.pauses(Duration::from_millis(500));
    user.types("typed by character")?;
    // Ctrl-O, Enter, Ctrl-X.
    user.types("\x0f")?;
    user.sees("File Name to Write")?;
    user.types("\r")?;
    user.sees("Wrote 1 line")?;
    user.types("\x18")?;
    user.sees("lines\r\n")?;
    user.pauses(Duration::from_millis(500));
    user.types("sx\x7fe\r")?;
    user.sees("got-se")?;
    user.sees("closed")?;
    let text = std::fs::read_to_string(&file)?;
    ensure!(text == "typed by character\n", "the file has {text:?}");
    Ok(())
}

fn password(bench: &Workbench, client: Client) -> Result<()> {
    let host = Host::without_tap(bench)?;
    let script = "printf 'ready '; stty -echo; printf 'word: '; read w; stty echo; echo; \
                  echo has-$w-; read a";
    let _daemon = daemon(bench, &host, script)?;
    let mut user = user(bench, &host, client)?;
    user.sees("word: ")?;
    user.pauses(Duration::from_millis(500));
    user.types("secret\r")?;
    let before = user.sees("has-")?;
    ensure!(!before.contains("secret"), "the password is shown: {before:?}");
    user.sees("secret-")?;
    user.pauses(Duration::from_millis(500));
    user.types("seen")?;
    user.sees("seen")?;
    Ok(())
}

fn signals(bench: &Workbench, client: Client) -> Result<()> {
    let host = Host::without_tap(bench)?;
    let script = "trap 'echo interrupted' INT; echo ready; \
                  while :; do read a && { echo got-$a; stty size; }; done";
    let _daemon = daemon(bench, &host, script)?;
    let mut user = user(bench, &host, client)?;
    user.sees("ready")?;
    user.pauses(Duration::from_millis(500));
    user.types("dropped\x03")?;
    user.sees("interrupted")?;
    user.resizes(31, 101)?;
    user.pauses(Duration::from_millis(500));
    user.types("one\r")?;
    user.sees("got-one")?;
    user.sees("31 101")?;
    // Ctrl-S stops the output, and Ctrl-Q resumes it.
    user.types("\x13")?;
    user.pauses(Duration::from_millis(200));
    user.types("two\r")?;
    user.pauses(Duration::from_millis(500));
    user.types("\x11")?;
    user.sees("got-two")?;
    Ok(())
}

fn restless(bench: &Workbench, client: Client) -> Result<()> {
    let host = Host::without_tap(bench)?;
    let typed = bench.path("typed");
    let script = format!(
        "restless() {{ while :; do stty -icanon min 1; sleep 0.01; stty icanon; sleep 0.01; done; \
         }}; exec 3<&0; restless <&3 & r=$!; cat <&3 >{} & c=$!; echo ready; i=0; \
         while [ $i -lt 300 ]; do echo line-$i-of-the-output; i=$((i+1)); sleep 0.01; done; \
         sleep 1; kill $r $c; echo all-done",
        shown(&typed)?
    );
    let _daemon = daemon(bench, &host, &script)?;
    let mut user = user(bench, &host, client)?;
    user.sees("ready")?;
    let keys: Vec<String> = (0..50).map(|n| format!("key-{n}")).collect();
    for line in &keys {
        user.types(&format!("{line}\r"))?;
        user.pauses(Duration::from_millis(30));
    }
    let seen = user.sees("all-done")?;
    for n in 0..300 {
        let line = format!("line-{n}-of-the-output");
        let times = seen.matches(&line).count();
        ensure!(times == 1, "{line} is shown {times} times, not once: {seen}");
    }
    let read = std::fs::read_to_string(&typed)?;
    let read: Vec<&str> = read.lines().collect();
    ensure!(read == keys, "the program at the server read {read:?}, and the user typed {keys:?}");
    Ok(())
}

fn debians_daemon(bench: &Workbench) -> Result<()> {
    let host = Host::without_tap(bench)?;
    let capture = Capture::start(bench, &host, "lo")?;
    let mut socat = host.command("socat");
    let listen = format!("TCP4-LISTEN:{PORT},fork,reuseaddr");
    socat.args([&listen, "EXEC:/usr/sbin/telnetd -h -E /bin/sh,nofork"]);
    let _daemon = host.start("telnetd", &mut socat)?;
    until_listening(&host)?;
    let mut user = user(bench, &host, OURS)?;
    user.resizes(33, 103)?;
    user.types("PS1='ask''ed '\r")?;
    user.sees("asked ")?;
    user.types("stty size; echo $TERM-$((40 + 2))\r")?;
    user.sees("33 103")?;
    user.sees("-42")?;
    user.types("sleep 1000\r")?;
    user.pauses(Duration::from_millis(500));
    user.types("\x03")?;
    user.sees("asked ")?;
    user.types("cat\r")?;
    user.pauses(Duration::from_millis(300));
    user.types("ab\x7fc\r")?;
    user.sees("\nac")?;
    user.types("\x04")?;
    user.sees("asked ")?;
    user.types("\x1dstatus\r")?;
    user.sees("Mode: ")?;
    user.types("exit\r")?;
    user.sees("closed by foreign host")?;
    user.ends()?;
    let captured = capture.finish(bench)?;
    // Both ends negotiate LINEMODE: IAC DO LINEMODE, and our answer.
    captured.has("tcp.srcport == 2323 && tcp.payload contains ff:fd:22")?;
    captured.has("tcp.dstport == 2323 && tcp.payload contains ff:fb:22")
}

/// How long something may take to be shown, in ms.
const TIMEOUT_MS: u64 = 20_000;

/// A user at a pseudoterminal on which a client runs. Dropping the user ends the client.
struct User(PtySession);

impl User {
    /// Start a client on a new pseudoterminal.
    fn new(mut command: Command) -> Result<User> {
        command.env("TERM", "xterm");
        Ok(User(
            spawn_command(command, Some(TIMEOUT_MS))
                .context("the client cannot be started on a pseudoterminal")?,
        ))
    }

    /// Wait until the terminal shows this text; returns the text that it showed before it.
    fn sees(&mut self, text: &str) -> Result<String> {
        self.0.exp_string(text).with_context(|| format!("the terminal does not show '{text}'"))
    }

    fn types(&mut self, keys: &str) -> Result<()> {
        self.0.send(keys)?;
        self.0.flush()?;
        Ok(())
    }

    fn pauses(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Change the size of the terminal's window.
    fn resizes(&mut self, rows: u16, columns: u16) -> Result<()> {
        let terminal = self.0.process().get_file_handle()?;
        let mut stty = Command::new("stty");
        stty.args(["rows", &rows.to_string(), "cols", &columns.to_string()]);
        ensure!(
            stty.stdin(terminal).status()?.success(),
            "stty cannot set the size of the terminal"
        );
        Ok(())
    }

    /// Wait for the end of the client, which must be a success.
    fn ends(mut self) -> Result<()> {
        self.0.exp_eof()?;
        let status = self.0.process().wait()?;
        ensure!(matches!(status, WaitStatus::Exited(_, 0)), "the client ended with {status:?}");
        Ok(())
    }
}
