//! `cargo xtask rfc` on trees written here.

use super::evaluate::{Count, Verdict, evaluate};
use super::requirements::{self, Trouble};
use super::{Citation, find, listed, table};
use crate::tidy::source::Source;
use crate::tree::Tree;

const FILE: &str = r#"
rfc = 9293
title = "TCP"

[[requirement]]
id = "MUST-1"
section = "3.1"
level = "MUST"
text = "windows are unsigned"

[[requirement]]
id = "3.2-b"
level = "MUST NOT"
text = "nothing else"

[[requirement]]
id = "SHLD-2"
section = "3.3"
level = "SHOULD"
text = "be kind"

[[requirement]]
id = "MAY-1"
section = "3.4"
level = "MAY"
text = "rest"
"#;

const PATH: &str = "docs/rfc/rfc9293.toml";

fn verdict(toml: &str, sources: &[(&str, &str)]) -> Verdict {
    let (documents, troubles) = requirements::read(&Tree::of(&[(PATH, toml)]));
    assert!(troubles.is_empty(), "{troubles:?}");
    let found: Vec<Citation> =
        sources.iter().flat_map(|(path, text)| find(&Source::new(path, text))).collect();
    evaluate(&documents, &found)
}

fn places(verdict: &Verdict) -> Vec<&str> {
    verdict.troubles.iter().map(|t| t.place.as_str()).collect()
}

#[test]
fn a_must_wants_code_and_a_test() {
    let code = ("crates/core/tcp/src/a.rs", "// RFC 9293 MUST-1 and 3.2-b: so it is.\nfn f() {}\n");
    let test = ("crates/core/tcp/src/tests.rs", "/// RFC 9293 MUST-1,\n/// 3.2-b.\nfn t() {}\n");
    assert_eq!(places(&verdict(FILE, &[code, test])), Vec::<&str>::new());
    let both = ["RFC 9293 MUST-1", "RFC 9293 3.2-b"];
    assert_eq!(places(&verdict(FILE, &[code])), both);
    assert_eq!(places(&verdict(FILE, &[test])), both);
    let nothing = verdict(FILE, &[]);
    assert_eq!(places(&nothing), both, "a SHOULD fails nothing");
    assert_eq!(nothing.all.must, Count { cited: 0, excepted: 0, missing: 2 });
    assert_eq!(nothing.all.should, Count { cited: 0, excepted: 0, missing: 1 });
}

#[test]
fn an_exception_stands_for_citations_until_they_are_there() {
    let excepted = FILE.replace("\"windows are unsigned\"", "\"a\"\nexception = \"no windows\"");
    let code = ("crates/core/tcp/src/a.rs", "// RFC 9293 MUST-1, 3.2-b\n");
    let test = ("crates/core/tcp/src/tests.rs", "// RFC 9293 3.2-b\n");
    let good = verdict(&excepted, &[code, test]);
    assert_eq!(places(&good), Vec::<&str>::new());
    assert_eq!(good.all.must, Count { cited: 1, excepted: 1, missing: 0 });
    let more = ("crates/core/tcp/tests/a.rs", "// RFC 9293 MUST-1\n");
    let stale = verdict(&excepted, &[code, test, more]);
    assert_eq!(places(&stale), ["RFC 9293 MUST-1"]);
    assert!(stale.troubles[0].what.contains("take its exception away"));
}

#[test]
fn what_is_cited_has_to_be_listed() {
    let code = ("crates/core/tcp/src/a.rs", "fn f() {} // RFC 9293 MUST-99\n// RFC 5681 3.1-a\n");
    let found = verdict(FILE, &[code]);
    assert_eq!(places(&found)[2..], ["crates/core/tcp/src/a.rs:1", "crates/core/tcp/src/a.rs:2"]);
}

#[test]
fn sections_and_sentences_are_no_citations() {
    let text = "// RFC 9293 section 3.2-b, RFC 9293 3.10.7.4 (MUST be so), RFC 9293, MUST\n\
                let x = \"// RFC 9293 MUST-1\";\n\
                // RFC 9293\n\nfn f() {}\n// MUST-1\n";
    let found = find(&Source::new("crates/core/tcp/src/a.rs", text));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_number_may_have_a_letter() {
    let text = "// RFC 4787 REQ-5, REQ-5a and REQ-11B. RFC 4787 REQ-5ab, RFC 4787 REQ-a\n";
    let found = find(&Source::new("crates/core/filter/src/a.rs", text));
    let ids: Vec<&str> = found.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["REQ-5", "REQ-5a", "REQ-11B"]);
}

#[test]
fn tests_are_told_from_code() {
    let text = "// RFC 9293 MUST-1\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    \
                // RFC 9293 MUST-1\n    fn t() {}\n}\n// RFC 9293 (MUST-1)\n";
    let found = find(&Source::new("crates/core/tcp/src/a.rs", text));
    let kinds: Vec<(usize, bool)> = found.iter().map(|c| (c.line, c.in_test)).collect();
    assert_eq!(kinds, [(1, false), (6, true), (9, false)]);
    for path in [
        "crates/proof/sim/src/oracle/cwnd.rs",
        "crates/sockets/net/tests/a.rs",
        "crates/f/a/src/tests.rs",
    ] {
        let found = find(&Source::new(path, "//! RFC 9293 MUST-1\n"));
        assert!(found[0].in_test, "{path}");
    }
}

#[test]
fn files_are_checked() {
    let twice = FILE.replace("SHLD-2", "MUST-1");
    let broken: [(&str, &str, &str); 8] = [
        (PATH, &twice, "listed twice"),
        (PATH, &FILE.replace("SHLD-2", "SHOULD-2"), "is no id"),
        (PATH, &FILE.replace("section = \"3.1\"\n", ""), "has no section"),
        (PATH, &FILE.replace("\"be kind\"", "\"\""), "says nothing"),
        (PATH, &FILE.replace("\"rest\"", "\"a\"\nexception = \"\""), "needs a reason"),
        (PATH, &FILE.replace("\"SHOULD\"", "\"OUGHT\""), "unknown variant"),
        ("docs/rfc/tcp.toml", FILE, "name it rfc9293.toml"),
        ("docs/tcp.toml", FILE, "no requirements"),
    ];
    for (path, text, wanted) in broken {
        let (_, troubles) = requirements::read(&Tree::of(&[(path, text)]));
        let says = |t: &Trouble| t.what.contains(wanted);
        assert!(troubles.len() == 1 && says(&troubles[0]), "{wanted}: {troubles:?}");
    }
}

#[test]
fn the_table_adds_up_and_the_list_says_where() {
    let (documents, _) = requirements::read(&Tree::of(&[(PATH, FILE)]));
    let found = find(&Source::new("crates/core/tcp/src/a.rs", "// RFC 9293 MUST-1\n"));
    let table = table(&documents, &evaluate(&documents, &found));
    let rows: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["RFC", "9293", "2", "0", "0", "2", "1", "0", "0", "1", "TCP"]);
    assert_eq!(rows[2], ["all", "2", "0", "0", "2", "1", "0", "0", "1"]);
    let list = listed(&documents, &found);
    assert!(list.contains("RFC 9293 3.2-b (3.2, MUST NOT): nothing else\n"), "{list}");
    assert!(list.contains("    code crates/core/tcp/src/a.rs:1\n"), "{list}");
}
