//! The header is that of the source, and the library has the symbols that are recorded.
//!
//! `WIRESPEED_UPDATE=1 cargo test -p wirespeed-capi --test header` writes both files anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};

const UPDATE: &str = "WIRESPEED_UPDATE=1 cargo test -p wirespeed-capi --test header";

fn crate_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compare a file with what it should be, or write it.
fn check(file: &Path, wanted: &str) {
    if std::env::var_os("WIRESPEED_UPDATE").is_some() {
        std::fs::write(file, wanted).expect("the file can be written");
    }
    let there = std::fs::read_to_string(file).unwrap_or_default();
    assert!(there == wanted, "{} is not current; update it: {UPDATE}", file.display());
}

fn header() -> String {
    let config = cbindgen::Config::from_file(crate_dir().join("cbindgen.toml"));
    let made = cbindgen::Builder::new()
        .with_config(config.expect("cbindgen.toml is valid"))
        .with_src(crate_dir().join("src/types.rs"));
    let sources = ["entry", "stack_calls", "ports", "routes", "calls", "transfer", "options"];
    let sources = sources.into_iter().chain(["events", "forwarder", "resolve", "gateway"]);
    let made =
        sources.fold(made, |made, name| made.with_src(crate_dir().join(format!("src/{name}.rs"))));
    let mut text = Vec::new();
    made.generate().expect("the source is understood").write(&mut text);
    let text = String::from_utf8(text).expect("a header is text");
    // cbindgen ends empty lines of comments with a space.
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// The functions that the header declares.
fn declared(header: &str) -> BTreeSet<String> {
    let of_line = |line: &str| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        let is_function = !line.starts_with([' ', '/', '#', 't']) && name.starts_with("ws_");
        is_function.then(|| name.to_owned())
    };
    header.lines().filter_map(of_line).collect()
}

#[test]
fn the_header_is_current() {
    check(&crate_dir().join("include/wirespeed.h"), &header());
}

#[test]
fn the_symbols_are_those_that_are_recorded() {
    let header = header();
    let symbols = declared(&header);
    assert!(symbols.len() > 30 && symbols.contains("ws_last_error"), "{symbols:?}");
    let list: String = symbols.iter().map(|name| format!("{name}\n")).collect();
    check(&crate_dir().join("symbols.txt"), &list);
}

/// A function that is declared and does not exist would be an error of the linker, in the program
/// of a user; one that exists and is not declared would be of no use.
#[test]
fn the_library_has_the_functions_of_the_header() {
    let program = std::env::current_exe().expect("a test has a path");
    // Beside this test; that of `cargo build`, a folder above, may be an older one.
    let folder = program.parent().expect("target/PROFILE/deps/TEST");
    let library = folder.join("libcapi.so");
    let bytes = std::fs::read(&library).expect("cargo builds the library before its tests");
    let file = object::File::parse(&*bytes).expect("it is an ELF file");
    let exported: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .filter(|name| name.starts_with("ws_"))
        .collect();
    let is_there = |name: &String| cfg!(feature = "gateway") || !name.starts_with("ws_gateway_");
    let wanted: BTreeSet<String> = declared(&header()).into_iter().filter(is_there).collect();
    assert_eq!(exported, wanted);
}

#[test]
fn the_man_page_names_each_function_and_nothing_else() {
    let page = std::fs::read_to_string(crate_dir().join("wirespeed.3")).expect("the page");
    let words = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named: BTreeSet<String> =
        words.filter(|word| word.starts_with("ws_")).map(str::to_owned).collect();
    let header = header();
    let missing: Vec<_> = declared(&header).difference(&named).cloned().collect();
    assert!(missing.is_empty(), "wirespeed.3 lacks {missing:?}");
    let unknown: Vec<_> = named.iter().filter(|name| !header.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "the library does not have {unknown:?} of wirespeed.3");
}
