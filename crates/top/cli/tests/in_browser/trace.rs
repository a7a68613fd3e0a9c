//! The page of `trace`, of a capture at both ends of a transfer in memory: taken as one interface,
//! it has each segment twice, so that every kind of mark is drawn that a loss causes.

use std::path::PathBuf;
use std::time::Duration;

use testbed::{Browser, Case, Need};

use crate::common::{code, run, stderr};
use crate::running::Running;
use crate::{folder, opened};

pub(crate) const CASES: &[Case] = &[
    ("the_page_of_a_capture_draws_its_graphs_under_its_policy", &[Need::CHROMIUM], draws),
    ("the_page_of_a_capture_fits_a_phone_and_paper", &[Need::CHROMIUM], fits),
];

/// The page, made once.
fn page() -> String {
    static MADE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let path = MADE.get_or_init(|| {
        let [capture, page] = ["trace.pcapng", "trace.html"].map(|name| folder().join(name));
        let [file, out] = [&capture, &page].map(|path| path.to_str().expect("a path in UTF-8"));
        let running = Running::start("1").ready();
        let dumped = running.ask(&["dump", "-c", "4000", "-s", "100", "-w", file]);
        assert_eq!(code(&dumped), 0, "{}", stderr(&dumped));
        let traced = run(&["trace", "--together", file, "-o", out]);
        assert_eq!(code(&traced), 0, "{}", stderr(&traced));
        page
    });
    format!("file://{}", path.display())
}

fn open(width: u32, height: u32) -> Browser {
    opened(&page(), width, height)
}

/// The least number of pixels that are drawn on, of all graphs.
const INKED: &str = "Math.min(...[...document.querySelectorAll('.graph canvas')].map(canvas => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let inked = 0;
  for (let at = 3; at < data.length; at += 4) inked += data[at] > 0;
  return inked;
}))";

fn draws() {
    let mut browser = open(1280, 900);
    let graphs = browser.evaluate("document.querySelectorAll('.graph canvas').length");
    assert!(graphs.as_u64() >= Some(1), "no graph: {graphs}");
    assert!(browser.until(Duration::from_secs(10), &format!("{INKED} > 500")), "nothing drawn");
    // Each name of the key has its colour: the policy has not kept the style away.
    let colours = browser.evaluate(
        "new Set([...document.querySelectorAll('.key i')]
           .map(i => getComputedStyle(i).backgroundColor)).size",
    );
    assert_eq!(colours, 7, "seven names, seven colours");
    // The labels of the seconds tell the grid's lines apart.
    let labels = browser.evaluate(
        "(() => {
           const values = plots[0].axes[0]._values.filter(label => label);
           return [values.length, new Set(values).size];
         })()",
    );
    assert!(labels[0].as_u64() > Some(2) && labels[0] == labels[1], "{labels}");
    // A segment under the pointer is described in words.
    let at = browser.evaluate(
        "(() => {
           const { left, top, width, height } =
             document.querySelector('.graph .u-over').getBoundingClientRect();
           const spots = [];
           for (let x = 0.1; x < 1; x += 0.1) for (let y = 0.1; y < 1; y += 0.1)
             spots.push([left + x * width, top + y * height]);
           return spots;
         })()",
    );
    let spots = at.as_array().expect("a list");
    let told = spots.iter().any(|spot| {
        browser.point(spot[0].as_f64().expect("x"), spot[1].as_f64().expect("y"));
        browser.evaluate("document.querySelector('.said').textContent.includes(' s: ')") == true
    });
    assert!(told, "no segment is told at any of {} places", spots.len());
    assert_eq!(browser.complaints(), &[] as &[String]);
    let page = page();
    assert!(browser.requests().iter().all(|url| *url == page), "{:?}", browser.requests());
    // A script whose hash is not in the policy is not run.
    let run = browser.evaluate(
        "(() => {
           const script = document.createElement('script');
           script.textContent = 'window.injected = true';
           document.body.append(script);
           return window.injected === true;
         })()",
    );
    assert_eq!(run, false, "a script that is put in runs");
}

fn fits() {
    let folder = folder();
    let mut browser = open(1280, 900);
    browser.picture(&folder.join("trace-light.png"));
    let widths = "[...document.querySelectorAll('canvas')].map(canvas => canvas.width).join()";
    let light = browser.evaluate(widths);
    browser.print(&folder.join("trace.pdf"));
    browser.dark(true);
    browser.picture(&folder.join("trace-dark.png"));
    browser.dark(false);
    browser.size(390, 844);
    let drawn_again = format!("{widths} !== '{}'", light.as_str().expect("a text"));
    assert!(browser.until(Duration::from_secs(10), &drawn_again), "graphs follow the width");
    assert_eq!(browser.overflow(), 0, "wider than a phone");
    browser.picture(&folder.join("trace-phone.png"));
    assert_eq!(browser.complaints(), &[] as &[String]);
}
