//! The command line of `explain`.
//!
//! Called by: clap, then `run.rs`.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::Usage;
use crate::show::Filter;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
CONN is one end of the connection, both as `show` prints them, its number in the order of
`wirespeed show connections`, or a filter as `show` has:
  wirespeed explain 192.0.2.1:5001
  wirespeed explain 192.0.2.2:40000 - 192.0.2.1:5001
  wirespeed explain 3
  wirespeed explain dport = :80
The connection is looked at many times; each look says what holds its data back, and the answer is
what most of them say. If none has half of them, it says so.")]
pub(crate) struct Args {
    /// Which connection [default: all, if there are at most eight]
    #[arg(value_name = "CONN")]
    words: Vec<String>,
    /// How long to look
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pub(super) seconds: f64,
    /// One JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// The control socket of the program
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub(super) socket: Option<PathBuf>,
    /// The program's process number [default: the only one that runs]
    #[arg(long)]
    pub(super) pid: Option<u32>,
}

/// Which connections.
pub(super) enum Which {
    /// The connection at this place in the list of all, counted from 1.
    Nth(usize),
    Filter(Option<Filter>),
}

impl Args {
    pub(super) fn check(&self) -> Result<()> {
        if !(0.2..=60.0).contains(&self.seconds) {
            bail!(Usage("--seconds takes 0.2 to 60".to_owned()));
        }
        self.which().map(drop)
    }

    /// # Errors
    /// [`Usage`]: the words are not understood.
    pub(super) fn which(&self) -> Result<Which> {
        which(&self.words)
    }
}

fn which(words: &[String]) -> Result<Which> {
    let words: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    if let [number] = words.as_slice()
        && let Ok(number) = number.parse()
    {
        return Ok(Which::Nth(number));
    }
    let ends: Vec<&str> = words.iter().copied().filter(|&word| word != "-").collect();
    let is_pair =
        ends.len() == 2 && ends.iter().all(|end| end.parse::<core::net::SocketAddr>().is_ok());
    let words = match is_pair {
        true => ["src", ends[0], "dst", ends[1]].map(str::to_owned).to_vec(),
        false => words.into_iter().map(str::to_owned).collect(),
    };
    Ok(Which::Filter(Filter::parse(&words).map_err(|why| Usage(format!("CONN: {why}")))?))
}

#[cfg(test)]
mod tests {
    use wirespeed::control::protocol::Connection;

    use super::*;

    #[test]
    fn a_connection_is_named_as_show_prints_it() {
        let row = Connection {
            local: "192.0.2.1:5001".to_owned(),
            remote: "[2001:db8::1]:40000".to_owned(),
            ..Connection::default()
        };
        let admits = |text: &str| {
            let words: Vec<String> = text.split('|').map(str::to_owned).collect();
            match which(&words).expect("understood") {
                Which::Filter(Some(filter)) => filter.connection(&row),
                _ => panic!("no filter: {text}"),
            }
        };
        assert!(admits("192.0.2.1:5001 - [2001:db8::1]:40000"));
        assert!(admits("192.0.2.1:5001|-|[2001:db8::1]:40000"));
        assert!(admits("192.0.2.1:5001|[2001:db8::1]:40000"));
        assert!(!admits("[2001:db8::1]:40000|192.0.2.1:5001"));
        assert!(admits("192.0.2.1:5001") && admits("[2001:db8::1]:40000"));
        assert!(admits("dport|=|:40000") && !admits("dport|=|:5001"));
        assert!(matches!(which(&["3".to_owned()]), Ok(Which::Nth(3))));
        assert!(matches!(which(&[]), Ok(Which::Filter(None))));
        assert!(which(&["nonsense".to_owned()]).is_err());
    }
}
