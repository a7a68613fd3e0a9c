use super::exceptions::{self, Exception};
use super::source::{has_word, item_end, scrub};
use super::*;
use crate::cargo::{Dependency, Package};

/// A project of the given files and no packages.
fn project(files: &[(&str, &str)]) -> Project {
    let metadata = Metadata {
        packages: Vec::new(),
        workspace_members: Vec::new(),
        target_directory: "target".into(),
        workspace_root: "/w".into(),
    };
    Project::new(Tree::of(files), metadata)
}

/// A project with one workspace package in `folder` that has the given dependencies.
fn package(folder: &str, dependencies: &[(&str, Option<&str>, bool)]) -> Project {
    let mut project = project(&[]);
    let dependencies = dependencies
        .iter()
        .map(|&(name, kind, ours)| Dependency {
            name: name.to_owned(),
            kind: kind.map(str::to_owned),
            path: ours.then(|| "/w/x".to_owned()),
        })
        .collect();
    project.metadata.workspace_members.push("it".to_owned());
    project.metadata.packages.push(Package {
        id: "it".to_owned(),
        name: format!("wirespeed-{folder}"),
        version: "0.1.0".to_owned(),
        license: Some("MIT".to_owned()),
        manifest_path: format!(
            "/w/{}/Cargo.toml",
            imports::folder(folder).unwrap_or(folder.to_owned())
        ),
        dependencies,
        targets: Vec::new(),
    });
    project
}

/// The findings, as `line key`.
fn found(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|f| format!("{} {}", f.line, f.key)).collect()
}

#[test]
fn scrub_blanks_comments_and_literals_and_keeps_lines() {
    let text = "a // b\n/* c /* d */\n e */ f \"g\\\" h\" r#\"i \" j\"# 'k' '\\n' &'static l\n";
    let code = scrub(text);
    assert_eq!(code.lines().count(), text.lines().count());
    let words: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(words, ["a", "f", "&'static", "l"]);
}

#[test]
fn scrub_leaves_identifiers_that_end_in_r() {
    assert_eq!(scrub("for_r\"x\" br\"y\" r#type").split_whitespace().next(), Some("for_r"));
    assert!(scrub("r#type").contains("r#type"));
}

#[test]
fn words_are_whole() {
    assert!(has_word("let v: Vec<u8>", "Vec"));
    assert!(!has_word("let v: ArrayVec<u8>", "Vec"));
    assert!(!has_word("my_print!()", "print!"));
    assert!(has_word("x.unwrap()", ".unwrap()"));
}

#[test]
fn an_item_ends_at_its_brace_or_semicolon() {
    assert_eq!(item_end(&["fn a(", "  b: [u8; 4],", ") {", "  c;", "}", "x"], 0), 4);
    assert_eq!(item_end(&["mod tests;", "x"], 0), 0);
}

/// Findings about the manifests only; these projects have no table to compare.
fn law(project: &Project) -> Vec<Finding> {
    imports::check(project).into_iter().filter(|f| f.path != "ARCHITECTURE.md").collect()
}

#[test]
fn import_law_catches_a_layer_that_imports_a_layer() {
    let findings = law(&package("tcp", &[("wirespeed-inet", None, true)]));
    assert_eq!(found(&findings), ["1 wirespeed-inet"]);
    assert!(findings[0].remedy.contains("base, mbuf, wire"));
}

#[test]
fn import_law_lets_tests_join_layers_and_allows_what_the_table_says() {
    let dependencies = [
        ("wirespeed-inet", Some("dev"), true),
        ("wirespeed-mbuf", None, true),
        ("zerocopy", None, false),
    ];
    assert!(law(&package("tcp", &dependencies)).is_empty());
}

#[test]
fn import_law_keeps_base_on_core_and_knows_every_crate() {
    assert_eq!(law(&package("base", &[("libc", None, false)])).len(), 1);
    assert!(law(&package("base", &[("siphasher", Some("dev"), false)])).is_empty());
    assert_eq!(found(&law(&package("novel", &[]))), ["1 novel"]);
}

