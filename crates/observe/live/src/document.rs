//! Assembles the live page: one HTML text with its styles, its scripts and the library that draws
//! the plots, so that a browser loads no other file. Also the page's policy, which makes a browser
//! run only these scripts (Content Security Policy Level 3).
//!
//! Called by: `lib.rs`, once.

use hyper::body::Bytes;
use hyper::header::HeaderValue;
use page::{NAMES_JS, THEME_CSS, UPLOT_CSS, UPLOT_JS, policy_source};

const HTML: &str = include_str!("../assets/page.html");
const CSS: &str = include_str!("../assets/page.css");
const FORMAT_JS: &str = include_str!("../assets/format.js");
const PLOTS_JS: &str = include_str!("../assets/plots.js");
const PAGE_JS: &str = include_str!("../assets/page.js");

/// The page, and the value of its header `Content-Security-Policy`.
pub(super) struct Page {
    pub(super) html: Bytes,
    pub(super) policy: HeaderValue,
}

impl Page {
    pub(super) fn new() -> Page {
        let style = [THEME_CSS, UPLOT_CSS, CSS].join("\n");
        let script =
            ["\"use strict\";", UPLOT_JS, NAMES_JS, FORMAT_JS, PLOTS_JS, PAGE_JS].join("\n");
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            policy_source(&script),
            policy_source(&style)
        );
        let html = HTML.replace("/*style*/", &style).replace("/*script*/", &script);
        let policy = HeaderValue::try_from(policy).expect("no control characters are in it");
        Page { html: Bytes::from(html), policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_no_network_and_its_policy_lets_it_run() {
        let page = Page::new();
        let html = String::from_utf8(page.html.to_vec()).expect("text");
        for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
            assert!(!html.contains(outside), "{outside}");
        }
        let policy = page.policy.to_str().expect("text");
        for (element, directive) in [("script", "script-src"), ("style", "style-src")] {
            let begin = html.find(&format!("<{element}>")).expect("one") + element.len() + 2;
            let end = html.find(&format!("</{element}>")).expect("its end");
            let expected = format!("{directive} {}", policy_source(&html[begin..end]));
            assert!(policy.contains(&expected), "{policy}");
        }
        assert_eq!(
            html.matches("</script>").count(),
            1,
            "another </script> would end the script early"
        );
        assert_eq!(
            html.matches("style=").count(),
            0,
            "a style attribute, which the policy forbids"
        );
    }
}
