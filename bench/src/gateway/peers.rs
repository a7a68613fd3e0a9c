//! Debian's newest pasta and slirp4netns: found in a tree of Debian sid, or put into one below
//! `target/` by debootstrap. Called by `world.rs`.
//!
//! The programs run outside the tree with the tree's own loader and libraries. In a plain chroot
//! the kernel refuses user namespaces.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// The programs of the tree that are used. pasta has a copy for processors with AVX2.
const PASTA: &str = "pasta.avx2";
const PASTA_OF_ALL: &str = "pasta";
const SLIRP: &str = "slirp4netns";

/// The peers, where an ordinary user can run them.
pub(super) struct Peers {
    folder: PathBuf,
    pasta: &'static str,
    /// The programs' own words about their versions.
    pub(super) pasta_version: String,
    pub(super) slirp_version: String,
}

impl Peers {
    /// Copies the peers and what they load into `folder`.
    ///
    /// # Errors
    /// There is no tree, and none can be made.
    pub(super) fn find(given: Option<&Path>, folder: &Path) -> Result<Peers> {
        let tree = tree(given)?;
        fs::create_dir(folder).with_context(|| format!("making {}", folder.display()))?;
        let has_avx2 = std::arch::is_x86_feature_detected!("avx2");
        let pasta = if has_avx2 && tree.join("usr/bin").join(PASTA).exists() {
            PASTA
        } else {
            PASTA_OF_ALL
        };
        let loader = loader(&tree)?;
        put(&loader, &folder.join("loader"))?;
        for name in [pasta, SLIRP] {
            let program = tree.join("usr/bin").join(name);
            put(&program, &folder.join(name))?;
            for library in libraries(&loader, &tree, &program)? {
                let name = library.file_name().context("a library without a name")?;
                put(&library, &folder.join(name))?;
            }
        }
        let mut peers = Peers {
            folder: folder.to_owned(),
            pasta,
            pasta_version: String::new(),
            slirp_version: String::new(),
        };
        let first = |command: &[String]| -> Result<String> {
            let output = Command::new(&command[0]).args(&command[1..]).arg("--version").output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok(text.lines().next().unwrap_or("of unknown version").to_owned())
        };
        peers.pasta_version = first(&peers.pasta())?;
        peers.slirp_version = first(&peers.slirp())?;
        Ok(peers)
    }

    /// The beginning of pasta's command line.
    pub(super) fn pasta(&self) -> Vec<String> {
        self.program(self.pasta, "pasta")
    }

    /// The beginning of passt's command line: pasta's program, by another name.
    pub(super) fn passt(&self) -> Vec<String> {
        self.program(self.pasta, "passt")
    }

    /// The beginning of slirp4netns's command line.
    pub(super) fn slirp(&self) -> Vec<String> {
        self.program(SLIRP, SLIRP)
    }

    fn program(&self, file: &str, name: &str) -> Vec<String> {
        let of = |file: &str| self.folder.join(file).display().to_string();
        let library_path = self.folder.display().to_string();
        [&of("loader"), "--argv0", name, "--library-path", &library_path, &of(file)]
            .map(str::to_owned)
            .to_vec()
    }
}

fn put(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The dynamic loader of the tree. Its links lead to absolute paths, which are the tree's own.
fn loader(tree: &Path) -> Result<PathBuf> {
    for folder in ["usr/lib64", "usr/lib", "lib64", "lib"] {
        for entry in fs::read_dir(tree.join(folder)).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("ld-linux") {
                return inside(tree, &entry.path());
            }
        }
    }
    bail!("{} has no dynamic loader", tree.display())
}

/// The file that a path of the tree leads to, with the tree as the root.
fn inside(tree: &Path, path: &Path) -> Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..8 {
        let Ok(to) = fs::read_link(&path) else { return Ok(path) };
        path = match to.strip_prefix("/") {
            Ok(rest) => tree.join(rest),
            Err(_) => path.parent().unwrap_or(tree).join(to),
        };
    }
    bail!("{} is a link to a link, eight times", path.display())
}

/// The libraries that a program of the tree loads.
fn libraries(loader: &Path, tree: &Path, program: &Path) -> Result<Vec<PathBuf>> {
    let folders = fs::read_dir(tree.join("usr/lib"))?.flatten().map(|entry| entry.path());
    let multiarch = folders.filter(|path| path.join("libc.so.6").exists());
    let path = multiarch.map(|path| path.display().to_string()).collect::<Vec<_>>().join(":");
    let mut command = Command::new(loader);
    command.args(["--library-path", &path, "--list"]).arg(program);
    let output = command.output().context("running the tree's loader")?;
    ensure!(output.status.success(), "{} cannot be loaded", program.display());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.lines().filter_map(|line| {
        let (_, path) = line.split_once(" => ")?;
        Some(PathBuf::from(path.split(" (").next()?.trim()))
    });
    Ok(found.filter(|path| path.is_absolute()).collect())
}

/// The tree that `--peers` names, or the one below `target/`, which is made if it is missing.
fn tree(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(tree) = given {
        for name in [PASTA_OF_ALL, SLIRP] {
            let program = tree.join("usr/bin").join(name);
            ensure!(program.exists(), "--peers: there is no {}", program.display());
        }
        return Ok(tree.to_owned());
    }
    let own = std::env::current_exe().context("finding this program")?;
    let target = own.parent().and_then(Path::parent).context("this program has no folder")?;
    let tree = target.join("gateway-peers");
    if tree.join("usr/bin").join(SLIRP).exists() && tree.join(READY).exists() {
        return Ok(tree);
    }
    make(&tree)?;
    Ok(tree)
}

/// The file that says that a tree is whole.
const READY: &str = "wirespeed-ready";

fn make(tree: &Path) -> Result<()> {
    eprintln!("    making a tree of Debian sid in {}, once: minutes", tree.display());
    if tree.exists() {
        fs::remove_dir_all(tree).with_context(|| format!("removing {}", tree.display()))?;
    }
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", "--include=passt,slirp4netns", "sid"]).arg(tree);
    let status = match command.stdout(Stdio::null()).status() {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => bail!(
            "no pasta and no slirp4netns of Debian sid: install debootstrap (Debian: apt install \
             debootstrap), or name a tree by --peers"
        ),
        status => status.context("starting debootstrap")?,
    };
    ensure!(
        status.success(),
        "debootstrap ended with {status}: see {}/debootstrap/debootstrap.log, or name a tree by \
         --peers",
        tree.display()
    );
    fs::write(tree.join(READY), "").context("marking the tree as whole")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::build::Scratch;

    #[test]
    fn links_stay_in_the_tree() {
        let scratch = Scratch::new().expect("a folder");
        let tree = &scratch.0;
        fs::create_dir_all(tree.join("usr/lib/x")).expect("folders");
        fs::write(tree.join("usr/lib/x/ld.so"), "").expect("a file");
        symlink("/usr/lib/x/ld.so", tree.join("usr/absolute")).expect("a link");
        symlink("lib/x/ld.so", tree.join("usr/relative")).expect("a link");
        for name in ["usr/absolute", "usr/relative", "usr/lib/x/ld.so"] {
            let found = inside(tree, &tree.join(name)).expect("it is there");
            assert_eq!(found, tree.join("usr").join("lib/x/ld.so"), "{name}");
        }
    }

    #[test]
    fn a_tree_without_the_peers_is_named() {
        let scratch = Scratch::new().expect("a folder");
        let why = tree(Some(&scratch.0)).expect_err("it is empty").to_string();
        assert!(why.contains("--peers") && why.contains("pasta"), "{why}");
    }
}
