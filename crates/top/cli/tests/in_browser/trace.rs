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
    ("all_plots_of_a_capture_have_one_time_axis", &[Need::CHROMIUM], together),
    ("nothing_of_the_page_of_a_capture_is_cut_off", &[Need::CHROMIUM], whole),
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
    // Each name has its colour: the policy has not kept the style away.
    let colours = browser.evaluate(
        "(() => {
           const names = [...document.querySelectorAll('.graph .name, .names .name, .key .name')];
           const ink = name => getComputedStyle(name, '::before').backgroundColor;
           const one = new Map(names.map(name => [name.textContent, ink(name)]));
           const empty = 'rgba(0, 0, 0, 0)';
           return [one.size, names.every(name => one.get(name.textContent) === ink(name)),
             names.some(name => ink(name) === empty)];
         })()",
    );
    assert!(colours[0].as_u64() >= Some(6), "throughput, segments, ACK, window: {colours}");
    assert_eq!((&colours[1], &colours[2]), (&true.into(), &false.into()), "{colours}");
    // Of the throughput there are some values above 0, and what was sent is all in them.
    let sent = browser.evaluate(
        "data.graphs.map(({graph}) => graph.sent.bytes.reduce((a, b) => a + b, 0)).join()",
    );
    let counted = browser.evaluate(
        "[...document.querySelectorAll('tbody tr')].map(row =>
           Number(row.cells[2].textContent.replaceAll(',', ''))).filter(n => n > 0).join()",
    );
    assert_eq!(sent, counted, "bytes of the plots, bytes of the table");
    // The labels of the seconds tell the grid's lines apart.
    let labels = browser.evaluate(
        "(() => {
           const values = plots[0].axes[0]._values.filter(label => label);
           return [values.length, new Set(values).size];
         })()",
    );
    assert!(labels[0].as_u64() > Some(2) && labels[0] == labels[1], "{labels}");
    // A segment under the pointer is described in words: the one in the middle of the largest plot.
    let spot = browser.evaluate(
        "(() => {
           const count = ({graph}) => graph.segments.length;
           const {id, graph} = data.graphs.reduce((a, b) => count(b) > count(a) ? b : a);
           const plot = document.getElementById(`sequence-${id}`).plot;
           plot.over.scrollIntoView({block: 'center'});
           const {left, top} = plot.over.getBoundingClientRect();
           const [time, start, end] = graph.segments[graph.segments.length >> 1];
           return [left + plot.valToPos(time / 1e6, 'x'),
             top + plot.valToPos((start + end) / 2, 'y')];
         })()",
    );
    let [x, y] = [0, 1].map(|n| spot[n].as_f64().expect("a number"));
    let said = "[...document.querySelectorAll('.said')].some(
      said => said.textContent.includes(' s: '))";
    // The page draws with its next frame, and hears of the pointer when it has scrolled.
    let told = (0..100).any(|step| {
        browser.point(x + f64::from(step % 2), y);
        browser.until(Duration::from_millis(100), said)
    });
    assert!(told, "no segment is told at {spot}");
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

fn together() {
    let mut browser = open(1280, 1400);
    let axes = "[...new Set(plots.filter(plot => !plot.behind).map(plot =>
                  `${plot.scales.x.min} ${plot.scales.x.max}`))]";
    let lefts = "new Set(plots.map(plot => `${plot.bbox.left} ${plot.bbox.width}`)).size";
    let all = browser.evaluate(axes);
    assert_eq!(all.as_array().map(Vec::len), Some(1), "one axis: {all}");
    assert_eq!(browser.evaluate(lefts), 1, "times are below each other");
    assert!(browser.evaluate("plots.length").as_u64() >= Some(3), "throughput, sequence, RTT");
    let at = browser.evaluate(
        "(() => { const at = plots[0].over.getBoundingClientRect();
                  return [at.left, at.top, at.width, at.height]; })()",
    );
    let [left, top, width, height] = [0, 1, 2, 3].map(|n| at[n].as_f64().expect("a number"));
    let middle = top + height / 2.0;
    browser.drag((left + width * 0.25, middle), (left + width * 0.5, middle));
    let zoomed = format!("JSON.stringify({axes}) !== '{all}'");
    assert!(browser.until(Duration::from_secs(10), &zoomed), "no zoom");
    let part = browser.evaluate(axes);
    assert_eq!(part.as_array().map(Vec::len), Some(1), "all that are in sight follow: {part}");
    browser.evaluate("document.getElementById('all').click()");
    assert!(browser.until(Duration::from_secs(10), &format!("!({zoomed})")), "not all again");
    assert_eq!(browser.complaints(), &[] as &[String]);
}

fn whole() {
    let mut browser = open(1280, 900);
    for width in [1280, 390] {
        browser.size(width, 900);
        let cut = "[...document.querySelectorAll('.wide')].filter(e =>
                     e.scrollWidth > e.clientWidth).length";
        assert!(
            browser.until(Duration::from_secs(10), &format!("{cut} === 0")),
            "a table: {width}"
        );
        // Names end inside of their plot, and labels of the vertical axis begin inside of it.
        let names = "[...document.querySelectorAll('.graph .name')].every(name =>
             name.getBoundingClientRect().right <=
               name.closest('.graph').getBoundingClientRect().right)";
        assert!(browser.until(Duration::from_secs(10), names), "a name is cut off at {width}");
        let labels = browser.evaluate(
            "Math.max(...plots.map(({ctx, axes}) => {
               ctx.font = axes[1].font[0];
               return Math.max(...axes[1]._values.map(text => ctx.measureText(text).width))
                 / devicePixelRatio - axes[1].size() + 12;
             }))",
        );
        assert!(labels.as_f64() < Some(0.0), "a label is cut off by {labels} at {width}");
    }
    assert_eq!(browser.complaints(), &[] as &[String]);
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
