//! Tables for people: columns as wide as their widest cell. A row that is wider than the terminal
//! goes on in further lines; elsewhere it is one line, whatever its width, for `grep` and `awk`.
//!
//! Called by: `show`, `top --batch`.

use std::io::{self, IsTerminal};

use rustix::termios::tcgetwinsize;

/// Spaces before a row, and before each of its further lines.
const INDENT: usize = 2;
const FURTHER: usize = 6;

/// The head and its rows; each row has as many cells as the head.
pub(crate) fn text(head: &[&str], rows: &[Vec<String>]) -> String {
    fitted(head, rows, columns())
}

/// Columns of the terminal that standard output is; none for files and pipes.
fn columns() -> Option<usize> {
    let output = io::stdout();
    let size = output.is_terminal().then(|| tcgetwinsize(&output).ok()).flatten();
    size.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

fn fitted(head: &[&str], rows: &[Vec<String>], columns: Option<usize>) -> String {
    let length = |text: &str| text.chars().count();
    let widest = |(n, name): (usize, &&str)| {
        rows.iter().map(|row| length(&row[n])).chain([length(name)]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = head.iter().enumerate().map(widest).collect();
    let pieces = pieces(&widths, columns);
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let mut text = String::new();
    for row in [&head].into_iter().chain(rows) {
        for (number, piece) in pieces.iter().enumerate() {
            let cells = piece.clone().map(|n| format!("{:<width$}", row[n], width = widths[n]));
            let line = cells.collect::<Vec<_>>().join("  ");
            text += &" ".repeat(if number == 0 { INDENT } else { FURTHER });
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

/// The columns of each line of a row: as many as fit, and one at least.
fn pieces(widths: &[usize], columns: Option<usize>) -> Vec<std::ops::Range<usize>> {
    let (mut pieces, mut begin, mut used) = (Vec::new(), 0, INDENT);
    for (n, width) in widths.iter().enumerate() {
        if n > begin && columns.is_some_and(|columns| used + width > columns) {
            pieces.push(begin..n);
            (begin, used) = (n, FURTHER);
        }
        used += width + 2;
    }
    pieces.push(begin..widths.len());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![row(["192.0.2.1:80", "ESTABLISHED", "12", "-"]), row(["ü", "LISTEN", "3", "end"])]
    }

    const HEAD: [&str; 4] = ["local", "state", "RTT ms", "name"];

    #[test]
    fn a_row_is_one_line_where_it_fits_or_nobody_looks() {
        let whole = "  local         state        RTT ms  name\n  \
                       192.0.2.1:80  ESTABLISHED  12      -\n  \
                       ü             LISTEN       3       end\n";
        assert_eq!(fitted(&HEAD, &rows(), None), whole);
        assert_eq!(fitted(&HEAD, &rows(), Some(41)), whole);
    }

    #[test]
    fn a_row_that_is_wider_than_the_terminal_goes_on() {
        let text = fitted(&HEAD, &rows(), Some(40));
        assert_eq!(text.lines().nth(2), Some("  192.0.2.1:80  ESTABLISHED  12"));
        assert_eq!(text.lines().nth(3), Some("      -"));
        for columns in 1..60 {
            let text = fitted(&HEAD, &rows(), Some(columns));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns.max(FURTHER + 12)), "{columns}: {text}");
            assert_eq!(text.split_whitespace().count(), 13, "nothing is left out: {text}");
        }
    }

    #[test]
    fn a_table_without_rows_has_its_head() {
        assert_eq!(fitted(&["a", "b"], &[], None), "  a  b\n");
    }
}
