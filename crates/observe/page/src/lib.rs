//! Parts that the web pages share: the library for plots, names beside lines, the colours in light
//! and dark, escaped text, and the names of scripts and styles in a page's security policy.
//!
//! Called by: the lab's report, the live page, pages of captures. A page is one file that contains
//! all of these parts, so that it needs no network.
//!
//! The library is uPlot 1.6.32 (MIT, `assets/uplot.LICENSE`): lines, points and bars on a canvas,
//! with hover and zoom.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// uPlot, which defines `uPlot`.
pub const UPLOT_JS: &str = include_str!("../assets/uplot.min.js");
/// The style of uPlot.
pub const UPLOT_CSS: &str = include_str!("../assets/uplot.min.css");
/// Names beside lines: `spread`, `lastPlace`, `putBeside`, for plots by uPlot.
pub const NAMES_JS: &str = include_str!("../assets/names.js");
/// Colours, type, tables and print: variables `--page --panel --ink --quiet --rule --good --bad`,
/// and `--s1` to `--s8` for series; the class `beside` for names beside lines.
pub const THEME_CSS: &str = include_str!("../assets/theme.css");

/// The text with HTML's special characters escaped, for elements and quoted attributes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// JSON that is safe inside a `<script>` element: nothing in it can end the element.
pub fn json_in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// The name of a script or a style in a Content-Security-Policy: its hash, so that a browser
/// accepts only this text (Content Security Policy Level 3, section 2.3.1).
pub fn policy_source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash is what `openssl dgst -sha256 -binary | base64` prints.
    #[test]
    fn a_script_is_called_by_its_hash() {
        let expected = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='";
        assert_eq!(policy_source("alert('Hello, world.');"), expected);
    }

    #[test]
    fn nothing_of_a_text_is_read_as_html() {
        assert_eq!(escaped(r#"<b a="1">&'"#), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
        assert_eq!(json_in_script(r#"{"a":"</script>"}"#), r#"{"a":"\u003c/script>"}"#);
    }
}
