//! `wirespeed policy`: checks a file of rules, answers the questions of a running netns, and makes
//! rules of a log.
//!
//! Called by: `lib.rs`. The language is the crate `policy`'s; docs/gateway.md is the user's guide.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use machine::parts::{AnswerLine, QuestionLine, Texts, asking_name};
use policy::learn::Learned;
use wirespeed::control::text::plain;

use crate::output::what_to_do_to_read;
use crate::running::find;
use crate::{Outcome, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  wirespeed policy check policy.toml        count the rules, or say what is wrong in them
  wirespeed policy ask                      answer what a netns with rules of `ask` wants to know
  wirespeed policy learn netns.log          the rules that the flows of a log needed

`wirespeed netns --policy policy.toml -- PROGRAM` runs a program by the rules.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Count the rules of a file, or say what is wrong in them
    Check {
        /// The file
        file: PathBuf,
    },
    /// Answer questions about flows that wait
    Ask {
        /// The netns's process number [default: the only one that runs]
        #[arg(long)]
        pid: Option<u32>,
    },
    /// Print the rules that the flows of a log needed
    Learn {
        /// A log of `netns --log`
        log: PathBuf,
    },
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    match &args.what {
        What::Check { file } => {
            let rules = Texts::of_file(file)?.known_rules()?;
            let count = rules.rules.len();
            let what = if count == 1 { "rule" } else { "rules" };
            output::out(&format!("{} is valid: {count} {what}\n", file.display()))?;
        }
        What::Ask { pid } => ask(*pid)?,
        What::Learn { log } => output::out(&learned(log)?)?,
    }
    Ok(Outcome::Done)
}

/// The rules that the lines of a log needed.
fn learned(path: &Path) -> Result<String> {
    let file = std::fs::File::open(path).map_err(|why| {
        let advice = what_to_do_to_read(&why);
        anyhow::anyhow!("cannot read {}: {why}{advice}", path.display())
    })?;
    let mut learned = Learned::default();
    for line in BufReader::new(file).lines() {
        learned.line(&line.with_context(|| format!("cannot read {}", path.display()))?);
    }
    if learned.unreadable > 0 {
        let count = learned.unreadable;
        output::err(&format!("warning: {count} lines are not of a log of netns, and do not count"));
    }
    Ok(learned.policy())
}

/// Answer questions until the program has ended.
fn ask(pid: Option<u32>) -> Result<()> {
    let socket = find(None, pid)?;
    let number = socket.file_stem().and_then(|name| name.to_str()?.parse().ok());
    let Some(pid) = number else { bail!("{} has no process number", socket.display()) };
    let address = SocketAddr::from_abstract_name(asking_name(pid))?;
    let stream = UnixStream::connect_addr(&address).with_context(|| {
        format!("process {pid} asks nothing: start it by `wirespeed netns --ask` or with an `ask`")
    })?;
    let mut answers = stream.try_clone().context("no descriptor is left")?;
    let mut lines = std::io::stdin().lock().lines();
    for line in BufReader::new(stream).lines() {
        // The end of the program ends the connection.
        let Ok(line) = line else { break };
        let question: QuestionLine =
            serde_json::from_str(&line).context("the program is of another version")?;
        output::as_is(&asked(&question))?;
        let Some((allow, keep)) = read_answer(&mut lines)? else { break };
        let answer = AnswerLine { id: question.id, allow, keep };
        let text = serde_json::to_string(&answer)?;
        if writeln!(answers, "{text}").is_err() {
            break;
        }
    }
    output::out("the program has ended\n")
}

/// A question as a line.
fn asked(question: &QuestionLine) -> String {
    let names = match question.names.as_slice() {
        [] => String::new(),
        names => format!(" ({})", plain(&names.join(", "))),
    };
    let QuestionLine { protocol, to, guest, rule, seconds, .. } = question;
    format!(
        "{} {to}{names} from {guest}, by {}, {seconds} s left: [y]es, [n]o, [a]lways, ne[v]er? ",
        plain(protocol),
        plain(rule)
    )
}

/// Whether the flow may begin, and whether that holds for the next ones; `None` at the end of the
/// input.
fn read_answer(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
) -> Result<Option<(bool, bool)>> {
    loop {
        let Some(line) = lines.next() else { return Ok(None) };
        match line.context("standard input cannot be read")?.trim() {
            "y" | "yes" => return Ok(Some((true, false))),
            "n" | "no" => return Ok(Some((false, false))),
            "a" | "always" => return Ok(Some((true, true))),
            "v" | "never" => return Ok(Some((false, true))),
            _ => output::as_is("y, n, a or v? ")?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_asked_for_until_it_is_one() {
        let of = |text: &str| {
            let mut lines = text.lines().map(|line| Ok(line.to_owned()));
            read_answer(&mut lines).expect("readable")
        };
        assert_eq!(of("what\nalways\n"), Some((true, true)));
        assert_eq!(of("n"), Some((false, false)));
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_question_shows_nothing_that_a_terminal_obeys() {
        let question = QuestionLine {
            id: 1,
            protocol: "tcp".to_owned(),
            to: "192.0.2.1:443".parse().expect("an address"),
            names: vec!["a\u{1b}[31m.example".to_owned()],
            guest: "10.0.2.100:5000".parse().expect("an address"),
            rule: "policy.toml:3".to_owned(),
            seconds: 55,
        };
        let text = asked(&question);
        assert!(!text.contains('\u{1b}') && text.contains("192.0.2.1:443"), "{text}");
    }
}
