//! Text to words: lines, comments, lists that continue over lines, and where each word is.
//!
//! Called by: the readers of `text`. A word is everything between blanks; `{`, `}`, `,` and `!` are
//! words of their own. A `#` begins a comment. A line ends a rule, but not inside braces.

use super::mistake::Fault;

/// A word and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// From 1.
    pub(super) line: u32,
    /// From 1, in characters.
    pub(super) column: u32,
}

impl Token<'_> {
    /// A mistake at this word.
    pub(super) fn fault(&self, what: impl Into<String>) -> Fault {
        Fault { line: self.line, column: self.column, what: what.into() }
    }
}

/// The words of the rules of a text, and a mistake for braces without an end.
pub(super) fn statements(text: &str) -> (Vec<Vec<Token<'_>>>, Vec<Fault>) {
    let (mut statements, mut faults) = (Vec::new(), Vec::new());
    let mut words: Vec<Token<'_>> = Vec::new();
    let mut open: Vec<Token<'_>> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        for token in words_of(content, line) {
            match token.text {
                "{" => open.push(token),
                "}" if open.pop().is_none() => {
                    faults.push(token.fault("a `}` without a `{`"));
                    continue;
                }
                _ => {}
            }
            words.push(token);
        }
        if open.is_empty() && !words.is_empty() {
            statements.push(core::mem::take(&mut words));
        }
    }
    faults.extend(open.iter().map(|brace| brace.fault("a `{` without a `}`")));
    (statements, faults)
}

/// The words of one line, numbered `line`, without its comment.
pub(super) fn words_of(content: &str, line: u32) -> Vec<Token<'_>> {
    let code = content.split('#').next().unwrap_or(content);
    let (mut words, mut begin) = (Vec::new(), None);
    let mut column = 0u32;
    for (at, c) in code.char_indices() {
        column = column.saturating_add(1);
        let is_mark = matches!(c, '{' | '}' | ',' | '!');
        if is_mark || c.is_whitespace() {
            finish(&mut words, code, &mut begin, at, line);
        } else if begin.is_none() {
            begin = Some((at, column));
        }
        if is_mark && let Some(text) = code.get(at..at + 1) {
            words.push(Token { text, line, column });
        }
    }
    finish(&mut words, code, &mut begin, code.len(), line);
    words
}

fn finish<'a>(
    words: &mut Vec<Token<'a>>,
    code: &'a str,
    begin: &mut Option<(usize, u32)>,
    end: usize,
    line: u32,
) {
    if let Some((from, column)) = begin.take()
        && let Some(text) = code.get(from..end)
    {
        words.push(Token { text, line, column });
    }
}

/// The words on one line, as rules are shown: `{a, b}`, `80,443`, `!10.0.0.0/8`.
pub(super) fn on_one_line(words: &[Token<'_>]) -> String {
    let mut line = String::new();
    let (mut depth, mut glue) = (0u32, true);
    for word in words {
        let closes = matches!(word.text, "," | "}");
        if !glue && !closes {
            line.push(' ');
        }
        line.push_str(word.text);
        match word.text {
            "{" => depth = depth.saturating_add(1),
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        glue = matches!(word.text, "{" | "!") || (word.text == "," && depth == 0);
    }
    line
}

/// Walks over the words of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a, 's> {
    words: &'s [Token<'a>],
    at: usize,
}

impl<'a, 's> Cursor<'a, 's> {
    pub(super) fn new(words: &'s [Token<'a>]) -> Cursor<'a, 's> {
        Cursor { words, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.words.get(self.at).copied()
    }

    /// The next word, if it is this one, is taken.
    pub(super) fn accept(&mut self, text: &str) -> bool {
        let is_it = self.peek().is_some_and(|word| word.text == text);
        self.at += usize::from(is_it);
        is_it
    }

    /// How many words are behind the cursor.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next word; without one, a mistake at the last word: `what` is missing.
    pub(super) fn expect(&mut self, what: &str) -> Result<Token<'a>, Fault> {
        let last = self.words.last().ok_or_else(|| Fault::at_start(what))?;
        let next = self.peek();
        self.at += usize::from(next.is_some());
        let behind = last.column.saturating_add(last.text.chars().count() as u32);
        next.ok_or_else(|| Token { column: behind, ..*last }.fault(what))
    }

    /// Skip to the next word outside of braces for which `stop` holds.
    pub(super) fn skip_to(&mut self, stop: impl Fn(&str) -> bool) {
        let mut depth = 0u32;
        while let Some(word) = self.peek() {
            match word.text {
                "{" => depth = depth.saturating_add(1),
                "}" => depth = depth.saturating_sub(1),
                text if depth == 0 && stop(text) => return,
                _ => {}
            }
            self.at += 1;
        }
    }
}

impl<'a> Iterator for Cursor<'a, '_> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }
}
