//! The FILTER of `show states` and `states kill`: pairs of words, all of which have to hold.
//!
//! Called by: `show`, `states`. The running program chooses the states, because there may be
//! millions of them.
//!
//! ```text
//! FILTER = proto NAME | src NET | dst NET | host NET | sport N | dport N | in PORT | out PORT
//!        | phase WORD | rule NUMBER or LABEL, several of them, each once
//! ```

use anyhow::{Result, bail};
use serde_json::Value;
use wirespeed::control::Client;
use wirespeed::control::protocol::{Chosen, FilterCall, Question, network};

use crate::Usage;
use crate::running::ask;

const WORDS: &str =
    "write proto, src, dst, host, sport, dport, in, out, phase or rule, each with its value";

/// What the words mean.
///
/// # Errors
/// [`Usage`]: they are not understood.
pub(crate) fn chosen(words: &[String]) -> Result<Chosen> {
    let mut chosen = Chosen::default();
    // `show states 'src 10.0.0.7'` is one word for the shell.
    let words: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    for pair in words.chunks(2) {
        let [key, value] = pair else {
            bail!(Usage(format!("FILTER: '{}' has no value: {WORDS}", pair.concat())));
        };
        let text = || Some((*value).to_owned());
        let net = || match network(value) {
            Some(_) => Ok(text()),
            None => Err(Usage(format!("FILTER: '{value}' is no address or network"))),
        };
        let port = || match value.parse() {
            Ok(port) => Ok(Some(port)),
            Err(_) => Err(Usage(format!("FILTER: '{value}' is no port: write 0 to 65535"))),
        };
        match *key {
            "proto" => chosen.protocol = text(),
            "src" => chosen.src = net()?,
            "dst" => chosen.dst = net()?,
            "host" => chosen.host = net()?,
            "sport" => chosen.sport = port()?,
            "dport" => chosen.dport = port()?,
            "in" => chosen.in_dev = text(),
            "out" => chosen.out_dev = text(),
            "phase" | "state" => chosen.phase = text(),
            "rule" => chosen.rule = text(),
            other => bail!(Usage(format!("FILTER: there is no '{other}': {WORDS}"))),
        }
    }
    Ok(chosen)
}

/// The rows of these states.
pub(super) fn rows(client: &mut Client, stack: usize, chosen: &Chosen) -> Result<Value> {
    let (mut rows, mut cursor) = (Vec::new(), 0);
    loop {
        let call = FilterCall::States { chosen: chosen.clone(), cursor };
        let answer = ask(client, &Question::Filter { stack, call })?;
        if let Value::Array(page) = answer.body {
            rows.extend(page);
        }
        match answer.next {
            Some(next) if next > cursor => cursor = next,
            _ => return Ok(Value::Array(rows)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Chosen> {
        chosen(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_pairs() {
        let both = of(&["proto", "tcp", "src 10.0.0.0/8 dport 22"]).expect("it is understood");
        let expected = Chosen {
            protocol: Some("tcp".to_owned()),
            src: Some("10.0.0.0/8".to_owned()),
            dport: Some(22),
            ..Chosen::default()
        };
        assert_eq!(both, expected);
        assert_eq!(of(&[]).expect("all"), Chosen::default());
        for wrong in [&["src"][..], &["src", "x"], &["dport", "65536"], &["frm", "10.0.0.1"]] {
            assert!(of(wrong).is_err_and(|why| why.is::<Usage>()), "{wrong:?}");
        }
    }
}
