//! The live page as one text: markup, style, script and the plots' library, and the policy by which
//! a browser runs these and nothing else (Content Security Policy Level 3).
//!
//! Called by: `live.rs`, once.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use page::{THEME_CSS, UPLOT_CSS, UPLOT_JS};
use sha2::{Digest, Sha256};

const HTML: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const FORMAT_JS: &str = include_str!("format.js");
const PLOTS_JS: &str = include_str!("plots.js");
const PAGE_JS: &str = include_str!("page.js");

/// The page, and its policy.
pub(super) struct Page {
    pub(super) html: Bytes,
    pub(super) policy: HeaderValue,
}

impl Page {
    pub(super) fn new() -> Result<Page> {
        let style = [THEME_CSS, UPLOT_CSS, CSS].join("\n");
        let script = ["\"use strict\";", UPLOT_JS, FORMAT_JS, PLOTS_JS, PAGE_JS].join("\n");
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash(&script),
            hash(&style)
        );
        let html = HTML.replace("/*style*/", &style).replace("/*script*/", &script);
        let policy = HeaderValue::try_from(policy).context("the page's policy is no header")?;
        Ok(Page { html: Bytes::from(html), policy })
    }
}

/// As a policy names what stands in the page.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_no_network_and_its_policy_lets_it_run() {
        let page = Page::new().expect("a page");
        let html = String::from_utf8(page.html.to_vec()).expect("text");
        for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
            assert!(!html.contains(outside), "{outside}");
        }
        let policy = page.policy.to_str().expect("text");
        for (element, directive) in [("script", "script-src"), ("style", "style-src")] {
            let begin = html.find(&format!("<{element}>")).expect("one") + element.len() + 2;
            let end = html.find(&format!("</{element}>")).expect("its end");
            let expected = format!("{directive} '{}'", hash(&html[begin..end]));
            assert!(policy.contains(&expected), "{policy}");
        }
        assert_eq!(html.matches("</script>").count(), 1, "nothing ends the script early");
        assert_eq!(html.matches("style=").count(), 0, "the policy forbids them");
    }
}
