//! Domain names: from text, to text, and joined with the search list (RFC 1035 sections 2.3.1,
//! 3.1; RFC 1123 section 2.1).
//!
//! Called by: `lookup.rs`, `config.rs`, `hosts.rs`, `message.rs`, `forwarder`.

use core::fmt;

/// Bytes of a name in wire format, its length bytes and the root included.
const WIRE_MAX: usize = 255;
const LABEL_MAX: usize = 63;

/// A domain name in wire format and in lower case: names that differ only in case are equal. As
/// text it has no dot at its end, and what is no letter, digit, hyphen or underscore is escaped, a
/// dot inside a label too: names that look alike are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(Vec<u8>);

/// Why a text is no host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// No text, or only a dot.
    Empty,
    /// More than 253 characters.
    TooLong,
    /// Two dots in a row, or a dot in front.
    EmptyLabel,
    /// A part of more than 63 characters.
    LabelTooLong,
    /// A character that is not a letter, a digit, a hyphen or an underscore.
    Character(char),
    /// A part that begins with a hyphen, which programs would take for an option.
    Hyphen,
    /// The name's last part is a number, so the name was meant as an address.
    NotAnAddress,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("it is empty"),
            NameError::TooLong => f.write_str("it is longer than 253 characters"),
            NameError::EmptyLabel => f.write_str("there is nothing between two dots"),
            NameError::LabelTooLong => {
                f.write_str("a part between dots is longer than 63 characters")
            }
            NameError::Character(c) => write!(
                f,
                "it contains {c:?}: write a name with other letters in its ASCII form, xn--"
            ),
            NameError::Hyphen => f.write_str("a part of it begins with a hyphen"),
            NameError::NotAnAddress => f.write_str(
                "it ends in a number but is no address: write four numbers, as 192.0.2.1",
            ),
        }
    }
}

impl core::error::Error for NameError {}

impl DomainName {
    /// Parse a host name; a dot at its end is allowed and changes nothing here.
    ///
    /// # Errors
    /// What keeps the text from being a host name.
    pub fn parse(text: &str) -> Result<DomainName, NameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        let mut wire = Vec::with_capacity(text.len().min(WIRE_MAX) + 2);
        for label in text.split('.') {
            if label.is_empty() {
                return Err(NameError::EmptyLabel);
            }
            let allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
            if let Some(c) = label.chars().find(|c| !allowed(c)) {
                return Err(NameError::Character(c));
            }
            if label.len() > LABEL_MAX {
                return Err(NameError::LabelTooLong);
            }
            if label.starts_with('-') {
                return Err(NameError::Hyphen);
            }
            wire.push(label.len() as u8);
            wire.extend(label.bytes().map(|b| b.to_ascii_lowercase()));
        }
        wire.push(0);
        if wire.len() > WIRE_MAX {
            return Err(NameError::TooLong);
        }
        let last = text.rsplit('.').next().unwrap_or("");
        let hexadecimal = last.strip_prefix("0x").or(last.strip_prefix("0X"));
        let is_number = match hexadecimal {
            Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
            None => last.bytes().all(|b| b.is_ascii_digit()),
        };
        if is_number {
            return Err(NameError::NotAnAddress);
        }
        Ok(DomainName(wire))
    }

    /// A name from the labels of a message, the root not among them.
    pub(crate) fn from_labels<'a>(labels: impl Iterator<Item = &'a [u8]>) -> DomainName {
        let mut wire = Vec::new();
        for label in labels.filter(|label| !label.is_empty()) {
            wire.push(label.len() as u8);
            wire.extend(label.iter().map(u8::to_ascii_lowercase));
        }
        wire.push(0);
        DomainName(wire)
    }

    /// The name with `suffix` behind it; `None` if that is too long.
    pub(crate) fn joined(&self, suffix: &DomainName) -> Option<DomainName> {
        let mut wire = self.0[..self.0.len() - 1].to_vec();
        wire.extend(&suffix.0);
        (wire.len() <= WIRE_MAX).then_some(DomainName(wire))
    }

    /// In wire format: labels with their lengths in front, the last one empty.
    pub fn wire(&self) -> &[u8] {
        &self.0
    }

    /// The labels from left to right, the root not among them.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.0.as_slice();
        core::iter::from_fn(move || {
            let (&len, behind) = rest.split_first()?;
            let (label, behind) = behind.split_at_checked(len.into())?;
            rest = behind;
            (len > 0).then_some(label)
        })
    }

    /// Is it `suffix`, or a name below it?
    pub fn is_within(&self, suffix: &DomainName) -> bool {
        let (ours, theirs) = (self.labels().count(), suffix.labels().count());
        ours >= theirs && self.labels().skip(ours - theirs).eq(suffix.labels())
    }

    /// Is its last label `label`?
    pub(crate) fn ends_with(&self, label: &str) -> bool {
        self.labels().last() == Some(label.as_bytes())
    }

    /// Dots between its labels.
    pub(crate) fn dots(&self) -> usize {
        self.labels().count().saturating_sub(1)
    }
}

