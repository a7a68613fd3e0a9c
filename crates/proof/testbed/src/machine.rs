//! What a virtual machine of QEMU starts from: Debian's kernel, and a file system in memory with
//! busybox, the drivers of its network card, and programs of the caller.
//!
//! Called by: tests and benches of gateways for virtual machines. The kernel is a folder with an
//! unpacked package: `apt-get download linux-image-...-cloud-amd64`, then
//! `dpkg-deb -x FILE FOLDER`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable with the kernel's folder.
const FOLDER: &str = "WIRESPEED_GUEST_KERNEL";

/// Drivers of the card, in the order in which they depend on each other; a kernel may have them
/// built in.
const DRIVERS: &[&str] = &[
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
];

/// The beginning of each machine's script: it prints its lease.
const BEGIN: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc p /proc
mount -t devtmpfs d /dev
for module in /drivers/*; do insmod $module; done
ip link set lo up
ip link set eth0 up
udhcpc -i eth0 -s /lease -O mtu -n -q -t 20 -T 1
";

const LEASE: &str = "#!/bin/sh
[ \"$1\" = bound ] || exit 0
ip link set eth0 mtu ${mtu:-1500}
ip addr add $ip/$mask dev eth0
ip route add default via $router
echo \"lease $ip/$mask $router $dns $mtu\"
";

/// A kernel for virtual machines.
#[derive(Clone, Debug)]
pub struct GuestKernel {
    /// The kernel itself.
    pub image: PathBuf,
    modules: PathBuf,
}

impl GuestKernel {
    /// The kernel that `WIRESPEED_GUEST_KERNEL` names.
    ///
    /// # Errors
    /// There is none; the sentence says what to do.
    pub fn find() -> Result<GuestKernel, String> {
        let folder = std::env::var_os(FOLDER).map(PathBuf::from);
        let kernel = folder.and_then(|folder| {
            let image = first(&folder.join("boot"), "vmlinuz-")?;
            let modules = first(&folder.join("lib/modules"), "")?.join("kernel");
            Some(GuestKernel { image, modules })
        });
        kernel.ok_or_else(|| format!("needs {FOLDER}, a folder with Debian's cloud kernel"))
    }

    /// Makes the machine's files below `folder`, and returns them as the kernel takes them. The
    /// machine configures its card by DHCP, and then does what `script` says, a text for busybox's
    /// shell. `programs` are there by their names, with the libraries that they load.
    ///
    /// # Errors
    /// There is no busybox, no `ldd` or no room.
    pub fn files(
        &self,
        folder: &Path,
        script: &str,
        programs: &[(&str, &Path)],
    ) -> io::Result<PathBuf> {
        let root = folder.join("root");
        for name in ["bin", "proc", "dev", "drivers", "etc"] {
            fs::create_dir_all(root.join(name))?;
        }
        put(&root, Path::new("/bin/busybox"), "bin/busybox")?;
        for (name, program) in programs {
            put(&root, program, name)?;
        }
        for (number, driver) in DRIVERS.iter().enumerate() {
            let name = driver.rsplit('/').next().unwrap_or(driver);
            let to = root.join(format!("drivers/{number}-{name}"));
            // Those that are missing are built in.
            let _ = fs::copy(self.modules.join(format!("{driver}.ko")), to);
        }
        fs::write(root.join("init"), format!("{BEGIN}{script}"))?;
        fs::write(root.join("lease"), LEASE)?;
        let image = folder.join("initramfs");
        let command = "cd \"$1\" && chmod 755 init lease && find . | busybox cpio -o -H newc";
        let to = fs::File::create(&image)?;
        let mut pack = Command::new("sh");
        pack.args(["-c", command, "sh"]).arg(&root).stdout(to).stderr(Stdio::null());
        let made = pack.status()?;
        fs::remove_dir_all(&root)?;
        if made.success() { Ok(image) } else { Err(io::Error::other("busybox has no cpio")) }
    }

    /// QEMU without a screen, with this kernel and these files, emulating its processor. Its
    /// console and its card are the caller's to add: a card is `-device virtio-net-pci,netdev=n`.
    pub fn qemu(&self, files: &Path) -> Vec<String> {
        let (image, files) = (self.image.display().to_string(), files.display().to_string());
        ["qemu-system-x86_64", "-accel", "tcg", "-m", "256", "-nographic", "-no-reboot"]
            .into_iter()
            .chain(["-append", "console=ttyS0 quiet panic=-1", "-kernel", &image])
            .chain(["-initrd", &files, "-device", "virtio-net-pci,netdev=n"])
            .map(str::to_owned)
            .collect()
    }
}

/// The first file of a folder whose name begins so.
fn first(folder: &Path, begins: &str) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begins))
    };
    fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).find(is_it)
}

/// Copies a program, and the libraries that it loads to where it looks for them.
fn put(root: &Path, program: &Path, name: &str) -> io::Result<()> {
    fs::copy(program, root.join(name))?;
    let libraries = Command::new("ldd").arg(program).output()?;
    let libraries = String::from_utf8_lossy(&libraries.stdout).into_owned();
    for library in libraries.split_whitespace().filter_map(|word| word.strip_prefix('/')) {
        let to = root.join(library);
        fs::create_dir_all(to.parent().unwrap_or(root))?;
        fs::copy(Path::new("/").join(library), to)?;
    }
    Ok(())
}
