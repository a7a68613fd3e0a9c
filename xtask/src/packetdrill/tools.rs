//! Programs that scripts find on PATH and beside them: a `sysctl` that records its settings for the
//! shared object to read, and programs that would change a kernel's device and here do nothing.
//!
//! Called by: `packetdrill/mod.rs` and `run.rs`.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Appends its settings, one a line, to the file that the environment names.
const SYSCTL: &str = "#!/bin/sh\n\
    for word in \"$@\"; do\n\
    case \"$word\" in *=*) printf '%s\\n' \"$word\" >> \"$WIRESPEED_SYSCTLS\" ;; esac\n\
    done\n";

/// The same for paths below /proc/sys; scripts run the file that it leaves behind as their last
/// command.
const SET_SYSCTLS: &str = "#!/bin/sh\n\
    sysctl \"$@\"\n\
    restore=/tmp/sysctl_restore_${PACKETDRILL_PID}.sh\n\
    printf '#!/bin/sh\\n' > \"$restore\"\n\
    chmod u+x \"$restore\"\n";

/// `ethtool -K DEVICE tso off ...`: pairs of words.
const ETHTOOL: &str = "#!/bin/sh\n\
    shift 2\n\
    while [ $# -gt 1 ]; do\n\
    printf '%s=%s\\n' \"$1\" \"$2\" >> \"$WIRESPEED_SYSCTLS\"\n\
    shift 2\n\
    done\n";

/// `grep` in /proc/net/tcp reads the file that the shared object writes instead.
const GREP: &str = "#!/bin/sh\n\
    for word in \"$@\"; do\n\
    shift\n\
    case \"$word\" in /proc/net/tcp|/proc/net/tcp6) word=\"$WIRESPEED_SYSCTLS.sockets\" ;; esac\n\
    set -- \"$@\" \"$word\"\n\
    done\n\
    PATH=\"${PATH#*:}\"\n\
    exec grep \"$@\"\n";

const NOTHING: &str = "#!/bin/sh\nexit 0\n";

/// A folder for all of these, removed at the end.
pub(crate) struct Tools {
    root: PathBuf,
    /// The folder against which paths of scripts are taken.
    base: PathBuf,
}

impl Tools {
    /// Make the folder; `dir` is the one with scripts.
    pub(crate) fn new(dir: &Path) -> Result<Tools> {
        let root =
            std::env::temp_dir().join(format!("wirespeed-packetdrill-{}", std::process::id()));
        let base = dir.ancestors().nth(2).unwrap_or(dir).to_path_buf();
        let tools = Tools { root, base };
        fs::create_dir_all(tools.path())?;
        for (name, text) in [("sysctl", SYSCTL), ("set_sysctls.py", SET_SYSCTLS)] {
            program(&tools.path().join(name), text)?;
        }
        program(&tools.path().join("ethtool"), ETHTOOL)?;
        program(&tools.path().join("grep"), GREP)?;
        for name in ["tc", "ip"] {
            program(&tools.path().join(name), NOTHING)?;
        }
        Ok(tools)
    }

    /// The folder that comes first on PATH.
    pub(crate) fn path(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// The file that a worker's `sysctl` writes.
    pub(crate) fn sysctls(&self, worker: usize) -> PathBuf {
        self.root.join(format!("sysctls-{worker}"))
    }

    /// The folder to run a script of `folder` in. Shell commands of the script find there the files
    /// beside it (`defaults.sh`, helper programs) and those in `../common`, except
    /// `set_sysctls.py`, which is ours.
    pub(crate) fn stage(&self, folder: &Path) -> Result<PathBuf> {
        let inside = folder.strip_prefix(&self.base).unwrap_or(Path::new("scripts"));
        let stage = self.root.join("stage").join(inside);
        fs::create_dir_all(&stage).with_context(|| format!("cannot make {}", stage.display()))?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let is_script = path.extension().is_some_and(|e| e == "pkt");
            if path.is_file() && !is_script {
                let ours = path.file_name().map(|name| self.path().join(name));
                link(ours.filter(|ours| ours.exists()).as_deref().unwrap_or(&path), &stage)?;
            }
        }
        let mut here = folder;
        let mut there = stage.as_path();
        while here.starts_with(&self.base) && there.starts_with(&self.root) {
            let common = here.join("common");
            if common.is_dir() {
                self.stage_common(&common, &there.join("common"))?;
            }
            let (Some(up), Some(up_there)) = (here.parent(), there.parent()) else { break };
            (here, there) = (up, up_there);
        }
        Ok(stage)
    }

    fn stage_common(&self, from: &Path, to: &Path) -> Result<()> {
        if to.is_dir() {
            return Ok(());
        }
        // Made under another name and renamed: two workers may do this at once.
        let aside = to.with_file_name(format!("common-{:?}", std::thread::current().id()));
        fs::create_dir_all(&aside)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let ours = self.path().join(entry.file_name());
            let target = if ours.exists() { ours } else { entry.path() };
            symlink(target, aside.join(entry.file_name()))?;
        }
        if fs::rename(&aside, to).is_err() {
            fs::remove_dir_all(&aside)?;
        }
        Ok(())
    }
}

/// A link to `file` in a folder. Another worker may have made it already.
fn link(file: &Path, folder: &Path) -> Result<()> {
    let Some(name) = file.file_name() else { return Ok(()) };
    match symlink(file, folder.join(name)) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(e).with_context(|| format!("cannot link {}", file.display()))
        }
        _ => Ok(()),
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn program(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_script_finds_the_helpers_beside_it() {
        let dir = std::env::temp_dir().join(format!("wirespeed-beside-{}", std::process::id()));
        let folder = dir.join("net/packetdrill/tcp");
        fs::create_dir_all(&folder).unwrap();
        for name in ["defaults.sh", "helper", "set_sysctls.py", "case.pkt"] {
            fs::write(folder.join(name), "exit 0\n").unwrap();
        }
        let tools = Tools::new(&folder).unwrap();
        let stage = tools.stage(&folder).unwrap();
        let twice = tools.stage(&folder);
        let read = |name: &str| fs::read_to_string(stage.join(name));
        let found = ["defaults.sh", "helper"].map(|name| read(name).unwrap());
        let (ours, script) = (read("set_sysctls.py"), read("case.pkt"));
        fs::remove_dir_all(&dir).unwrap();
        assert!(twice.is_ok());
        assert_eq!(found, ["exit 0\n"; 2]);
        assert_eq!(ours.unwrap(), SET_SYSCTLS);
        assert!(script.is_err());
    }

    #[test]
    fn what_sysctl_is_told_is_in_the_file() {
        let dir = std::env::temp_dir().join(format!("wirespeed-sysctl-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (file, kept) = (dir.join("sysctl"), dir.join("kept"));
        program(&file, SYSCTL).unwrap();
        let status = Command::new(&file)
            .env("WIRESPEED_SYSCTLS", &kept)
            .args(["-q", "net.ipv4.tcp_rmem=4096 540000 15728640", "net.ipv4.tcp_sack=0"])
            .status();
        let text = fs::read_to_string(&kept);
        fs::remove_dir_all(&dir).unwrap();
        assert!(status.unwrap().success());
        assert_eq!(text.unwrap(), "net.ipv4.tcp_rmem=4096 540000 15728640\nnet.ipv4.tcp_sack=0\n");
    }
}
