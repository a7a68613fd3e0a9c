//! A table from folders and files to the stages that their code belongs to.
//!
//! Called by: `code.rs`, for each address that was sampled or counted. The code of a file belongs
//! to the file's stage, wherever the compiler put it. A function of another crate (the standard
//! library, a helper of `base`) belongs to the stage that called it.

use crate::Stage;

/// Crate and path within its `src`, and the stage. The first entry that matches counts. `None` is a
/// helper, which belongs to its caller.
const TABLE: &[(&str, Option<Stage>)] = {
    use Stage::{
        Buffers, Checksum, Copy, Driver, Ether, Ip, Other, Socket, Stack, Tap, Tcp, WakeUps,
    };
    &[
        ("base/", None),
        ("mbuf/copy", Some(Copy)),
        ("mbuf/sockbuf", Some(Socket)),
        ("mbuf/prefetch", None),
        ("mbuf/field", None),
        ("mbuf/", Some(Buffers)),
        ("wire/bytes", None),
        ("wire/checksum", Some(Checksum)),
        ("wire/ether", Some(Ether)),
        ("wire/vlan", Some(Ether)),
        ("wire/arp", Some(Ether)),
        ("wire/nd", Some(Ether)),
        ("wire/tcp", Some(Tcp)),
        ("wire/udp", Some(Socket)),
        ("wire/", Some(Ip)),
        ("bpf/", Some(Tap)),
        ("filter/", Some(Ip)),
        ("tcp/sendq", Some(Socket)),
        ("tcp/", Some(Tcp)),
        ("inet/ether", Some(Ether)),
        ("inet/neighbour", Some(Ether)),
        ("inet/nd", Some(Ether)),
        ("inet/solicit", Some(Ether)),
        ("inet/flow", Some(Stack)),
        ("inet/udp", Some(Socket)),
        ("inet/", Some(Ip)),
        ("device/doorbell", Some(WakeUps)),
        ("device/", Some(Driver)),
        ("stack/taps", Some(Tap)),
        ("stack/port", Some(Driver)),
        ("stack/socket", Some(Socket)),
        ("stack/follow", Some(Tcp)),
        ("stack/stamp", Some(Tcp)),
        ("stack/arp", Some(Ether)),
        ("stack/nd", Some(Ether)),
        ("stack/resolv", Some(Ether)),
        ("stack/neighbours", Some(Ether)),
        ("stack/forward", Some(Ip)),
        ("stack/frag", Some(Ip)),
        ("stack/icmp", Some(Ip)),
        ("stack/local", Some(Ip)),
        ("stack/next_hop", Some(Ip)),
        ("stack/routes", Some(Ip)),
        ("stack/", Some(Stack)),
        ("link/", Some(Driver)),
        ("virtio/", Some(Driver)),
        ("phy/", Some(Driver)),
        ("netstack-smoltcp/", Some(Socket)),
        ("virtual-time/", Some(Other)),
        ("sim/", Some(Other)),
        ("net/bell", Some(WakeUps)),
        ("net/driver", Some(WakeUps)),
        ("net/timer", Some(WakeUps)),
        ("net/wait", Some(WakeUps)),
        ("net/", Some(Socket)),
        ("control/", Some(Other)),
        ("observe/", Some(Other)),
        ("dissect/", Some(Other)),
        ("capture/", Some(Other)),
        ("trace/", Some(Other)),
        ("explain/", Some(Other)),
        ("capi/", Some(Socket)),
        ("packetdrill/", Some(Other)),
        ("host/", Some(Other)),
        ("gateway/", Some(Socket)),
        ("outside/", Some(Socket)),
        ("policy/", Some(Socket)),
        ("jail/", Some(Other)),
        ("machine/", Some(Other)),
        ("rpc/", Some(Other)),
        ("nfs/", Some(Other)),
        ("telnet/", Some(Other)),
        ("router/", Some(Other)),
        ("ipfix/", Some(Other)),
        ("statesync/", Some(Other)),
        ("rib/", Some(Other)),
        ("fpm/", Some(Other)),
        ("page/", Some(Other)),
        ("live/", Some(Other)),
        ("profile/", Some(Other)),
        ("wirespeed/", Some(Socket)),
        ("lab/", Some(Other)),
        ("cli/", Some(Other)),
        ("testbed/", Some(Other)),
    ]
};

/// The owner of the code in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A stage.
    Stage(Stage),
    /// The caller: the code is a helper of ours, or foreign code.
    Caller,
}

/// The owner of a function in a source file.
pub(super) fn owner(path: &str, function: &str) -> Owner {
    let Some(path) = ours(path) else { return Owner::Caller };
    let line = TABLE.iter().find(|(prefix, _)| path.starts_with(prefix));
    match line.and_then(|(_, stage)| *stage) {
        // The sum is computed while the bytes are copied, so it belongs to the copy.
        Some(Stage::Checksum) if function.contains("copy") => Owner::Stage(Stage::Copy),
        Some(stage) => Owner::Stage(stage),
        None => Owner::Caller,
    }
}

