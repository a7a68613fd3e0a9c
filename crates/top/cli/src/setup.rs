//! `wirespeed setup`: prints the lines of configuration with which podman, Docker or libvirt start
//! the drop-ins in the place of the original programs, and makes a folder of links to this program.
//!
//! Called by: `lib.rs`. Only `links` changes anything.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::compat::NAMES;
use crate::{Outcome, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  wirespeed setup links ~/.local/libexec/wirespeed          links named pasta, passt and so on
  wirespeed setup podman --dir ~/.local/libexec/wirespeed   the lines for containers.conf

For all users: sudo wirespeed setup links /usr/libexec/wirespeed")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Print the lines of containers.conf for podman and buildah
    Podman(Folder),
    /// Print the lines of Docker's rootless service
    Docker(Folder),
    /// Print the lines of a libvirt domain, and where libvirt finds passt
    Libvirt(Folder),
    /// Make a folder of links to this program, named after the programs that they replace
    Links {
        /// The folder
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

#[derive(clap::Args, Debug)]
struct Folder {
    /// The folder of the links
    #[arg(long, value_name = "DIR", default_value = "/usr/libexec/wirespeed")]
    dir: PathBuf,
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    match &args.what {
        What::Podman(folder) => print(folder, podman),
        What::Docker(folder) => print(folder, docker),
        What::Libvirt(folder) => print(folder, libvirt),
        What::Links { dir } => links(dir),
    }
}

fn print(folder: &Folder, text: fn(&str) -> String) -> Result<Outcome> {
    let dir = std::path::absolute(&folder.dir).context("the folder has no absolute path")?;
    if !dir.join(NAMES[0]).exists() {
        let dir = dir.display();
        bail!("{dir} has no links yet: make them first, `wirespeed setup links {dir}`");
    }
    output::out(&text(&dir.display().to_string()))?;
    Ok(Outcome::Done)
}

fn podman(dir: &str) -> String {
    format!(
        "\
# ~/.config/containers/containers.conf, or /etc/containers/containers.conf
[engine]
helper_binaries_dir = [\"{dir}\", \"/usr/local/libexec/podman\", \"/usr/local/lib/podman\", \
\"/usr/libexec/podman\", \"/usr/lib/podman\"]
[network]
default_rootless_network_cmd = \"pasta\"
# A fence for all containers, if you want one:
# pasta_options = [\"--allow\", \"*.debian.org\", \"--log\", \"/tmp/containers.log\"]
"
    )
}

fn docker(dir: &str) -> String {
    format!(
        "\
# systemctl --user edit docker.service
[Service]
Environment=PATH={dir}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
Environment=DOCKERD_ROOTLESS_ROOTLESSKIT_NET=pasta
Environment=DOCKERD_ROOTLESS_ROOTLESSKIT_PORT_DRIVER=implicit
"
    )
}

fn libvirt(dir: &str) -> String {
    format!(
        "\
<!-- virsh edit DOMAIN -->
<interface type='user'>
  <backend type='passt'/>
  <model type='virtio'/>
</interface>
<!-- libvirt looks for passt in PATH: systemctl edit virtqemud.service, or libvirtd.service
[Service]
Environment=PATH={dir}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
-->
"
    )
}

/// Make the links; those that are there are made anew.
fn links(dir: &Path) -> Result<Outcome> {
    let program = std::env::current_exe().context("the program's own file is not found")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for name in NAMES {
        let link = dir.join(name);
        let shown = link.display();
        match fs::symlink_metadata(&link) {
            Ok(found) if !found.file_type().is_symlink() => {
                bail!("{shown} is another file: choose another folder");
            }
            Ok(_) => fs::remove_file(&link).with_context(|| format!("cannot replace {shown}"))?,
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(why) => return Err(why).with_context(|| format!("cannot replace {shown}")),
        }
        symlink(&program, &link).with_context(|| format!("cannot make {shown}"))?;
        output::out(&format!("{shown} -> {}\n", program.display()))?;
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_anew_and_files_stay() {
        let dir = std::env::temp_dir().join(format!("setup-links-{}", std::process::id()));
        assert!(links(&dir).is_ok() && links(&dir).is_ok());
        let own = std::env::current_exe().expect("a file");
        assert!(NAMES.iter().all(|name| fs::read_link(dir.join(name)).expect("a link") == own));
        fs::remove_file(dir.join("pasta")).expect("it is ours");
        fs::write(dir.join("pasta"), "").expect("room");
        let why = links(&dir).map(|_| ()).expect_err("a file");
        assert!(why.to_string().contains("another folder"), "{why}");
        fs::remove_dir_all(dir).expect("it is ours");
    }
}
