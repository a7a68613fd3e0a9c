//! The page in Chromium: it draws, follows the program, says when that is gone, and fits a phone.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use testbed::{Browser, Case, Need};

use crate::fixture::{Live, PATIENCE};

pub(crate) const CASES: &[Case] = &[
    ("the_page_draws_and_follows_the_program", &[Need::CHROMIUM], follows),
    ("the_sentence_on_the_limit_comes_first", &[Need::CHROMIUM], sentence),
    ("the_page_fits_a_phone_and_both_themes", &[Need::CHROMIUM], fits),
    (
        "the_page_says_that_the_program_is_gone_and_goes_on_when_it_returns",
        &[Need::CHROMIUM],
        returns,
    ),
    ("a_token_opens_the_page", &[Need::CHROMIUM], token),
    ("the_page_shows_where_time_goes", &[Need::CHROMIUM], budget),
    ("of_ten_thousand_connections_the_busiest_are_shown", &[Need::CHROMIUM], many),
];

const TILE: &str = "document.querySelector('#tiles dd').textContent";

fn picture(browser: &mut Browser, name: &str) {
    let folder = std::env::var_os("LIVE_PICTURES").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    browser.picture(&folder.join(name));
}

fn has_samples(browser: &mut Browser, count: u32) {
    let expression = format!("Number(document.body.dataset.samples) >= {count}");
    assert!(browser.until(PATIENCE, &expression), "{:?}", browser.complaints());
}

fn follows() {
    let live = Live::start("127.0.0.1:0", &[]);
    let mut browser = Browser::start();
    browser.open(&live.url);
    has_samples(&mut browser, 6);
    assert!(browser.until(PATIENCE, "document.getElementById('status').textContent === 'live'"));
    let figures = |browser: &mut Browser| browser.evaluate(TILE);
    let first = figures(&mut browser);
    let changed = browser.until(PATIENCE, &format!("{TILE} !== {first}"));
    assert!(changed && first.as_str() != Some("-"), "{first}");
    // Two connections, the first of which is chosen; the other one by its button.
    let rows = "document.querySelectorAll('#connections tbody tr').length === 2";
    assert!(browser.until(PATIENCE, rows));
    for plot in ["throughput", "sequence", "cwnd", "windows", "rtt", "rate"] {
        let drawn = format!("document.querySelector('#{plot} canvas') !== null");
        assert!(browser.until(PATIENCE, &drawn), "{plot}");
    }
    let other = "document.querySelector('#connections tr[aria-selected=false] button')";
    browser.evaluate(&format!("{other}.focus()"));
    let name = browser.evaluate(&format!("{other}.textContent"));
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    assert_ne!(browser.evaluate(outline), Value::from("none"), "focus is seen");
    browser.evaluate("document.activeElement.click()");
    let name = name.as_str().expect("text");
    let chosen = format!("document.getElementById('one-name').textContent.startsWith('{name}')");
    assert!(browser.until(PATIENCE, &chosen));
    assert_eq!(browser.complaints(), &[] as &[String]);
    let here = live.url.trim_end_matches('/');
    let elsewhere =
        browser.requests().iter().find(|url| !url.starts_with(here) && !url.starts_with("data:"));
    assert_eq!(elsewhere, None, "it needs nothing but the program");
}

fn sentence() {
    let live = Live::start("127.0.0.1:0", &[]);
    let mut browser = Browser::start();
    browser.open(&live.url);
    let known = "document.getElementById('one-explained').textContent.match(/limited|cannot tell/)
                 !== null";
    assert!(browser.until(PATIENCE, known), "{:?}", browser.complaints());
    let first = browser.evaluate(
        "document.querySelector('main > section').contains(document.getElementById('one-explained'))
           && document.getElementById('one-explained').getBoundingClientRect().bottom < 300",
    );
    assert_eq!(first, true, "it is the first thing that is said");
    // Names stand beside their lines with the last value, and a series without one has no name.
    let names = browser.evaluate(
        "plots.flatMap(plot => plot.names.map((name, index) => {
           const has = plot.data[index + 1].some(figure => figure != null);
           const says = plot.series[index].points || name.lastChild.textContent.length > 0;
           const is_beside = name.closest('.u-wrap') !== null;
           return name.hidden === !has && (name.hidden || (says && is_beside));
         }))",
    );
    let names = names.as_array().expect("a list");
    assert!(names.len() > 10 && names.iter().all(|name| name == true), "{names:?}");
    assert_eq!(browser.evaluate("document.querySelectorAll('.u-legend').length"), 0);
    assert_eq!(browser.complaints(), &[] as &[String]);
}

