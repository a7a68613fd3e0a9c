//! The words after the options: commands that may be cut short, keywords and their values.
//!
//! Called by: the objects of `ip`, and `show fib`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use anyhow::{Result, bail};
use wirespeed::{Cidr, MAIN_TABLE};

use crate::Usage;
use wirespeed::control::text::plain;

/// The words that are left.
pub(crate) struct Words<'a>(std::slice::Iter<'a, String>);

/// The error of a wrong command line.
pub(super) fn usage<T>(why: &str) -> Result<T> {
    bail!(Usage(plain(why)))
}

impl<'a> Words<'a> {
    pub(crate) fn new(words: &'a [String]) -> Words<'a> {
        Words(words.iter())
    }

    /// The next word.
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.0.next().map(String::as_str)
    }

    /// The command: the first of `known` that begins with the word. The first three are names of
    /// one command, which is used if there is no word.
    pub(super) fn command(&mut self, known: &[&'static str]) -> Option<&'static str> {
        let Some(word) = self.next() else { return Some("list") };
        let found = known.iter().find(|name| !word.is_empty() && name.starts_with(word));
        found.map(|&name| match name {
            "show" | "lst" => "list",
            name => name,
        })
    }

    /// The value of a keyword.
    pub(crate) fn value(&mut self, of: &str) -> Result<&'a str> {
        match self.next() {
            Some(value) => Ok(value),
            None => usage(&format!("the command line is not complete: {of} needs a value")),
        }
    }

    /// The value of a keyword as a number, an address or the like.
    pub(crate) fn parsed<T: FromStr>(&mut self, of: &str) -> Result<T> {
        let value = self.value(of)?;
        let wrong = || usage(&format!("argument \"{value}\" is wrong: \"{of}\" value is invalid"));
        value.parse().or_else(|_| wrong())
    }

    /// The value of a keyword as a number, which may be hexadecimal: `0x10`.
    pub(crate) fn number(&mut self, of: &str) -> Result<u32> {
        let Some(digits) = self.0.as_slice().first().and_then(|word| word.strip_prefix("0x"))
        else {
            return self.parsed(of);
        };
        let value = self.value(of)?;
        let wrong = || usage(&format!("argument \"{value}\" is wrong: \"{of}\" value is invalid"));
        match u32::from_str_radix(digits, 16) {
            Ok(number) if !digits.starts_with('+') => Ok(number),
            _ => wrong(),
        }
    }
}

/// The error for a word that is not a keyword here, or was given already.
pub(crate) fn garbage<T>(word: &str) -> Result<T> {
    usage(&format!("\"{word}\" is a duplicate, or not a keyword here"))
}

/// A command that an object does not have.
pub(super) fn unknown<T>(object: &str) -> Result<T> {
    usage(&format!("this command of ip {object} is unknown: see `wirespeed ip help`"))
}

/// A prefix; a mere address is one of full length, `default` is the prefix of length 0.
pub(super) fn prefix(word: &str, v6: bool) -> Result<Cidr> {
    if matches!(word, "default" | "any" | "all") {
        let everything =
            if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
        return Ok(Cidr { addr: everything, prefix_len: 0 });
    }
    let found = word.parse::<Cidr>().ok().or_else(|| word.parse().ok().map(Cidr::host));
    match found {
        Some(prefix) if !v6 || prefix.addr.is_ipv6() => Ok(prefix),
        _ => usage(&format!("any valid prefix is expected rather than \"{word}\"")),
    }
}

/// A table by name or number; `None` for all.
pub(super) fn table(word: &str) -> Result<Option<u32>> {
    Ok(match word {
        "all" => None,
        "main" => Some(MAIN_TABLE),
        "default" => Some(253),
        "local" => Some(255),
        _ => match word.parse() {
            Ok(table @ 1..) => Some(table),
            _ => {
                return usage(&format!("argument \"{word}\" is wrong: \"table\" value is invalid"));
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_hexadecimal() {
        let number = |word: &str| Words::new(&[word.to_owned()]).number("mark").ok();
        assert_eq!(
            (number("16"), number("0x10"), number("0xffffffff")),
            (Some(16), Some(16), Some(!0))
        );
        assert_eq!(
            (number("0x"), number("-1"), number("0x+1"), number("0x100000000")),
            (None, None, None, None)
        );
    }
}