/// Put each letter of a name in wire format into upper or lower case at random: a forger has to
/// guess about one bit more for each letter (draft-vixie-dnsext-dns0x20).
pub(super) fn mix_case(wire: &mut [u8], mut draw: impl FnMut() -> u64) {
    let (mut bits, mut left) = (0, 0);
    // A length byte is 63 at most and so never a letter.
    for byte in wire.iter_mut().filter(|byte| byte.is_ascii_alphabetic()) {
        if left == 0 {
            (bits, left) = (draw(), 64);
        }
        byte.make_ascii_lowercase();
        if bits & 1 == 1 {
            byte.make_ascii_uppercase();
        }
        (bits, left) = (bits >> 1, left - 1);
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, label) in self.labels().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            for &byte in label {
                match byte {
                    b'-' | b'_' | b'*' => write!(f, "{}", char::from(byte))?,
                    _ if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(byte))?,
                    // RFC 1035 section 5.1.
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DomainName {
        DomainName::parse(text).expect("a name")
    }

    #[test]
    fn names_are_checked() {
        let wrong = |text: &str| DomainName::parse(text).expect_err(text);
        assert_eq!(wrong(""), NameError::Empty);
        assert_eq!(wrong("."), NameError::Empty);
        assert_eq!(wrong("a..b"), NameError::EmptyLabel);
        assert_eq!(wrong(".a"), NameError::EmptyLabel);
        assert_eq!(wrong("a.."), NameError::EmptyLabel);
        assert_eq!(wrong("-a.b"), NameError::Hyphen);
        assert_eq!(wrong("a b"), NameError::Character(' '));
        assert_eq!(wrong("b\u{fc}cher.example"), NameError::Character('\u{fc}'));
        assert_eq!(wrong("192.0.2.256"), NameError::NotAnAddress);
        assert_eq!(wrong("127.1"), NameError::NotAnAddress);
        assert_eq!(wrong("0x7f.0x1"), NameError::NotAnAddress);
        assert_eq!(wrong(&"a".repeat(64)), NameError::LabelTooLong);
        let labels = |count| vec!["a".repeat(63); count].join(".");
        assert_eq!(wrong(&labels(4)), NameError::TooLong);
        let longest = format!("{}.{}", labels(3), "a".repeat(61));
        assert_eq!(longest.len(), 253);
        assert_eq!(name(&longest).wire().len(), 255);
        assert_eq!(wrong(&format!("{longest}a")), NameError::TooLong);
    }

    #[test]
    fn names_are_lower_case_and_the_last_dot_does_not_count() {
        assert_eq!(name("WWW.Example.").to_string(), "www.example");
        assert_eq!(name("a.b").wire(), b"\x01a\x01b\0");
        assert_eq!(name("_x-1.3com").dots(), 1);
        let odd = DomainName::from_labels([&b"a.b"[..], b"\\\n"].into_iter());
        assert_eq!(odd.to_string(), "a\\046b.\\092\\010");
    }

    #[test]
    fn a_name_is_within_its_suffixes() {
        assert!(name("a.b.c").is_within(&name("b.c")));
        assert!(name("b.c").is_within(&name("B.C")));
        assert!(!name("ab.c").is_within(&name("b.c")));
        assert!(!name("c").is_within(&name("b.c")));
        assert_eq!(name("a").joined(&name("b.c")), Some(name("a.b.c")));
        let long = name(&vec!["a".repeat(63); 3].join("."));
        assert_eq!(long.joined(&long), None);
    }
}
