//! Tools with the answers of a program that may be anybody's.

use serde_json::json;

use wirespeed::control::protocol::About;

use super::*;

#[test]
fn nothing_in_an_answer_reaches_the_terminal() {
    let program = About { command: "a\x1b[2J".to_owned(), ..About::default() };
    let evil = "\x1b]0;title\x07";
    let body = json!([{ "via": evil, evil: [1, evil, { "deep": "\u{9b}2J" }], "fine": "wan.20" }]);
    let answer = checked(Answer { program: Some(program), body, ..Answer::default() });
    let answer = answer.expect("it is no refusal");
    let command = answer.program.expect("it was given").command;
    let shown = format!("{}{command}", show_of(&answer.body));
    assert!(wirespeed::control::text::is_plain(&shown), "{shown:?}");
    assert!(shown.contains("wan.20") && shown.contains("]0;title"), "{shown:?}");
    let refused = Answer::refusal(Refusal::Wrong, format!("no {evil}"));
    let why = checked(refused).expect_err("refused").to_string();
    assert!(wirespeed::control::text::is_plain(&why), "{why:?}");
}

/// All texts of a value, one after the other.
fn show_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(show_of).collect(),
        Value::Object(fields) => fields.iter().map(|(n, v)| format!("{n}{}", show_of(v))).collect(),
        other => other.to_string(),
    }
}
