//! Text of other programs, made safe for a terminal, which would interpret some of its characters.
//!
//! Called by: tools and daemons, for everything that they print.

use std::borrow::Cow;

/// Replace all characters that a terminal interprets.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Is there nothing that [`plain`] would replace?
pub fn is_plain(text: &str) -> bool {
    !text.chars().any(is_obeyed)
}

/// As [`plain`], for lines of text: line ends and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    let is_wrong = |c: char| is_obeyed(c) && c != '\n' && c != '\t';
    match text.chars().any(is_wrong) {
        false => Cow::Borrowed(text),
        true => {
            let safe = |c| if is_wrong(c) { char::REPLACEMENT_CHARACTER } else { c };
            Cow::Owned(text.chars().map(safe).collect())
        }
    }
}

/// Does a terminal interpret this character? These are the control characters of both sets, and
/// those that change the direction of writing (Unicode Standard Annex 9).
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_replaced() {
        assert_eq!(lines("a\tb\nü\n"), "a\tb\nü\n");
        assert_eq!(
            lines("\x1b]0;x\x07 \r \u{9b}2J \u{202e}\n"),
            "\u{fffd}]0;x\u{fffd} \u{fffd} \u{fffd}2J \u{fffd}\n"
        );
        assert_eq!(plain("a\nb"), "a\u{fffd}b");
        assert!(is_plain("wan.20") && !is_plain("\x1b"));
    }
}