/// The path of a file of ours in the form of [`TABLE`]. `.../crates/core/tcp/src/input.rs` in a
/// checkout and `.../wirespeed-tcp-0.1.0/src/input.rs` from a registry are both `tcp/input.rs`.
fn ours(path: &str) -> Option<String> {
    let (before, file) = path.rsplit_once("/src/")?;
    let (root, folder) = before.rsplit_once('/').unwrap_or(("", before));
    let is_known = |krate: &&str| {
        let named = TABLE.iter().filter_map(|(prefix, _)| prefix.split_once('/'));
        named.into_iter().any(|(name, _)| name == *krate)
    };
    // In a checkout, a folder such as `core` comes between.
    let checkout = root.rsplit_once('/').map(|(crates, _floor)| crates);
    let krate = match folder.strip_prefix("wirespeed-") {
        Some(versioned) => versioned.split('-').next(),
        None if checkout.is_some_and(|of| of == "crates" || of.ends_with("/crates")) => {
            Some(folder)
        }
        None => None,
    };
    krate.filter(is_known).map(|krate| format!("{krate}/{file}"))
}

/// The stage of a function of the C library, by its name; `None` if the name does not tell.
pub fn of_symbol(name: &str) -> Option<Stage> {
    const WAITS: [&str; 10] = [
        "epoll_wait",
        "epoll_pwait",
        "poll",
        "ppoll",
        "select",
        "syscall",
        "nanosleep",
        "clock_nanosleep",
        "sched_yield",
        "eventfd_write",
    ];
    const MOVES: [&str; 12] = [
        "read", "readv", "write", "writev", "send", "sendto", "sendmsg", "sendmmsg", "recv",
        "recvfrom", "recvmsg", "recvmmsg",
    ];
    let plain = name.trim_start_matches('_');
    if ["memcpy", "memmove", "memset", "memcmp", "bcmp"].iter().any(|m| plain.starts_with(m)) {
        return Some(Stage::Copy);
    }
    if WAITS.contains(&plain) || plain.starts_with("pthread_cond_") || plain.contains("futex") {
        return Some(Stage::WakeUps);
    }
    MOVES.contains(&plain).then_some(Stage::Driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_has_a_line_and_every_line_a_file() {
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let entries = |folder: &std::path::Path| {
            std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path())
        };
        let folders: Vec<_> = entries(crates.as_ref()).flat_map(|floor| entries(&floor)).collect();
        let name = |folder: &std::path::Path| folder.file_name().map(|n| n.display().to_string());
        for folder in folders.iter().filter_map(|folder| name(folder)) {
            let named = TABLE.iter().any(|(prefix, _)| *prefix == format!("{folder}/"));
            assert!(named, "{folder} has no line of its own in TABLE");
        }
        for (prefix, _) in TABLE {
            let (krate, path) = prefix.split_once('/').expect("a crate and a path");
            let folder = folders.iter().find(|folder| name(folder).as_deref() == Some(krate));
            let at = format!("{}/src/{path}", folder.expect("a crate").display());
            let exists = |at: &str| std::path::Path::new(at).exists();
            let folder = at.rsplit_once('/').map_or("", |(folder, _)| folder);
            let begins = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let begins = begins.map(|e| e.file_name().to_string_lossy().into_owned());
            let name = path.rsplit('/').next().unwrap_or("");
            let found = exists(&at) || begins.into_iter().any(|file| file.starts_with(name));
            assert!(found, "{prefix}: there is no such file");
        }
    }

    #[test]
    fn code_is_found_in_a_checkout_and_in_a_registry() {
        let of = |path: &str, function: &str| owner(path, function);
        for (path, function, stage) in [
            ("/a/b/crates/core/tcp/src/input.rs", "input", Stage::Tcp),
            ("crates/core/device/src/mem/gather.rs", "", Stage::Driver),
            ("/a/registry/src/x/wirespeed-tcp-0.1.0/src/ack.rs", "", Stage::Tcp),
            ("/a/crates/core/wire/src/checksum/avx2.rs", "sum", Stage::Checksum),
            ("/a/crates/core/wire/src/checksum/avx2.rs", "copy_sum", Stage::Copy),
            ("/a/crates/core/inet/src/ip_input.rs", "", Stage::Ip),
            ("/a/crates/core/stack/src/socket/mod.rs", "", Stage::Socket),
            ("/a/crates/core/stack/src/rx.rs", "", Stage::Stack),
        ] {
            assert_eq!(of(path, function), Owner::Stage(stage), "{path}");
        }
        for path in [
            "/rustc/abc/library/core/src/slice/mod.rs",
            "/a/registry/src/x/rustix-1.1/src/io/read.rs",
            "/a/crates/core/base/src/seq.rs",
            "/other/crates/unknown/src/lib.rs",
            "input.rs",
            "",
        ] {
            assert_eq!(of(path, "f"), Owner::Caller, "{path}");
        }
    }

    #[test]
    fn functions_of_the_c_library_go_by_their_names() {
        assert_eq!(of_symbol("__memmove_avx512_unaligned_erms"), Some(Stage::Copy));
        assert_eq!(of_symbol("epoll_wait"), Some(Stage::WakeUps));
        assert_eq!(of_symbol("readv"), Some(Stage::Driver));
        assert_eq!(of_symbol("malloc"), None);
        assert_eq!(of_symbol("readdir"), None);
    }
}
