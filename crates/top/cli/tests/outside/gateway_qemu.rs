//! `wirespeed gateway` with a machine of QEMU: Debian's kernel and busybox, emulated. The machine
//! gets its addresses, and reaches the outside through its virtio card.
//!
//! The kernel is a folder with an unpacked package: `apt-get download linux-image-...-cloud-amd64`,
//! `dpkg-deb -x FILE FOLDER`, and `WIRESPEED_GUEST_KERNEL=FOLDER`.

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use testbed::{Case, Need, Running, until};

use super::gateway::{BUSYBOX, Folder, SERVER, SOON, gateway, serve};
use super::gateway_passt::{passt, process_of};

const QEMU: Need = Need::Program("qemu-system-x86_64", "qemu-system-x86");

const NEEDS: &[Need] = &[QEMU, BUSYBOX, Need::Other(no_kernel)];

pub(crate) const CASES: &[Case] = &[
    ("a_machine_of_qemu_configures_itself", NEEDS, machine),
    ("passts_own_line_serves_a_machine_of_qemu", NEEDS, by_passt),
];

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

/// What the machine does. It ends by itself.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc p /proc
for module in /drivers/*; do insmod $module; done
ip link set eth0 up
udhcpc -i eth0 -s /lease -O mtu -n -q -t 20 -T 1
n=0
while [ $n -lt 60 ] && ! ip -6 addr show dev eth0 | grep -q 'inet6 fd77::'; do
  usleep 250000
  n=$((n+1))
done
ip -6 addr show dev eth0 | grep -q 'inet6 fd77::' && echo has-ipv6
wget -q -O - http://198.51.100.1:8000/
echo
poweroff -f
";

const LEASE: &str = "#!/bin/sh
[ \"$1\" = bound ] || exit 0
ip link set eth0 mtu $mtu
ip addr add $ip/$mask dev eth0
ip route add default via $router
echo \"lease $ip/$mask $router $dns $mtu\"
";

fn folder() -> Option<PathBuf> {
    std::env::var_os("WIRESPEED_GUEST_KERNEL").map(PathBuf::from)
}

fn no_kernel() -> Option<String> {
    match folder().and_then(|folder| first(&folder.join("boot"), "vmlinuz-")) {
        Some(_) => None,
        None => Some("needs WIRESPEED_GUEST_KERNEL, a folder with Debian's cloud kernel".into()),
    }
}

/// The first file of a folder whose name begins so.
fn first(folder: &Path, begins: &str) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begins))
    };
    fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).find(is_it)
}

/// The machine's files, as the kernel takes them.
fn initramfs(kernel: &Path, to: &Path) -> PathBuf {
    let root = to.join("root");
    for folder in ["bin", "proc", "drivers", "etc"] {
        fs::create_dir_all(root.join(folder)).expect("room");
    }
    let copy = |from: &Path| {
        let target = root.join(from.strip_prefix("/").expect("absolute"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("room");
        fs::copy(from, target).expect("room");
    };
    let busybox = Path::new("/bin/busybox");
    copy(busybox);
    let libraries = Command::new("ldd").arg(busybox).output().expect("ldd is there");
    let libraries = String::from_utf8_lossy(&libraries.stdout).into_owned();
    libraries.split_whitespace().filter(|word| word.starts_with('/')).for_each(|library| {
        copy(Path::new(library));
    });
    let modules = first(&kernel.join("lib/modules"), "").expect("modules").join("kernel");
    for (number, driver) in DRIVERS.iter().enumerate() {
        let name = driver.rsplit('/').next().expect("a name");
        let to = root.join(format!("drivers/{number}-{name}"));
        // Those that are missing are built in.
        let _ = fs::copy(modules.join(format!("{driver}.ko")), to);
    }
    for (name, text) in [("init", INIT), ("lease", LEASE)] {
        fs::write(root.join(name), text).expect("room");
    }
    let image = to.join("initramfs");
    let script = format!(
        "cd {} && chmod 755 init lease && find . | busybox cpio -o -H newc > {}",
        root.display(),
        image.display()
    );
    let made = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
    assert!(made.expect("a shell").success());
    image
}

/// Start a machine with this network and wait for its end; returns what it said.
fn boot(folder: &Folder, netdev: &str) -> String {
    let kernel = self::folder().expect("checked before");
    let image = initramfs(&kernel, &folder.path("image"));
    let console = fs::File::create(folder.path("console")).expect("room");
    let qemu = Command::new("qemu-system-x86_64")
        .args(["-accel", "tcg", "-m", "256", "-nographic", "-no-reboot", "-kernel"])
        .arg(first(&kernel.join("boot"), "vmlinuz-").expect("checked before"))
        .arg("-initrd")
        .arg(image)
        .args(["-append", "console=ttyS0 quiet panic=-1", "-netdev", netdev])
        .args(["-device", "virtio-net-pci,netdev=n"])
        .stdin(Stdio::null())
        .stdout(console)
        .stderr(Stdio::piped())
        .spawn();
    let ended = Running(qemu.expect("it starts")).wait();
    let said = fs::read_to_string(folder.path("console")).expect("text");
    assert!(ended.success(), "{said}");
    said
}

fn machine() {
    let folder = Folder::new("qemu");
    let path = folder.path("vm");
    let vm = format!("qemu:{}", path.display());
    let gateway = gateway(&["--vm", &vm, "--net6", "fd77::/64"], &[&path]);
    serve(TcpListener::bind((SERVER, 8_000)).expect("a port"), "outside");
    let socket = path.display();
    let said = boot(&folder, &format!("stream,id=n,server=off,addr.type=unix,addr.path={socket}"));
    let lease = "lease 10.0.2.100/24 10.0.2.2 10.0.2.3 65520";
    for expected in [lease, "has-ipv6", "outside"] {
        assert!(said.contains(expected), "no {expected}: {said}");
    }
    let (code, _, err) = gateway.end_by(Signal::INT);
    assert_eq!(code, 0, "{err}");
}

/// As QEMU 10.1 starts passt itself: one end of a pair for each.
fn by_passt() {
    let folder = Folder::new("qemu-passt");
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    for end in [&ours, &theirs] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::empty()).expect("it is open");
    }
    let pid_file = folder.path("pid");
    let options = "--quiet --mtu 9000 --address 10.9.0.15 --netmask 255.255.255.0 --address \
                   fd77::15 --gateway 10.9.0.2 --no-map-gw";
    let (code, said) = passt(&format!("{options} --fd {}", theirs.as_raw_fd()), &pid_file);
    assert_eq!((code, said.as_str()), (0, ""));
    drop(theirs);
    serve(TcpListener::bind((SERVER, 8_000)).expect("a port"), "outside");
    let netdev = format!("stream,id=n,addr.type=fd,addr.str={}", ours.as_raw_fd());
    let said = boot(&folder, &netdev);
    for expected in ["lease 10.9.0.15/24 10.9.0.2 10.9.0.3 9000", "has-ipv6", "outside"] {
        assert!(said.contains(expected), "no {expected}: {said}");
    }
    let pid = process_of(&pid_file);
    assert!(!pid.is_gone(), "it ends with its socket");
    drop(ours);
    assert!(until(SOON, || pid.is_gone()), "it does not end");
}
