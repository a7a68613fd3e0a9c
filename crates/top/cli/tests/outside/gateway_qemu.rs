//! `wirespeed gateway` with a machine of QEMU: Debian's kernel and busybox, emulated. The machine
//! gets its addresses, and reaches the outside through its virtio card.
//! `WIRESPEED_GUEST_KERNEL` names the kernel's folder ([`testbed::GuestKernel`]).
//! By vhost-user QEMU 7.2 crashes when it emulates; `WIRESPEED_QEMU` names a later one.

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use testbed::{Case, GuestKernel, Need, Running, until};

use super::gateway::{BUSYBOX, Folder, SERVER, SOON, gateway, serve};
use super::gateway_passt::{passt, process_of};

const QEMU: Need = Need::Program("qemu-system-x86_64", "qemu-system-x86");

const NEEDS: &[Need] = &[QEMU, BUSYBOX, Need::Other(no_kernel)];

pub(crate) const CASES: &[Case] = &[
    ("a_machine_of_qemu_configures_itself", NEEDS, machine),
    ("a_machine_of_qemu_has_datagrams", NEEDS, datagrams),
    ("passts_own_line_serves_a_machine_of_qemu", NEEDS, by_passt),
    (
        "a_machine_that_shares_its_memory_configures_itself",
        &[BUSYBOX, Need::Other(no_kernel), Need::Other(no_later_qemu)],
        by_vhost_user,
    ),
];

/// What the machine does. It ends by itself.
const SCRIPT: &str = "n=0
while [ $n -lt 60 ] && ! ip -6 addr show dev eth0 | grep -q 'inet6 fd77::'; do
  usleep 250000
  n=$((n+1))
done
ip -6 addr show dev eth0 | grep -q 'inet6 fd77::' && echo has-ipv6
wget -q -O - http://198.51.100.1:8000/
echo
poweroff -f
";

fn no_kernel() -> Option<String> {
    GuestKernel::find().err()
}

/// A QEMU that emulates a machine with vhost-user.
fn later_qemu() -> Option<String> {
    std::env::var("WIRESPEED_QEMU").ok()
}

fn no_later_qemu() -> Option<String> {
    match later_qemu() {
        Some(_) => None,
        None => Some("needs WIRESPEED_QEMU, a QEMU later than 8".into()),
    }
}

/// Start a machine with this network and wait for its end; returns what it said.
fn boot(folder: &Folder, netdev: &str) -> String {
    run(folder, "qemu-system-x86_64", &["-netdev", netdev])
}

/// The same with these words and another QEMU.
fn run(folder: &Folder, qemu: &str, network: &[&str]) -> String {
    let kernel = GuestKernel::find().expect("checked before");
    let files = kernel.files(&folder.path("files"), SCRIPT, &[]).expect("there is room");
    let console = fs::File::create(folder.path("console")).expect("room");
    let words = kernel.qemu(&files);
    let qemu = Command::new(qemu)
        .args(&words[1..])
        .args(network)
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
    served("qemu", |folder, socket| {
        boot(folder, &format!("stream,id=n,server=off,addr.type=unix,addr.path={socket}"))
    });
}

fn by_vhost_user() {
    let qemu = later_qemu().expect("checked before");
    served("vhost-user", |folder, socket| {
        let memory = "memory-backend-memfd,id=m,size=256M,share=on";
        let chardev = format!("socket,id=c,path={socket},reconnect-ms=1000");
        let machine = ["-object", memory, "-machine", "pc,memory-backend=m"];
        let card = ["-chardev", &chardev, "-netdev", "vhost-user,id=n,chardev=c"];
        run(folder, &qemu, &[&machine[..], &card].concat())
    });
}

/// A machine with this kind of link, which `boot` starts, reaches the outside.
fn served(kind: &str, boot: impl Fn(&Folder, &str) -> String) {
    let folder = Folder::new(kind);
    let path = folder.path("vm");
    let vm = format!("{kind}:{}", path.display());
    let gateway = gateway(&["--vm", &vm, "--net6", "fd77::/64"], &[&path]);
    serve(TcpListener::bind((SERVER, 8_000)).expect("a port"), "outside");
    let said = boot(&folder, &path.display().to_string());
    let lease = "lease 10.0.2.100/24 10.0.2.2 10.0.2.3 65520";
    for expected in [lease, "has-ipv6", "outside"] {
        assert!(said.contains(expected), "no {expected}: {said}");
    }
    let (code, _, err) = gateway.end_by(Signal::INT);
    assert_eq!(code, 0, "{err}");
}

/// The process of the gateway sees the folder of the machine's socket, and nothing else.
fn datagrams() {
    let folder = Folder::new("qemu-dgram");
    let (ours, theirs) = (folder.path("gateway"), folder.path("machine"));
    let vm = format!("qemu-dgram:{},{}", ours.display(), theirs.display());
    let gateway = gateway(&["--vm", &vm, "--net6", "fd77::/64", "--mtu", "1500"], &[&ours]);
    serve(TcpListener::bind((SERVER, 8_000)).expect("a port"), "outside");
    let netdev = format!(
        "dgram,id=n,local.type=unix,local.path={},remote.type=unix,remote.path={}",
        theirs.display(),
        ours.display()
    );
    let said = boot(&folder, &netdev);
    for expected in ["lease 10.0.2.100/24 10.0.2.2 10.0.2.3 1500", "has-ipv6", "outside"] {
        assert!(said.contains(expected), "no {expected}: {said}");
    }
    let (code, _, err) = gateway.end_by(Signal::INT);
    assert_eq!((code, err.contains("warning")), (0, false), "{err}");
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