#[test]
fn the_map_for_people_says_what_the_law_says() {
    let map = include_str!("../../../ARCHITECTURE.md");
    assert!(imports::documented(map).is_empty());
    let wrong = map.replacen("| base mbuf wire |", "| base mbuf wire inet |", 1);
    assert_eq!(imports::documented(&wrong)[0].key, "filter");
    assert!(imports::documented("").iter().any(|f| f.key == "xtask" && f.line == 1));
}

#[test]
fn unsafe_is_caught_outside_its_places() {
    let text = "//! x\nfn a() {\n    unsafe { b() }\n}\n#[allow(unsafe_code)]\nmod c;\n";
    let findings = unsafe_code::check(&project(&[
        ("crates/core/tcp/src/lib.rs", text),
        ("crates/core/mbuf/src/pool.rs", text),
        ("crates/core/wire/src/checksum/avx2.rs", text),
        ("crates/core/inet/src/lib.rs", "#![deny(unsafe_code)]\n// unsafe\n"),
    ]));
    assert_eq!(found(&findings), ["3 unsafe", "5 unsafe"]);
    assert!(findings.iter().all(|f| f.path == "crates/core/tcp/src/lib.rs"));
}

#[test]
fn sizes_warn_then_fail() {
    let (middle, large) = ("x\n".repeat(601), "x\n".repeat(1001));
    let findings =
        sizes::check(&project(&[("a/a.rs", "x\n"), ("a/b.rs", &middle), ("a/c.rs", &large)]));
    let seen: Vec<_> = findings.iter().map(|f| (f.path.as_str(), f.warning)).collect();
    assert_eq!(seen, [("a/b.rs", true), ("a/c.rs", false)]);
}

#[test]
fn columns_count_comments_but_not_addresses() {
    let long = format!("// {}\n// https://{}\n", "x".repeat(98), "x".repeat(98));
    assert_eq!(found(&columns::check(&project(&[("a/a.rs", &long)]))), ["1 columns"]);
}

#[test]
fn banned_items_are_found_where_they_are_banned() {
    let text = "//! x\nfn a() {\n    let t = Instant::now();\n    println!(\"{t:?}\");\n    \
                b.unwrap();\n}\n#[cfg(test)]\nmod tests {\n    fn c() {\n        d.unwrap();\n    \
                }\n}\n";
    let in_library = banned::check(&project(&[("crates/core/tcp/src/lib.rs", text)]));
    assert_eq!(found(&in_library), ["3 Instant::now", "4 println!", "5 .unwrap()"]);
    for free in
        ["crates/top/cli/src/main.rs", "crates/core/tcp/examples/a.rs", "crates/core/tcp/build.rs"]
    {
        assert!(banned::check(&project(&[(free, text)])).is_empty(), "{free}");
    }
    assert!(banned::check(&project(&[("crates/core/tcp/src/tests.rs", text)])).is_empty());
}

#[test]
fn every_ban_can_fail() {
    let cases = [
        "#[allow(dead_code)]",
        "SystemTime::now()",
        "std::thread::sleep(d)",
        "getrandom::fill(b)",
        "rand::random()",
        "rand::rng()",
        "async fn f() {}",
        "f().await",
        "print!()",
        "eprintln!()",
        "eprint!()",
        "std::process::exit(1)",
        "std::env::var(x)",
        "x.expect(\"\")",
        "&dyn Error",
        "HashMap::new()",
        "HashMap::with_capacity(1)",
        "HashSet::new()",
        "RandomState::new()",
        "HashSet::with_capacity(1)",
        "a: HashMap<(u8, u8), Vec<u8>>,",
        "a: HashSet<Vec<u8>>,",
    ];
    for case in cases {
        let findings = banned::check(&project(&[("crates/core/tcp/src/lib.rs", case)]));
        assert_eq!(findings.len(), 1, "{case}: {findings:?}");
    }
    let named = "a: HashMap<u8, u8, FoldHasher>,\n// print!()\n";
    assert!(banned::check(&project(&[("crates/core/tcp/src/lib.rs", named)])).is_empty());
}

