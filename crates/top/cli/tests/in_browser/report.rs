//! The page of `lab all`, of experiments that are fast in any build.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testbed::{Browser, Case, Need};

use crate::{folder, opened};

pub(crate) const CASES: &[Case] = &[
    ("the_report_draws_every_plot_and_complains_of_nothing", &[Need::CHROMIUM], draws),
    ("the_report_opens_with_sentences_and_its_links_stay_in_view", &[Need::CHROMIUM], opens),
    ("names_are_beside_lines_and_have_one_colour_each", &[Need::CHROMIUM], named),
    ("the_report_shows_values_at_the_pointer_and_zooms", &[Need::CHROMIUM], pointed_at),
    ("the_report_fits_a_phone_and_paper_in_both_themes", &[Need::CHROMIUM], fits),
];

/// A plot of dots in panels, one of few dots, one of lines, and an experiment without a plot.
const EXPERIMENTS: &str = "mitigation,telnet,fair,storm";
const WITH_PLOT: usize = 3;

/// The page, made once.
fn page() -> String {
    static MADE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let path = MADE.get_or_init(|| {
        let path = folder().join("report.html");
        let mut program = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        program.args(["lab", "all", "--quick", "--only", EXPERIMENTS, "-o"]).arg(&path);
        let output = program.output().expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    });
    format!("file://{}", path.display())
}

fn open(width: u32, height: u32) -> Browser {
    opened(&page(), width, height)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn draws() {
    let mut browser = open(1280, 900);
    let plots = browser.evaluate("document.querySelectorAll('.plot').length");
    assert_eq!(plots, WITH_PLOT);
    // Canvases of a size, each with something on it that is not transparent.
    let drawn = browser.evaluate(
        "[...document.querySelectorAll('.plot')].map(plot => [...plot.querySelectorAll('canvas')]
           .map(canvas => {
             const data = canvas.getContext('2d')
               .getImageData(0, 0, canvas.width, canvas.height).data;
             let inked = 0;
             for (let at = 3; at < data.length; at += 4) inked += data[at] > 0;
             return [canvas.width, canvas.height, inked];
           }))",
    );
    for plot in drawn.as_array().expect("plots") {
        let canvases = plot.as_array().expect("canvases");
        assert!(!canvases.is_empty(), "a plot without a canvas: {drawn}");
        for canvas in canvases {
            assert!(number(&canvas[0]) > 200.0 && number(&canvas[1]) > 60.0, "{drawn}");
            assert!(number(&canvas[2]) > 500.0, "nothing is on it: {drawn}");
        }
    }
    // An axis has values below 0, and a bar far beyond all values does not flatten them.
    let reach = |browser: &mut Browser, point: &str| {
        let found =
            browser.evaluate(&format!("reach({{panels: [{{points: [[0, 0, {point}, null]]}}]}})"));
        [0, 1].map(|at| number(&found[at]))
    };
    let [low, high] = reach(&mut browser, "-5, -4, -3");
    assert!(low < -5.0 && (0.0..0.5).contains(&high), "{low} {high}");
    let [low, high] = reach(&mut browser, "1, 2, 1000");
    assert!(low == 0.0 && high > 2.0 && high < 10.0, "{low} {high}");
    let manifest = browser.evaluate(
        "JSON.parse(document.getElementById('manifest').textContent).experiments
           .map(e => e.name + ' ' + e.status + ' ' + (e.rows > 0 && e.rows === e.measured))",
    );
    let all: Vec<String> = EXPERIMENTS.split(',').map(|e| format!("{e} done true")).collect();
    assert_eq!(manifest, serde_json::json!(all));
    let shows = browser.evaluate("document.querySelectorAll('section > .shows').length");
    assert_eq!(shows, all.len(), "each says what it shows");
    assert_eq!(browser.complaints(), &[] as &[String]);
    let page = page();
    assert!(browser.requests().iter().all(|url| *url == page), "{:?}", browser.requests());
}

fn opens() {
    let mut browser = open(1280, 900);
    // What the experiments on this page have to say.
    let said = "[...document.querySelectorAll('.opening li a')].map(a => a.innerText).join()";
    assert_eq!(browser.evaluate(said), "fair,mitigation");
    let findings = browser.evaluate(
        "[...document.querySelectorAll('.contents tbody tr')].map(row =>
           row.cells[1].innerText.length > 20)",
    );
    assert_eq!(findings, serde_json::json!([true, true, true, true]), "each has a finding");
    let noise = "[...document.querySelectorAll('.warning')].filter(e =>
                   e.innerText.startsWith('Noisy')).length";
    assert!(browser.evaluate(noise).as_u64() <= Some(1), "the warning is given once");
    assert_eq!(browser.evaluate("document.querySelectorAll('section .warning').length"), 0);
    for (width, height) in [(1280, 900), (390, 844)] {
        browser.size(width, height);
        browser.evaluate("document.getElementById('storm').scrollIntoView()");
        let at = "(() => { const at = document.getElementById('links').getBoundingClientRect();
                   return at.top >= 0 && at.top < 40 && at.height > 20; })()";
        assert!(browser.until(Duration::from_secs(10), at), "the links are gone at {width}");
        let current = "document.querySelector('#links [aria-current]')?.innerText === 'storm'";
        assert!(browser.until(Duration::from_secs(10), current), "it is not marked at {width}");
    }
    assert_eq!(browser.complaints(), &[] as &[String]);
}