/// The bottom of the elements that match, in pixels from the top of the window; the least of their
/// widths and heights, and how far they go beyond the right edge.
fn extent(browser: &mut Browser, selector: &str) -> [f64; 3] {
    let found = browser.evaluate(&format!(
        "(() => {{
           const all = [...document.querySelectorAll('{selector}')]
             .map(element => element.getBoundingClientRect());
           return [Math.max(...all.map(at => at.bottom)),
             Math.min(...all.map(at => Math.min(at.width, at.height))),
             Math.max(...all.map(at => at.right - innerWidth))];
         }})()"
    ));
    [0, 1, 2].map(|at| found[at].as_f64().unwrap_or(f64::NAN))
}

fn fits() {
    let live = Live::start("127.0.0.1:0", &[]);
    let mut browser = Browser::start();
    browser.open(&live.url);
    has_samples(&mut browser, 40);
    picture(&mut browser, "live-light.png");
    let page = "getComputedStyle(document.body).backgroundColor";
    let light = browser.evaluate(page);
    browser.dark(true);
    has_samples(&mut browser, 44);
    assert_ne!(browser.evaluate(page), light);
    picture(&mut browser, "live-dark.png");
    browser.size(390, 844);
    has_samples(&mut browser, 50);
    assert_eq!(browser.overflow(), 0, "nothing is wider than the phone");
    // Rates and the round trip are seen without scrolling, also those of each connection.
    let [bottom, least, beyond] = extent(&mut browser, "#tiles div:nth-child(-n+3) dd");
    assert!(bottom < 844.0 && least > 10.0 && beyond <= 0.0, "{bottom} {least} {beyond}");
    for cell in [4, 5, 6] {
        let selector = format!("#connections tbody td:nth-child({cell})");
        let [_, least, beyond] = extent(&mut browser, &selector);
        assert!(least > 10.0 && beyond <= 0.0, "cell {cell}: {least} {beyond}");
        let cut = format!(
            "[...document.querySelectorAll('{selector}')].filter(e => e.scrollWidth > \
             e.clientWidth).length"
        );
        assert!(browser.until(PATIENCE, &format!("{cut} === 0")), "cell {cell} is cut off");
    }
    picture(&mut browser, "live-phone-dark.png");
    browser.dark(false);
    has_samples(&mut browser, 54);
    picture(&mut browser, "live-phone.png");
    assert_eq!(browser.complaints(), &[] as &[String]);
}

fn returns() {
    let live = Live::start("127.0.0.1:0", &[]);
    let at = format!("127.0.0.1:{}", live.port());
    let mut browser = Browser::start();
    browser.open(&live.url);
    has_samples(&mut browser, 3);
    assert_eq!(browser.complaints(), &[] as &[String]);
    drop(live);
    let says =
        |text: &str| format!("document.getElementById('status').textContent.startsWith('{text}')");
    assert!(browser.until(PATIENCE, &says("connection lost, trying again")));
    picture(&mut browser, "live-lost.png");
    std::thread::sleep(Duration::from_secs(3));
    let live = Live::start(&at, &["--threads", "2"]);
    assert!(browser.until(PATIENCE, &says("live")), "{}", live.url);
    let before = browser.evaluate("Number(document.body.dataset.samples)");
    let grows = format!("Number(document.body.dataset.samples) > {before} + 4");
    assert!(browser.until(PATIENCE, &grows));
}

fn token() {
    let live = Live::start("0.0.0.0:0", &[]);
    let url = live.url.replace("ADDRESS", "127.0.0.1");
    let mut browser = Browser::start();
    browser.open(&url);
    has_samples(&mut browser, 3);
    assert_eq!(browser.complaints(), &[] as &[String]);
    let (bare, _) = url.split_once('?').expect("a token");
    browser.open(bare);
    let said = browser.evaluate("document.body.textContent");
    assert!(said.as_str().is_some_and(|text| text.contains("it has a token")), "{said}");
}

/// Where samples are not permitted, or the test's program has no line tables, it says so.
fn budget() {
    let live = Live::start("127.0.0.1:0", &[]);
    let mut browser = Browser::start();
    browser.open(&live.url);
    let note = "document.getElementById('budget-note').textContent";
    let known = format!("!{note}.startsWith('not known')");
    assert!(browser.until(PATIENCE, &known), "{:?}", browser.complaints());
    let note = browser.evaluate(note);
    let lacks = ["no samples can be taken", "line tables"];
    if !note.as_str().is_some_and(|note| lacks.iter().any(|lack| note.contains(lack))) {
        let has_stage = "[...document.querySelectorAll('#budget tbody tr')].some((row) => \
                         row.cells[0].textContent !== 'rest' \
                         && Number(row.cells[1].textContent) > 0)";
        assert!(browser.until(PATIENCE, has_stage), "{note}");
        let widest = "Math.max(...[...document.querySelectorAll('#budget .bar div')].map((bar) => \
                      bar.getBoundingClientRect().width))";
        assert!(browser.evaluate(widest).as_f64() > Some(10.0), "the policy lets bars be wide");
    }
    assert_eq!(browser.complaints(), &[] as &[String]);
}

