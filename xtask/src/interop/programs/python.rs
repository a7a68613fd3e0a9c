//! The Python package: its wheel is built, installed beside mypy and pytest, and tested; then the
//! same wheel in a fresh virtual environment, with the tests alone.
//!
//! Called by: the suite `programs`. pip builds the wheel by maturin, as docs/python.md says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::interop::{Case, Need, Workbench};

const PYTHON: Need = Need::Program { program: "python3", package: "python3" };
const VENV: Need = Need::Program { program: "python3", package: "python3-venv" };
const UNSHARE: Need = Need::Program { program: "unshare", package: "util-linux" };
const OPENSSL: Need = Need::Program { program: "openssl", package: "openssl" };
const TUN: Need = Need::File("/dev/net/tun");
const NEEDS: &[Need] = &[PYTHON, VENV, UNSHARE, OPENSSL, Need::Root, TUN];

pub(super) const CASE: Case = Case {
    name: "Python: the wheel, typed by mypy, its tests, and again in a fresh environment",
    needs: NEEDS,
    run: wheel,
};

/// What the tests use: the last three are libraries for which the package's page has adapters.
const INSTALL: [&str; 5] = ["install", "pytest", "aiohttp", "httpx", "requests"];

/// The longest build, on a machine that has nothing yet.
const BUILD: Duration = Duration::from_secs(900);
/// The longest other step.
const STEP: Duration = Duration::from_secs(300);

fn wheel(bench: &Workbench) -> Result<()> {
    let package = bench.root().join("python");
    let first = Environment::new(bench, "first")?;
    first.pip(bench, &["wheel", "--no-deps", "--wheel-dir"], &[&bench.path("wheels"), &package])?;
    let wheel = built(&bench.path("wheels"))?;
    println!("  {}", wheel.file_name().unwrap_or_default().to_string_lossy());

    first.pip(bench, &[&INSTALL[..], &["mypy"]].concat(), &[&wheel])?;
    // Tests and types are those of the installed package, not those of the source tree.
    let tests = bench.path("tests");
    copy(&package.join("tests"), &tests)?;
    std::fs::copy(package.join("pyproject.toml"), bench.path("pyproject.toml"))?;
    let mypy = ["-m", "mypy", "--strict", "-p", "wirespeed"];
    let typed = bench.run(first.python(bench).args(mypy), STEP)?;
    println!("  mypy, the package: {}", typed.trim());
    let typed = bench.run(first.python(bench).args(["-m", "mypy", "--strict", "tests"]), STEP)?;
    println!("  mypy, its tests: {}", typed.trim());
    println!("  pytest: {}", first.pytest(bench)?);

    let fresh = Environment::new(bench, "fresh")?;
    fresh.pip(bench, &INSTALL, &[&wheel])?;
    println!("  pytest in a fresh environment: {}", fresh.pytest(bench)?);
    Ok(())
}

/// A virtual environment.
struct Environment(PathBuf);

impl Environment {
    fn new(bench: &Workbench, name: &str) -> Result<Environment> {
        let folder = bench.path(name);
        bench.run(Command::new("python3").args(["-m", "venv"]).arg(&folder), STEP)?;
        Ok(Environment(folder))
    }

    /// Its interpreter, in the folder that has the tests.
    fn python(&self, bench: &Workbench) -> Command {
        let mut python = Command::new(self.0.join("bin/python"));
        python.current_dir(bench.path("")).env("PYTHONDONTWRITEBYTECODE", "1");
        python
    }

    fn pip(&self, bench: &Workbench, words: &[&str], paths: &[&Path]) -> Result<()> {
        let mut pip = self.python(bench);
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).args(words).args(paths);
        pip.env("CARGO_TARGET_DIR", bench.root().join("target/python/build"));
        bench.run(&mut pip, BUILD).map(drop)
    }

    /// Runs the tests; returns the last line. A test that is skipped is a failure here.
    fn pytest(&self, bench: &Workbench) -> Result<String> {
        let mut tests = self.python(bench);
        tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]);
        let printed = bench.run(&mut tests, STEP)?;
        let last = printed.lines().last().unwrap_or_default().to_owned();
        ensure!(last.contains("passed") && !last.contains("skipped"), "{printed}");
        Ok(last)
    }
}

fn built(folder: &Path) -> Result<PathBuf> {
    let files = std::fs::read_dir(folder).context("the folder of the wheel")?;
    let mut files = files.flatten().map(|entry| entry.path());
    files.find(|path| path.extension().is_some_and(|e| e == "whl")).context("pip made no wheel")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)?.flatten() {
        if entry.path().extension().is_some_and(|e| e == "py") {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
