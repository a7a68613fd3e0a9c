//! Names in rules: `github.com`, and `*.github.com` for all names below it.
//!
//! Called by: `text`, `compiled`, `resolving`. RFC 5890 (A-labels), RFC 1035 section 2.3.1.

use core::fmt;

use host::dns::DomainName;

/// A name, or all names below one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// The name, or the one that the others are below.
    pub name: DomainName,
    /// All names below `name`, at any depth, and not `name` itself.
    pub is_below: bool,
}

impl Pattern {
    /// Read a name: in any letter case, with letters of any script, which become A-labels
    /// (`xn--`).
    ///
    /// # Errors
    /// It is no name; the text says what to write.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let (is_below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if text == "*" {
            return Err("`*` alone is no name: write `any`".to_owned());
        }
        if let Some(rest) = text.strip_prefix('.') {
            return Err(format!("`{text}` begins with a dot: write `*.{rest}`, and `{rest}`"));
        }
        if rest.contains('*') {
            return Err(format!("`{text}`: a `*` stands only at the beginning, as in `*.x.org`"));
        }
        let ascii = match rest.is_ascii() {
            true => rest.to_owned(),
            false => idna::domain_to_ascii(rest)
                .map_err(|_| format!("`{text}` is no international name (RFC 5891)"))?,
        };
        let name =
            DomainName::parse(&ascii).map_err(|why| format!("`{text}` is no name: {why}"))?;
        Ok(Pattern { name, is_below })
    }

    /// Is it about this name?
    pub fn matches(&self, name: &DomainName) -> bool {
        match self.is_below {
            true => name != &self.name && name.is_within(&self.name),
            false => name == &self.name,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_below { "*." } else { "" };
        write!(f, "{star}{}", self.name)
    }
}

/// The name and those above it in wire format, itself first, the root not among them.
pub(crate) fn suffixes(name: &DomainName) -> impl Iterator<Item = &[u8]> {
    let mut rest = name.wire();
    core::iter::from_fn(move || {
        let all = rest;
        let &length = all.first().filter(|&&length| length > 0)?;
        rest = all.get(1 + usize::from(length)..)?;
        Some(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_those_below_them() {
        let matches = |pattern: &str, name: &str| {
            let pattern = Pattern::parse(pattern).expect(pattern);
            pattern.matches(&DomainName::parse(name).expect(name))
        };
        for (pattern, name, expected) in [
            ("github.com", "github.com", true),
            ("GitHub.COM.", "github.com", true),
            ("github.com", "api.github.com", false),
            ("*.github.com", "github.com", false),
            ("*.github.com", "a.b.github.com", true),
            ("*.github.com", "notgithub.com", false),
            ("b\u{fc}cher.example", "xn--bcher-kva.example", true),
            ("*.B\u{dc}CHER.example", "www.xn--bcher-kva.example", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_no_name_says_what_to_write() {
        for (text, part) in [
            ("*", "write `any`"),
            (".x.org", "write `*.x.org`"),
            ("a.*.org", "only at the beginning"),
            ("*.*.org", "only at the beginning"),
            ("a..b", "nothing between two dots"),
            ("10.0.0", "four numbers"),
            ("a b", "is no name"),
            ("", "empty"),
        ] {
            let why = Pattern::parse(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn suffixes_are_the_names_above() {
        let name = DomainName::parse("a.bc.d").expect("a name");
        let all: Vec<&[u8]> = suffixes(&name).collect();
        assert_eq!(all, [&b"\x01a\x02bc\x01d\0"[..], b"\x02bc\x01d\0", b"\x01d\0"]);
    }
}
