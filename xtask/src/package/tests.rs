//! What goes wrong before and after the packers run, and what is left then.

use super::*;

fn options(program: &Path, out: &Path) -> Options {
    Options::of(program, out, &[Format::Tar])
}

fn said(options: &Options) -> String {
    let root = cargo::root().expect("a workspace");
    format!("{:#}", run(&root, options).expect_err("this cannot be packed"))
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").next().is_none()
}

#[test]
fn a_program_that_is_not_there_is_to_be_built() {
    let out = tempfile::tempdir().expect("a folder");
    let why = said(&options(Path::new("no-such-program"), out.path()));
    assert!(why.contains("no-such-program") && why.contains("cargo build"), "{why}");
    assert!(is_empty(out.path()));
}

#[test]
fn a_program_of_another_name_is_no_wirespeed() {
    let out = tempfile::tempdir().expect("a folder");
    for program in ["/bin/true", "/bin/false", "/etc/passwd"] {
        let why = said(&options(Path::new(program), out.path()));
        assert!(why.contains(program) && why.contains("build it again"), "{why}");
        assert!(is_empty(out.path()));
    }
}

#[test]
fn folders_that_packers_misread_are_refused() {
    let top = tempfile::tempdir().expect("a folder");
    for name in ["a b", "100%", "$HOME"] {
        let why = said(&options(Path::new("/bin/true"), &top.path().join(name)));
        assert!(why.contains("--out"), "{why}");
    }
    assert!(is_empty(top.path()));
    let why = said(&options(Path::new("/bin/true"), Path::new("/proc/none")));
    assert!(why.contains("/proc/none") && why.contains("--out"), "{why}");
}

#[test]
fn packages_are_delivered_with_their_own_checksums_alone() {
    let (from, out) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("one"));
    fs::write(out.path().join(SUMS), "of another run").expect("room");
    fs::write(out.path().join("theirs"), "kept").expect("room");
    fs::write(from.path().join("package"), "new").expect("room");
    let made = |names: &[&str]| Made {
        folder: from.path().to_owned(),
        names: names.iter().map(|&name| name.to_owned()).collect(),
    };
    made(&["package", "missing"]).deliver(out.path()).expect_err("one is missing");
    assert!(!out.path().join(SUMS).exists());
    fs::write(from.path().join("package"), "new").expect("room");
    fs::write(from.path().join(SUMS), "of this run").expect("room");
    made(&["package", SUMS]).deliver(out.path()).expect("all are there");
    let read = |name: &str| fs::read_to_string(out.path().join(name)).expect("a file");
    assert_eq!([read("package"), read(SUMS), read("theirs")], ["new", "of this run", "kept"]);
}
