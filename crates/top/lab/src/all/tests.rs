//! The run of several experiments and its page: the contents if some experiments fail, lack rows or
//! are stopped. No text is read as HTML.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Format, Report, column, with_missing};

fn options(only: &[&str]) -> Options {
    let only = only.iter().map(|&name| name.to_owned()).collect();
    Options { quick: true, page: None, only, json: false, out: None }
}

fn all(ended: Vec<Ended>) -> All {
    All {
        ended,
        machine: Machine::now(),
        date: "2026-01-02 03:04 UTC".to_owned(),
        seconds: 1.0,
        interrupted: false,
        quick: true,
        command: "wirespeed lab all --quick -o report.html".to_owned(),
    }
}

fn envelope(experiment: &'static Experiment) -> Envelope {
    Envelope {
        lab: experiment.name,
        question: experiment.question,
        machine: Machine::now(),
        seconds: 0.5,
        interrupted: false,
    }
}

fn ended(at: usize, end: impl FnOnce(&'static Experiment) -> End) -> Ended {
    let experiment = &EXPERIMENTS[at];
    Ended {
        experiment,
        command: format!("wirespeed lab {}", experiment.name),
        end: end(experiment),
    }
}

/// A report whose texts all have characters that could end an HTML element.
fn report() -> Report {
    let dots = Dots {
        title: "a <title>".to_owned(),
        subtitle: String::new(),
        axis: "</script>".to_owned(),
        row_title: String::new(),
        rows: vec!["one".to_owned()],
        series: vec!["a".to_owned()],
        panels: vec![Panel {
            title: String::new(),
            rows: Vec::new(),
            points: vec![Point { row: 0, series: 0, span: None, quoted: None }],
        }],
        quoted: String::new(),
    };
    Report {
        columns: vec![
            column("name", "name", "", Format::Text),
            column("ns", "ns", "ns", Format::Number(1)),
        ],
        rows: vec![vec![json!("<b>"), json!(1.25)], vec![json!("</td>"), Value::Null]],
        shows: vec!["It shows <this>.".to_owned()],
        notes: with_missing(Vec::new(), 1, 2, "rows"),
        plot: Some(Plot::Dots(dots)),
        ..Report::default()
    }
}

fn element(html: &str, id: &str) -> Value {
    let start = format!("<script type=\"application/json\" id=\"{id}\">");
    let (_, rest) = html.split_once(&start).expect(id);
    let (text, _) = rest.split_once("</script>").expect(id);
    serde_json::from_str::<Value>(text).expect("JSON")
}

#[test]
fn the_page_has_all_experiments_with_how_they_ended() {
    let all = all(vec![
        ended(0, |e| End::Done(Box::new((report(), envelope(e))))),
        ended(1, |e| End::Failed("needs root & more".to_owned(), Box::new(envelope(e)))),
        ended(2, |_| End::NotRun),
    ]);
    let html = page::html(&all);
    for text in
        ["<td>&lt;b&gt;</td>", "It shows &lt;this&gt;.", "needs root &amp; more", "a &lt;title"]
    {
        assert!(html.contains(text), "no {text}");
    }
    for text in ["<b>", "<this>", "<title>.", "http://", "https://", "src="] {
        let body = html.split_once("<body>").expect("a body").1;
        let body = body.split_once("<script>").expect("the scripts are last").0;
        assert!(!body.contains(text), "{text}");
    }
    let manifest = element(&html, "manifest");
    let of = |key: &str| {
        let each = manifest["experiments"].as_array().expect("a list");
        each.iter().map(|e| e[key].clone()).collect::<Vec<Value>>()
    };
    assert_eq!(of("name"), [json!("wan"), json!("fair"), json!("mitigation")]);
    assert_eq!(of("status"), [json!("partly"), json!("failed"), json!("not run")]);
    assert_eq!(of("rows"), [json!(2), json!(0), json!(0)]);
    assert_eq!(of("measured"), [json!(1), json!(0), json!(0)]);
    let plots = element(&html, "plots");
    assert_eq!(plots.as_array().map(Vec::len), Some(1));
    assert_eq!(plots[0]["axis"], "</script>");
}

#[test]
fn the_warning_about_noise_is_given_once_and_experiments_in_real_time_are_marked() {
    let at = |name: &str| EXPERIMENTS.iter().position(|e| e.name == name).expect(name);
    let done = |name| ended(at(name), |e| End::Done(Box::new((report(), envelope(e)))));
    let mut all = all(vec![done("wan"), done("tap"), done("pps")]);
    for (noisy, warnings, marks) in [(true, 1, 1 + 2), (false, 0, 0)] {
        all.machine.noise.noisy = noisy;
        let html = page::html(&all);
        assert_eq!(html.matches("<strong>Noisy machine").count(), warnings);
        assert_eq!(html.matches("<span class=\"time\">real time</span>").count(), marks);
    }
}

#[test]
fn the_index_has_findings_and_tables_have_units() {
    let html = page::html(&all(vec![
        ended(0, |e| End::Done(Box::new((report(), envelope(e))))),
        ended(1, |e| End::Failed("needs root".to_owned(), Box::new(envelope(e)))),
    ]));
    let (index, _) = html.split_once("</header>").expect("a header");
    assert!(index.contains("<td>It shows &lt;this&gt;.</td>"), "{index}");
    assert!(index.contains("<td>No figures: needs root.</td>"), "{index}");
    // The unit "ns" is not repeated below a head that is "ns"; a unit that says more is shown.
    assert!(html.contains("<th class=\"number\">ns</th>"), "no unit twice");
    let mut other = report();
    other.columns[1] = column("ns", "time", "ns a packet", Format::Number(1));
    other.rows[0][1] = json!(1_234_567);
    other.shows = vec!["Of 12345, and (98765.5) or 1234.".to_owned()];
    let html = page::html(&all(vec![ended(0, |e| End::Done(Box::new((other, envelope(e)))))]));
    assert!(html.contains("Of 12,345, and (98,765.5) or 1234."));
    assert!(html.contains("<th class=\"number\">time<small>ns a packet</small></th>"));
    assert!(html.contains("<td class=\"number\">1,234,567.0</td>"));
}

/// The contents of the elements `<name>` that have no attributes; the elements with data have some.
fn inline<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts = html.split(begin.as_str()).skip(1);
    parts.map(|part| part.split_once(end.as_str()).expect("its end").0).collect()
}

