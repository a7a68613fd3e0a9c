//! Command lines as getopt_long(3) parses them: `-qd`, `-m1500`, `--mtu 1500`, `--mtu=1500`, and
//! long names shortened as far as they are not ambiguous. Options end at `--` and, as a leading `+`
//! of getopt says, at the first other word.
//!
//! Called by: the drop-ins. Callers such as podman parse the messages, so they are those of the C
//! library.

use std::ffi::OsString;

/// May an option have a value?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// It has none.
    None,
    /// It has one.
    Needed,
}

/// An option that a program knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Its letter, if it has one.
    pub(super) short: Option<char>,
    /// Its name; empty if it has a letter alone.
    pub(super) long: &'static str,
    pub(super) value: Value,
}

impl Known {
    /// An option without a value.
    pub(super) const fn flag(short: Option<char>, long: &'static str) -> Known {
        Known { short, long, value: Value::None }
    }

    /// An option with a value.
    pub(super) const fn with(short: Option<char>, long: &'static str) -> Known {
        Known { short, long, value: Value::Needed }
    }

    /// The name by which the program knows it: the long one, or the letter.
    fn name(&self) -> String {
        match self.short {
            Some(letter) if self.long.is_empty() => letter.to_string(),
            _ => self.long.to_owned(),
        }
    }
}

/// What a command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The options in their order, by long name (by letter if there is no long name), with values;
    /// an empty value for options that have none.
    pub(super) options: Vec<(String, String)>,
    /// The words behind the options.
    pub(super) rest: Vec<OsString>,
    /// Did `--` end the options?
    pub(super) is_separated: bool,
}

/// May options stand behind other words?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The first other word ends the options.
    First,
    /// They may stand anywhere.
    Anywhere,
}

/// Parse the words of a command line.
///
/// # Errors
/// The message of the C library, without the program's name.
pub(super) fn parse(known: &[Known], order: Order, words: &[OsString]) -> Result<Line, String> {
    let mut line = Line::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_str();
        match text {
            Some("--") => {
                line.is_separated = true;
                break;
            }
            Some(text) if text.starts_with("--") => long(known, &text[2..], &mut words, &mut line)?,
            Some(text) if text.len() > 1 && text.starts_with('-') => {
                letters(known, &text[1..], &mut words, &mut line)?;
            }
            _ => {
                line.rest.push(word.clone());
                if order == Order::First {
                    break;
                }
            }
        }
    }
    line.rest.extend(words.cloned());
    Ok(line)
}

type Words<'a> = std::slice::Iter<'a, OsString>;

fn long(known: &[Known], text: &str, words: &mut Words<'_>, line: &mut Line) -> Result<(), String> {
    let (name, given) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let option = find(known, name)?;
    let shown = format!("option '--{}'", option.long);
    let value = match (option.value, given) {
        (Value::None, None) => String::new(),
        (Value::None, Some(_)) => return Err(format!("{shown} doesn't allow an argument")),
        (Value::Needed, Some(value)) => value,
        (Value::Needed, None) => next(words).ok_or(format!("{shown} requires an argument"))?,
    };
    line.options.push((option.name(), value));
    Ok(())
}

fn find<'a>(known: &'a [Known], name: &str) -> Result<&'a Known, String> {
    let named = || known.iter().filter(|option| !option.long.is_empty());
    if let Some(option) = named().find(|option| option.long == name) {
        return Ok(option);
    }
    let mut begun = named().filter(|option| option.long.starts_with(name));
    match (begun.next(), begun.next()) {
        (Some(option), None) if !name.is_empty() => Ok(option),
        (Some(_), Some(_)) if !name.is_empty() => Err(format!("option '--{name}' is ambiguous")),
        _ => Err(format!("unrecognized option '--{name}'")),
    }
}