#[test]
fn an_identifier_is_banned_in_code_as_a_whole() {
    let text = "// Way\nstruct Way;\nfn both_ways() { Subway::new(\"Way\") }\n";
    assert_eq!(found(&words::check(&project(&[("crates/core/tcp/src/a.rs", text)]))), ["2 Way"]);
    assert!(words::check(&project(&[("README.md", "Way\n")])).is_empty());
}

#[test]
fn a_name_that_users_saw_is_banned_in_prose_and_literals_too() {
    let text = "// arp_hold\nfn a() { b(\"arp_hold\") }\nlet my_arp_hold = 1;\n";
    let code = words::check(&project(&[("crates/core/tcp/src/a.rs", text)]));
    assert_eq!(found(&code), ["1 arp_hold", "2 arp_hold"]);
    let page = words::check(&project(&[("docs/a.md", "x\nA stand-in.\n")]));
    assert_eq!(found(&page), ["2 stand-in"]);
}

#[test]
fn a_word_is_banned_in_any_case_and_inside_identifiers() {
    let text = "/// Liars.\nfn ask_desk(of: DeskRow) { peculiar(\"it hatches\") }\n";
    let code = words::check(&project(&[("crates/core/tcp/src/a.rs", text)]));
    assert_eq!(found(&code), ["1 liars", "2 desk", "2 hatches"]);
    assert!(code[0].remedy.contains("adversarial peers"), "{}", code[0].remedy);
    assert_eq!(found(&words::check(&project(&[("docs/a.md", "It heals.\n")]))), ["1 heals"]);
}

#[test]
fn every_old_word_is_found_but_where_it_must_be_named() {
    for (old, ..) in words::WORDS {
        let line = format!("{old} x\n");
        let findings = words::check(&project(&[("crates/core/tcp/src/a.rs", &line)]));
        assert!(findings.iter().any(|f| f.key == *old), "{old}");
        let table = words::check(&project(&[("xtask/src/tidy/words.rs", &line)]));
        assert!(table.is_empty(), "{old}");
    }
}

#[test]
fn the_packet_path_has_no_allocation() {
    let text = "//! Vec\nfn a(b: &mut dyn C) -> Vec<u8> {\n    vec![format!(\"\")]\n}\n\
                #[cfg(test)]\nmod tests {\n    use Vec;\n}\n";
    let findings = packet_path::check(&project(&[("crates/core/stack/src/rx.rs", text)]));
    let failures: Vec<Finding> = findings.iter().filter(|f| !f.warning).cloned().collect();
    assert_eq!(found(&failures), ["2 dyn", "2 Vec", "3 vec!", "3 format!"]);
    // tx.rs is on the list and its folder exists, but the file does not.
    assert!(findings.iter().any(|f| f.warning && f.key.ends_with("tx.rs")));
}

#[test]
fn heads_are_required_outside_tests() {
    let findings = heads::check(&project(&[
        ("crates/core/tcp/src/a.rs", "use b;\n"),
        ("crates/core/tcp/src/c.rs", "//! c\n"),
        ("crates/core/tcp/src/a/tests.rs", "use b;\n"),
    ]));
    assert_eq!(found(&findings), ["1 head"]);
}

/// A table of the whole mission whose lines name no test.
fn mission_table() -> String {
    let mut text = String::new();
    for (doc, lines) in [(0, 26), (1, 9), (2, 11), (3, 14), (4, 6)] {
        for line in 1..=lines {
            text += &format!("| {doc}.{line} | x | a | none | 1 |\n");
        }
    }
    text
}

#[test]
fn mission_lines_are_all_there_and_filled() {
    let good = mission_table();
    assert!(mission::check(&project(&[("docs/mission.md", &good)])).is_empty());
    let dropped = good.replace("| 4.6 |", "| x |");
    assert_eq!(found(&mission::check(&project(&[("docs/mission.md", &dropped)]))), ["1 4.6"]);
    let empty = good.replacen("| a | none |", "|  | none |", 1);
    assert_eq!(found(&mission::check(&project(&[("docs/mission.md", &empty)]))), ["1 0.1"]);
    let twice = good.clone() + "| 4.6 | x | a | none | 1 |\n";
    assert_eq!(found(&mission::check(&project(&[("docs/mission.md", &twice)]))), ["67 4.6"]);
    assert_eq!(mission::check(&project(&[])).len(), 1);
}