#[test]
fn the_policy_of_the_page_has_the_hash_of_each_script_and_style() {
    let html = page::html(&all(vec![ended(0, |e| End::Done(Box::new((report(), envelope(e)))))]));
    let (_, policy) = html.split_once("Content-Security-Policy\" content=\"").expect("a policy");
    let (policy, _) = policy.split_once('"').expect("its end");
    for (element, directive, count) in [("script", "script-src", 2), ("style", "style-src", 1)] {
        let sources = policy.split("; ").find_map(|part| part.strip_prefix(directive));
        let sources: Vec<&str> = sources.expect(directive).split_whitespace().collect();
        let texts = inline(&html, element);
        let hashes: Vec<String> = texts.iter().map(|text| ::page::policy_source(text)).collect();
        assert_eq!(sources, hashes, "{element}");
        assert_eq!(hashes.len(), count, "{element}");
    }
    // The policy forbids these, and a browser would complain.
    let (body, _) = html.split_once("<script>").expect("the scripts are last");
    for forbidden in ["style=", "onclick=", "onload=", "javascript:"] {
        assert!(!body.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn the_document_has_the_document_of_each() {
    let all = all(vec![
        ended(0, |e| End::Done(Box::new((report(), envelope(e))))),
        ended(1, |e| End::Failed("needs root".to_owned(), Box::new(envelope(e)))),
        ended(2, |_| End::NotRun),
    ]);
    let document = all.document();
    assert_eq!(document["lab"], "all");
    let each = document["experiments"].as_array().expect("a list");
    assert_eq!(each[0]["rows"][0]["ns"], 1.25);
    assert_eq!(each[1]["error"], "needs root");
    assert_eq!((each[2]["lab"].clone(), each[2]["rows"].clone()), (json!("mitigation"), json!([])));
    assert!(all.summary().contains("wan: partly, 1 of 2 rows"), "{}", all.summary());
    assert!(all.tables().contains("No figures: needs root."), "{}", all.tables());
}

#[test]
fn a_stopped_run_has_what_it_came_to_and_names_the_rest() {
    let asked = AtomicUsize::new(0);
    // Telnet asks four times; the machine has been asked once before.
    let stop = || asked.fetch_add(1, Ordering::Relaxed) >= 7;
    let ended = run_each(&options(&["telnet", "storm", "telnet"]), &stop).expect("names");
    let of: Vec<_> = ended.iter().map(|e| (e.experiment.name, e.status())).collect();
    assert_eq!(of.len(), 2, "each once");
    assert_eq!((of[0].0, of[1].0), ("telnet", "storm"), "as asked for");
    assert!(["stopped", "not run"].contains(&of[1].1), "{of:?}");
}

#[test]
fn without_names_all_are_run() {
    assert_eq!(options(&[]).experiments().len(), EXPERIMENTS.len());
    assert_eq!(options(&["wan", "wan"]).experiments().len(), 1);
}