fn named() {
    let mut browser = open(1280, 900);
    // Each strip of the plot of lines: its names are right of its area, and none covers another.
    let beside = browser.evaluate(
        "[...document.querySelectorAll('#plot-fair .part')].map(part => {
           const area = part.querySelector('.u-over').getBoundingClientRect();
           const names = [...part.querySelectorAll('button.beside')].map(name =>
             name.getBoundingClientRect()).sort((a, b) => a.top - b.top);
           return names.length === 2 && names[0].bottom <= names[1].top + 1
             && names.every(name => name.left >= area.right && name.right <= innerWidth
               && name.top >= area.top - 1);
         })",
    );
    let strips = beside.as_array().expect("a list");
    assert!(strips.len() == 6 && strips.iter().all(|strip| strip == true), "{beside}");
    let colours = browser.evaluate(
        "(() => {
           const colours = {};
           for (const name of document.querySelectorAll('.legend button')) {
             const own = name.querySelector('i').style.getPropertyValue('--own');
             (colours[name.innerText.trim()] ??= new Set()).add(own);
           }
           return Object.entries(colours).map(([name, own]) => `${name} ${own.size}`);
         })()",
    );
    let colours = colours.as_array().expect("a list");
    assert!(colours.len() > 3, "{colours:?}");
    let has_one = |name: &Value| name.as_str().is_some_and(|name| name.ends_with(" 1"));
    assert!(colours.iter().all(has_one), "a name with two colours: {colours:?}");
    let apart = browser.evaluate(
        "[...document.querySelectorAll('#plot-fair .part')].map(part =>
           new Set([...part.querySelectorAll('.legend i')].map(mark =>
             mark.className + mark.style.getPropertyValue('--own'))).size)",
    );
    assert_eq!(apart, serde_json::json!([2, 2, 2, 2, 2, 2]), "two lines look alike");
}

/// The middle of the n-th plot area of an experiment, once it is in view.
fn middle(browser: &mut Browser, experiment: &str) -> [f64; 4] {
    let found = browser.evaluate(&format!(
        "(() => {{
           const over = document.querySelector('#plot-{experiment} .u-over');
           over.scrollIntoView({{block: 'center'}});
           const at = over.getBoundingClientRect();
           return [at.left, at.top, at.width, at.height];
         }})()"
    ));
    [0, 1, 2, 3].map(|at| number(&found[at]))
}

fn tip(browser: &mut Browser, experiment: &str) -> String {
    let shown = format!("document.querySelector('#plot-{experiment} .tip:not([hidden])')");
    let there = browser.until(Duration::from_secs(10), &format!("{shown} !== null"));
    assert!(there, "no values at the pointer in {experiment}");
    let text = browser.evaluate(&format!("{shown}.innerText"));
    text.as_str().expect("a text").to_owned()
}

fn pointed_at() {
    let mut browser = open(1280, 900);
    let [left, top, width, height] = middle(&mut browser, "fair");
    browser.point(left + width / 2.0, top + height / 2.0);
    let said = tip(&mut browser, "fair");
    assert!(
        said.contains(" s\n") && said.contains("cubic"),
        "a time, and the rate of each: {said}"
    );
    // A drag over a quarter of the time shows that quarter; a double click all of it again.
    let at = "document.querySelector('#plot-fair .tip:not([hidden]) b')?.innerText";
    let before = browser.evaluate(at);
    browser.drag((left + 4.0, top + height / 2.0), (left + width / 4.0, top + height / 2.0));
    browser.point(left + width / 2.0, top + height / 2.0);
    let another = format!("({at} ?? {before}) !== {before}");
    assert!(browser.until(Duration::from_secs(10), &another), "no zoom");
    let [left, top, _, height] = middle(&mut browser, "mitigation");
    // The row of the threshold itself is in the middle, its first lane in the middle of it.
    browser.point(left + 30.0, top + height / 2.0);
    let said = tip(&mut browser, "mitigation");
    assert!(said.contains("threshold") && said.chars().any(|c| c.is_ascii_digit()), "{said}");
    let hidden = browser.evaluate(
        "(() => {
           const button = document.querySelector('#plot-fair .legend button');
           button.click();
           return button.getAttribute('aria-pressed');
         })()",
    );
    assert_eq!(hidden, "false");
    assert_eq!(browser.complaints(), &[] as &[String]);
}

fn fits() {
    let folder = folder();
    let mut browser = open(1280, 900);
    browser.picture(&folder.join("report-light.png"));
    let widths = "[...document.querySelectorAll('canvas')].map(canvas => canvas.width).join()";
    let light = browser.evaluate(widths);
    browser.print(&folder.join("report.pdf"));
    browser.dark(true);
    browser.picture(&folder.join("report-dark.png"));
    browser.print(&folder.join("report-dark.pdf"));
    let ink = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_ne!(ink, "rgb(251, 251, 248)", "it is dark");
    assert_eq!(browser.evaluate(widths), light, "as wide as before the print");
    browser.dark(false);
    browser.size(390, 844);
    let drawn_again = format!("{widths} !== {light}");
    assert!(browser.until(Duration::from_secs(10), &drawn_again), "plots follow the width");
    assert_eq!(browser.overflow(), 0, "wider than a phone");
    browser.picture(&folder.join("report-phone.png"));
    browser.size(1280, 900);
    assert!(browser.until(Duration::from_secs(10), &format!("{widths} === {light}")));
    assert_eq!(browser.complaints(), &[] as &[String]);
}