#[test]
fn mission_tests_exist() {
    let text = mission_table().replacen("| a | none | 1 |", "| a | `tcp::b` | 1 |", 1);
    let with = |code| mission::check(&project(&[("docs/mission.md", &text), ("a/tests.rs", code)]));
    assert_eq!(found(&with("fn c() {}")), ["1 0.1"]);
    assert!(with("fn b() {}").is_empty());
}

#[test]
fn licences_are_judged_as_expressions() {
    let ok = |id: &str| ["MIT", "Apache-2.0", "Unicode-3.0"].contains(&id);
    for good in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "(MIT OR GPL-2.0) AND Unicode-3.0"] {
        assert!(licences::allowed(good, &ok), "{good}");
    }
    for bad in
        ["", "GPL-3.0", "MIT AND GPL-2.0", "(MIT OR GPL-2.0) AND OpenSSL", "MIT OR", "MIT MIT"]
    {
        assert_eq!(licences::allowed(bad, &ok), bad == "MIT OR", "{bad}");
    }
    assert!(licences::allowed("Apache-2.0 WITH LLVM-exception", &ok));
}

#[test]
fn a_package_under_another_licence_is_found() {
    let deny = "[licenses]\nallow = [\"Apache-2.0\"]\n";
    let with = |text: &str| {
        let mut project = package("tcp", &[]);
        project.tree = Tree::of(&[("deny.toml", text)]);
        found(&licences::check(&project))
    };
    assert_eq!(with(deny), ["1 wirespeed-tcp"]);
    let exception = "exceptions = [{ crate = \"wirespeed-tcp\", allow = [\"MIT\"] }]\n";
    assert!(with(&format!("{deny}{exception}")).is_empty());
    assert_eq!(with("licenses = 1"), ["1 file"]);
    assert_eq!(found(&licences::check(&package("tcp", &[]))), ["1 file"]);
}

#[test]
fn links_lead_somewhere() {
    let text = "[a](b.md) [c](../x/b.md#d) [e](https://f.g) [h](#i) [j](../x)\n[k](gone.md)\n";
    let findings = links::check(&project(&[("x/a.md", text), ("x/b.md", "")]));
    assert_eq!(found(&findings), ["2 gone.md"]);
}

#[test]
fn a_crate_without_the_workspace_lints_is_found() {
    let with = |manifest: &str| {
        let mut project = package("tcp", &[]);
        project.tree = Tree::of(&[("crates/core/tcp/Cargo.toml", manifest)]);
        found(&unsafe_code::check(&project))
    };
    assert_eq!(with("[package]\n"), ["1 lints"]);
    assert_eq!(with("[lints.rust]\nunsafe_code = \"allow\"\n"), ["1 lints"]);
    assert!(with("[lints]\nworkspace = true\n").is_empty());
}

#[test]
fn async_begins_in_net() {
    let code = |path| banned::check(&project(&[(path, "async fn f() {}\n")])).len();
    assert_eq!([code("crates/core/device/src/a.rs"), code("crates/sockets/net/src/a.rs")], [1, 0]);
}

#[test]
fn exceptions_cover_one_key_of_one_file_and_do_not_outlive_their_use() {
    let finding = |path: &str| Finding::new(path, 1, "f", String::new(), "");
    let entry = |path| Exception { check: "columns", path, key: "f", reason: "a table, not code" };
    let table = [entry("a.rs"), entry("gone.rs")];
    let mut used = Vec::new();
    let left =
        exceptions::apply("columns", vec![finding("a.rs"), finding("b.rs")], &table, &mut used);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].path, "b.rs");
    assert_eq!(exceptions::apply("banned", vec![finding("a.rs")], &table, &mut used).len(), 1);
    // One exception is stale, and both reasons are too short to be a sentence.
    assert_eq!(exceptions::unused(&table, &used).len(), 3);
}

#[test]
fn every_check_has_its_own_name() {
    let mut names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CHECKS.len());
}
