//! Tests of the browser itself: messages from a page, pictures of the page, and input to it. Each
//! page has a fault of the kind that other tests look for. This shows that those tests can fail.
//!
//! Called by: `cargo test`, `cargo xtask interop pages`.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use wirespeed_testbed::{Case, Need, in_place};

const CASES: &[Case] = &[
    ("what_a_page_complains_of_is_heard", &[Need::CHROMIUM], complaints),
    ("what_is_too_wide_is_measured", &[Need::CHROMIUM], overflow),
    ("the_pointer_the_theme_and_the_size_reach_the_page", &[Need::CHROMIUM], pointer),
    ("pages_are_drawn_and_printed", &[Need::CHROMIUM], drawn),
];

fn main() -> ExitCode {
    in_place(&[CASES])
}

#[cfg(target_os = "linux")]
fn page(body: &str) -> wirespeed_testbed::Browser {
    let mut browser = wirespeed_testbed::Browser::start();
    let head = "<!DOCTYPE html><meta name=viewport content='width=device-width'>";
    browser.open(&format!("data:text/html,{head}{body}"));
    browser
}

#[cfg(target_os = "linux")]
fn complaints() {
    let mut browser = page("<script>console.log('fine')</script>");
    assert_eq!(browser.complaints(), &[] as &[String]);
    browser.open("data:text/html,<script>console.error('ouch')</script>");
    assert!(browser.complaints()[0].contains("ouch"), "{:?}", browser.complaints());
    browser.open("data:text/html,<script>nowhere.to()</script>");
    assert!(browser.complaints()[1].contains("nowhere"), "{:?}", browser.complaints());
    browser.open("data:text/html,<img src='http://127.0.0.1:1/picture.png'>");
    assert!(browser.requests().iter().any(|url| url.contains("picture.png")));
    assert!(browser.complaints()[2].contains("picture.png"), "{:?}", browser.complaints());
}

#[cfg(target_os = "linux")]
fn overflow() {
    let mut browser = page("<div style='width:600px;height:9px'></div>");
    assert_eq!(browser.overflow(), 0);
    browser.size(390, 844);
    assert!(browser.overflow() >= 210, "{}", browser.overflow());
}

#[cfg(target_os = "linux")]
fn pointer() {
    let mut browser = page(
        "<body style='margin:0'><script>let told=[];\
         for (const what of ['mousemove','mousedown','mouseup'])\
         addEventListener(what, e => told.push(what + e.clientX + ',' + e.clientY))</script>",
    );
    browser.point(20.0, 30.0);
    assert!(browser.until(Duration::from_secs(5), "told.includes('mousemove20,30')"));
    browser.drag((40.0, 50.0), (60.0, 70.0));
    assert!(browser.until(Duration::from_secs(5), "told.includes('mouseup60,70')"));
    let dark = "matchMedia('(prefers-color-scheme: dark)').matches";
    assert_eq!(browser.evaluate(dark), json!(false));
    browser.dark(true);
    assert_eq!(browser.evaluate(dark), json!(true));
    browser.size(390, 844);
    assert_eq!(browser.evaluate("innerWidth"), json!(390));
    assert_eq!(browser.evaluate("Promise.resolve(7)"), json!(7));
}

#[cfg(target_os = "linux")]
fn drawn() {
    let mut browser = page("<p style='height:2000px'>a page");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (picture, print) = (folder.join("browser.png"), folder.join("browser.pdf"));
    browser.picture(&picture);
    browser.print(&print);
    let picture = std::fs::read(picture).expect("it was written");
    assert!(picture.starts_with(b"\x89PNG"));
    let height = u32::from_be_bytes(picture[20..24].try_into().expect("four bytes"));
    assert!(height >= 2000, "the whole page: {height}");
    assert!(std::fs::read(print).expect("it was written").starts_with(b"%PDF"));
}

#[cfg(not(target_os = "linux"))]
use nowhere::{complaints, drawn, overflow, pointer};

#[cfg(not(target_os = "linux"))]
mod nowhere {
    //! The browser is driven on Linux only.

    pub(super) fn complaints() {}
    pub(super) fn overflow() {}
    pub(super) fn pointer() {}
    pub(super) fn drawn() {}
}
