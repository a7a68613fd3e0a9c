//! A Rust file as the checks of tidy read it: its text, its code without comments and without the
//! contents of literals, and that code without tests.
//!
//! A small lexer, not a parser: it knows comments, strings, raw strings, character literals and
//! braces. That is enough on code that rustfmt has laid out.

/// One Rust file. `code` and `library` have the same lines as `text`.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    /// Comments and the contents of literals blanked.
    pub(crate) code: String,
    /// `code` with `#[cfg(test)]` items blanked too; empty for files of tests.
    pub(crate) library: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let code = scrub(text);
        let library = if is_test(path) { String::new() } else { without_tests(&code) };
        Source { path: path.to_owned(), text: text.to_owned(), code, library }
    }

    /// The crate's folder: `tcp` for `crates/core/tcp/src/lib.rs`, `xtask` for `xtask/src/main.rs`.
    pub(crate) fn krate(&self) -> &str {
        krate(&self.path)
    }

    /// The beginning of line `index` (from 0) as it was written, for messages.
    pub(crate) fn shown(&self, index: usize) -> String {
        self.text.lines().nth(index).unwrap_or("").trim().chars().take(60).collect()
    }

    /// Lines of `library` with their numbers, from 1.
    pub(crate) fn library_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.library.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// The crate that a path belongs to, by its folder's name.
pub(crate) fn krate(path: &str) -> &str {
    match path.strip_prefix("crates/").and_then(|path| path.split_once('/')) {
        Some((_floor, path)) => path,
        None => path,
    }
    .split('/')
    .next()
    .unwrap_or("")
}

/// Is the whole file tests?
pub(crate) fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || path.contains("/benches/")
        || path.ends_with("/tests.rs")
        || path.starts_with("fuzz/")
}

/// Does `line` contain `word` as a whole word, not as part of a longer identifier?
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (first, last) = (word.chars().next(), word.chars().last());
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !(part(first) && part(before) || part(last) && part(after))
    })
}

/// Replace comments and literals by spaces; line breaks stay where they are.
pub(crate) fn scrub(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match literal_or_comment(&chars, at) {
            Some(end) => end,
            None => {
                out.push(chars[at]);
                at += 1;
                continue;
            }
        };
        for &c in &chars[at..end] {
            out.push(if c == '\n' { '\n' } else { ' ' });
        }
        at = end;
    }
    out
}

/// Where the comment or literal that starts at `at` ends, if one starts there.
fn literal_or_comment(chars: &[char], at: usize) -> Option<usize> {
    let next = |n: usize| chars.get(at + n).copied();
    match chars[at] {
        '/' if next(1) == Some('/') => Some(find(chars, at, |w| w[0] == '\n')),
        '/' if next(1) == Some('*') => Some(block_comment(chars, at)),
        '"' => Some(string(chars, at)),
        'r' if !after_identifier(chars, at) => raw_string(chars, at),
        '\'' => char_literal(chars, at),
        _ => None,
    }
}

fn after_identifier(chars: &[char], at: usize) -> bool {
    // `br"` and `cr"` are raw strings too.
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    match at.checked_sub(1).map(|i| chars[i]) {
        Some('b' | 'c') => at >= 2 && is_part(chars[at - 2]),
        Some(c) => is_part(c),
        None => false,
    }
}

fn find(chars: &[char], from: usize, stop: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len()).find(|&i| stop(&chars[i..])).unwrap_or(chars.len())
}

fn block_comment(chars: &[char], at: usize) -> usize {
    let (mut i, mut depth) = (at, 0_usize);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => {
                (depth, i) = (depth - 1, i + 2);
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

fn string(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

fn raw_string(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return None;
    }
    let closes = |w: &[char]| w[0] == '"' && w[1..].iter().take(hashes).all(|&c| c == '#');
    Some((find(chars, at + 2 + hashes, closes) + 1 + hashes).min(chars.len()))
}

/// `'x'` and `'\n'` are literals, `'static` is a lifetime.
fn char_literal(chars: &[char], at: usize) -> Option<usize> {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), Some(_)) => Some((find(chars, at + 3, |w| w[0] == '\'') + 1).min(chars.len())),
        (Some(_), Some('\'')) => Some(at + 3),
        _ => None,
    }
}

/// Blank every item under `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut lines: Vec<String> = code.lines().map(str::to_owned).collect();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].contains("#[cfg(test)]") || lines[at].contains("#[cfg(all(test") {
            let end = item_end(&lines, at + 1);
            lines[at..=end.min(code.lines().count() - 1)].iter_mut().for_each(String::clear);
            at = end;
        }
        at += 1;
    }
    lines.join("\n")
}

/// The line on which the item that starts at line `from` ends: at its `;` or its closing brace.
pub(crate) fn item_end<S: AsRef<str>>(lines: &[S], from: usize) -> usize {
    let mut depth = 0_i32;
    for (index, line) in lines.iter().enumerate().skip(from) {
        for c in line.as_ref().chars() {
            match c {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 && (c == '}' || c == ';') {
                return index;
            }
        }
    }
    lines.len().saturating_sub(1)
}