/// Samples of a stack with 10,000 connections, of which it has chosen 50; a name is hostile. One of
/// its ports is full, as in any bulk transfer, and one fails.
const MANY: &str = r#"
(() => {
  const row = (n) => ({ stack: 0, number: n, local: "192.0.2.1:80", remote: "198.51.100.1:" + n,
    state: "ESTABLISHED", congestion_control: "cubic", mss: 1448, rtt_us: 100 * n, min_rtt_us: 90,
    cwnd_bytes: 14480, pacing_bytes_per_s: null, snd_wnd: 65535, rcv_wnd: 65535, in_flight: n,
    unsent: 0, unread: 0, bytes_acked: 1000 * n, bytes_received: 0, retransmits: 0, timeouts: 0,
    recovering: "no" });
  const port = (name, more) => ({ name, link_up: true, mtu: 1500, failure: null, ...more });
  const sample = (at) => ({
    program: { pid: 7, command: "<img src=x onerror=alert(1)>", version: "1" },
    at_ms: at, stacks: [{ name: "one", connections: 10000, drops: { tcp_no_socket: at },
      port_count: 2,
      ports: [port("busy", { pushed_back: true }), port("gone", { failure: "it was deleted" })],
      rx_bytes: at * 1e5, tx_bytes: at * 1e6, pool_bytes: 1 }],
    connection_count: 10000, shown_most: 50,
    connections: Array.from({ length: 50 }, (_, n) => row(n + 1)).map((one) => ({ ...one,
      bytes_acked: one.bytes_acked * at })), page: { watched_by: 1, refused: 0, left_out: 0 } });
  take(sample(1000)); take(sample(1250));
  const began = performance.now();
  for (let at = 1500; at < 11500; at += 250) take(sample(at));
  return (performance.now() - began) / 40;
})()"#;

fn many() {
    let live = Live::start("127.0.0.1:0", &[]);
    let mut browser = Browser::start();
    browser.open(&live.url);
    has_samples(&mut browser, 2);
    drop(live);
    let lost = "document.getElementById('status').className === 'lost'";
    assert!(browser.until(PATIENCE, lost));
    let each_ms = browser.evaluate(MANY);
    println!("a sample of 50 connections takes the page {each_ms} ms");
    let text = |browser: &mut Browser, id: &str| {
        let text = browser.evaluate(&format!("document.getElementById('{id}').textContent"));
        text.as_str().expect("text").to_owned()
    };
    let note = text(&mut browser, "connections-note");
    assert!(note.starts_with("The 50 busiest of 10000 are shown"), "{note}");
    let rows = "document.querySelectorAll('#connections tbody tr').length";
    assert_eq!(browser.evaluate(rows), 50);
    let first = "document.querySelector('#connections tbody tr').cells[1].textContent";
    assert_eq!(browser.evaluate(first), "198.51.100.1:50", "the busiest is first");
    assert!(text(&mut browser, "program").contains("<img"), "text is text");
    assert_eq!(browser.evaluate("document.querySelector('#program img') === null"), true);
    assert!(text(&mut browser, "drops").contains("tcp_no_socket"));
    // The peer's window of 65,535 bytes does not flatten the congestion window of 14,480.
    let tops = browser.evaluate("[congestion, windows].map(plot => plot.plot.scales.y.max)");
    let [cwnd, window] = [&tops[0], &tops[1]].map(|top| top.as_f64().expect("a number"));
    assert!(cwnd > 14_480.0 && cwnd < 20_000.0 && window > 65_535.0, "{tops}");
    assert_eq!(browser.evaluate("document.getElementById('ports-panel').open"), true, "trouble");
    // A plot that is hidden for a moment is drawn again, without a sample.
    browser.evaluate("document.getElementById('throughput').style.display = 'none'");
    browser.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))");
    browser.size(390, 844);
    browser.evaluate("document.getElementById('throughput').style.display = ''");
    let drawn = "document.querySelector('#throughput canvas')?.width <= 390";
    assert!(browser.until(PATIENCE, drawn), "the plot is gone");
    // Stages that take next to nothing are one line, which opens.
    let folds = browser.evaluate(
        "(() => {
           const stages = [['tcp', 0.6], ['copy', 0.395], ['tap', 0], ['ip', 0.005]].map(
             ([stage, share]) => ({ stage, share, off: 0.01, kernel: 0 }));
           const seen = { stages, samples: 9, seconds: 5, busiest: 1, threads: 1,
             has_kernel: true };
           const rows = () => document.querySelectorAll('#budget tbody tr').length;
           budget(seen);
           before.budget = seen;
           const folded = rows(), more = document.getElementById('budget-more');
           const said = more.textContent;
           more.click();
           return [folded, said, rows()];
         })()",
    );
    assert_eq!(folds, serde_json::json!([2, "2 stages below 1 %: tap, ip", 4]));
    let trouble = "[...document.querySelectorAll('#ports tbody .long')].map((cell) => \
                   cell.textContent).join('|')";
    assert_eq!(browser.evaluate(trouble), "|it was deleted", "a full device is no trouble");
}
