//! The rows of a report by the keys of their columns, for the sentences on what they show.
//!
//! Called by: experiments, to fill in [`Report::shows`](crate::Report::shows). A row that was not
//! measured has no figure, and no sentence is about that row.

use serde_json::Value;

use crate::report::Column;

/// The rows of a report.
pub(crate) struct Figures<'a> {
    columns: &'a [Column],
    rows: &'a [Vec<Value>],
}

/// One row of a report.
#[derive(Clone, Copy)]
pub(crate) struct Figure<'a> {
    columns: &'a [Column],
    row: &'a [Value],
}

impl<'a> Figures<'a> {
    pub(crate) fn of(columns: &'a [Column], rows: &'a [Vec<Value>]) -> Figures<'a> {
        Figures { columns, rows }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Figure<'a>> {
        self.rows.iter().map(|row| Figure { columns: self.columns, row })
    }

    /// The different texts of a column, in their order.
    pub(crate) fn texts(&self, key: &str) -> Vec<&'a str> {
        let mut texts = Vec::new();
        for row in self.rows() {
            let text = row.text(key);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }
}

impl<'a> Figure<'a> {
    fn value(&self, key: &str) -> Option<&'a Value> {
        let at = self.columns.iter().position(|column| column.key == key)?;
        self.row.get(at)
    }

    /// The text in a column, or an empty one.
    pub(crate) fn text(&self, key: &str) -> &'a str {
        self.value(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number in a column; `None` if it was not measured.
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64().filter(|number| number.is_finite())
    }
}

/// The rows with the lowest and the highest value in this column; `None` if no row has a value.
pub(crate) fn ends<'a>(
    rows: impl Iterator<Item = Figure<'a>>,
    key: &str,
) -> Option<[(f64, Figure<'a>); 2]> {
    let mut found: Vec<_> = rows.filter_map(|row| Some((row.number(key)?, row))).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some([*found.first()?, *found.last()?])
}

/// Words as a list: a, b and c.
pub(crate) fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::{Format, column};

    #[test]
    fn rows_without_a_figure_are_passed_over() {
        let columns =
            [column("name", "", "", Format::Text), column("ns", "", "ns", Format::Number(1))];
        let rows = [
            vec![json!("a"), json!(2.0)],
            vec![json!("b"), Value::Null],
            vec![json!("c"), json!(1)],
        ];
        let figures = Figures::of(&columns, &rows);
        let [least, most] = ends(figures.rows(), "ns").expect("two of them");
        assert_eq!((least.0, least.1.text("name"), most.0), (1.0, "c", 2.0));
        assert!(ends(figures.rows().filter(|row| row.text("name") == "b"), "ns").is_none());
        assert_eq!(figures.texts("name"), ["a", "b", "c"]);
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