fn letters(
    known: &[Known],
    text: &str,
    words: &mut Words<'_>,
    line: &mut Line,
) -> Result<(), String> {
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        let option = known.iter().find(|option| option.short == Some(letter));
        let option = option.ok_or(format!("invalid option -- '{letter}'"))?;
        let value = match (option.value, rest.as_str()) {
            (Value::None, _) => String::new(),
            (Value::Needed, "") => {
                next(words).ok_or(format!("option requires an argument -- '{letter}'"))?
            }
            (Value::Needed, value) => {
                line.options.push((option.name(), value.to_owned()));
                return Ok(());
            }
        };
        line.options.push((option.name(), value));
    }
    Ok(())
}

/// The next word as a value. What is not UTF-8 has replacement characters: no value needs such
/// bytes.
fn next(words: &mut Words<'_>) -> Option<String> {
    words.next().map(|word| word.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Known] = &[
        Known::flag(Some('q'), "quiet"),
        Known::flag(Some('d'), "debug"),
        Known::with(Some('m'), "mtu"),
        Known::with(None, "map-guest-addr"),
        Known::with(None, "map-host-loopback"),
        Known::flag(Some('1'), ""),
    ];

    fn parsed(text: &str) -> Result<Line, String> {
        let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
        parse(KNOWN, Order::First, &words)
    }

    fn options(text: &str) -> Vec<(String, String)> {
        parsed(text).expect("a good command line").options
    }

    #[test]
    fn options_are_written_in_four_ways() {
        let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        assert_eq!(
            options("-qd1m 5"),
            of(&[("quiet", ""), ("debug", ""), ("1", ""), ("mtu", "5")])
        );
        assert_eq!(options("-m5 --mtu=6"), of(&[("mtu", "5"), ("mtu", "6")]));
        assert_eq!(options("--mtu -1"), of(&[("mtu", "-1")]));
        assert_eq!(options("--map-g a=b"), of(&[("map-guest-addr", "a=b")]));
        assert_eq!(options("--map-guest-addr=a=b"), of(&[("map-guest-addr", "a=b")]));
    }

    #[test]
    fn options_end_at_the_first_word_or_at_two_hyphens() {
        let line = parsed("-q ls -d").expect("a good command line");
        assert_eq!((line.options.len(), line.rest.len(), line.is_separated), (1, 2, false));
        let line = parsed("-- -q").expect("a good command line");
        assert_eq!((line.options.len(), line.rest.len(), line.is_separated), (0, 1, true));
        let words = ["x", "-q", "-"].map(OsString::from);
        let line = parse(KNOWN, Order::Anywhere, &words).expect("a good command line");
        assert_eq!((line.options.len(), line.rest), (1, vec!["x".into(), "-".into()]));
    }

    #[test]
    fn messages_are_those_of_the_c_library() {
        for (text, says) in [
            ("--x", "unrecognized option '--x'"),
            ("--x=1", "unrecognized option '--x'"),
            ("-x", "invalid option -- 'x'"),
            ("--mtu", "option '--mtu' requires an argument"),
            ("-qm", "option requires an argument -- 'm'"),
            ("--quiet=1", "option '--quiet' doesn't allow an argument"),
            ("--map", "option '--map' is ambiguous"),
            ("--=1", "unrecognized option '--'"),
        ] {
            assert_eq!(parsed(text).expect_err("a mistake"), says, "{text}");
        }
    }

    #[test]
    fn no_words_panic() {
        use std::os::unix::ffi::OsStringExt;
        let mut state = 1_u32;
        for _ in 0..20_000 {
            let mut word = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let alphabet = b"-=mqd1x:\xff\xc3\xa4";
                let bytes = (0..state >> 29)
                    .map(|at| alphabet[(state.rotate_left(at * 5) >> 8) as usize % alphabet.len()]);
                OsString::from_vec(bytes.collect())
            };
            let words = [word(), word(), word()];
            for order in [Order::First, Order::Anywhere] {
                let _ = parse(KNOWN, order, &words);
            }
        }
    }
}
