//! Makes the worker give up for good: the user who started it, capabilities, new privileges, and
//! all system calls that a running stack does not need. After that it can open no file, start no
//! process and no thread, make no socket, use no address to bind, connect or send to, signal no
//! process, and make no memory executable.
//!
//! Called by: the worker of `wirespeed up`: [`change_user`] and [`drop_capabilities`] first, while
//! it has one thread, [`lock_down`] when all its threads run. A system call that is not allowed
//! fails with EPERM. Sources: credentials(7), capabilities(7), seccomp(2).
//! docs/decisions/0079-privileges.md, docs/decisions/0115-what-the-worker-may-say.md.

use std::collections::BTreeMap;
use std::io;

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Numbers of users who own nothing; a worker takes one by its process number. No distribution,
/// systemd or container manager assigns these numbers.
const NUMBERS: u32 = 0x7157_0000;
/// The same for a namespace with 65,536 users: the numbers of systemd's DynamicUser.
const NUMBERS_16: u32 = 61_184;
const NUMBERS_16_COUNT: u32 = 4_336;

/// Become another user, whose only group has the same number: `wanted`, or a user who owns nothing.
/// Returns the number.
///
/// # Errors
/// The system's: without CAP_SETUID and CAP_SETGID it is EPERM.
pub fn change_user(wanted: Option<u32>) -> io::Result<u32> {
    let pid = std::process::id();
    let candidates = match wanted {
        Some(uid) => vec![uid],
        None => vec![NUMBERS + pid % 0x1_0000, NUMBERS_16 + pid % NUMBERS_16_COUNT],
    };
    // Do this first: a process that is no longer root may not do it.
    drop_bounding_set();
    let mut last = Errno::EINVAL;
    for uid in candidates {
        match be(Uid::from_raw(uid), Gid::from_raw(uid)) {
            Ok(()) => return Ok(uid),
            // The namespace has no such user: try the next number.
            Err(Errno::EINVAL) => {}
            Err(errno) => last = errno,
        }
    }
    Err(last.into())
}

fn be(uid: Uid, gid: Gid) -> Result<(), Errno> {
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)
}

/// Drop all capabilities of this thread, and those that executing a program could give back.
///
/// # Errors
/// The system's.
pub fn drop_capabilities() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    drop_bounding_set();
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// If the capability to do this is missing, nothing in the set can come back anyway, because new
/// privileges are given up too.
fn drop_bounding_set() {
    for one in CapabilitySet::all().iter() {
        let _ = rustix::thread::remove_capability_from_bounding_set(one);
    }
}

/// Allow all threads of this process the system calls of a running stack, and no others.
///
/// # Errors
/// The kernel has no seccomp, or the filter was not written for this machine.
pub fn lock_down() -> io::Result<()> {
    let filter = filter().map_err(io::Error::other)?;
    seccompiler::apply_filter_all_threads(&filter).map_err(io::Error::other)
}

/// System calls that are allowed with any arguments.
const ALLOWED: &[i64] = &[
    // Devices, the control socket, metrics, orders.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_fstat,
    libc::SYS_lseek,
    // Sleep, and wake others.
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_futex,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // Time, numbers, memory.
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_geteuid,
    libc::SYS_sched_getaffinity,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // A thread that begins while the others are locked down.
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    // Signals and the end.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The older twins of some of them, which other machines do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[libc::SYS_poll, libc::SYS_epoll_wait, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Queries about interfaces and descriptors, but no settings, which need privileges; and turning
/// the sampling of our own threads on and off.
const IOCTLS: &[u64] = &[
    libc::TUNGETIFF,
    libc::TUNGETVNETHDRSZ,
    libc::SIOCGIFFLAGS,
    libc::SIOCGIFMTU,
    libc::SIOCGIFHWADDR,
    libc::SIOCGIFINDEX,
    libc::FIONBIO,
    PERF_EVENT_IOC_ENABLE,
    PERF_EVENT_IOC_DISABLE,
];

/// _IO('$', 0) and _IO('$', 1): samples that were opened before, of the own threads, for the live
/// page (perf_event_open(2)).
const PERF_EVENT_IOC_ENABLE: u64 = 0x2400;
const PERF_EVENT_IOC_DISABLE: u64 = 0x2401;

/// Requests about descriptors. F_SETFL has a rule of its own; locks, leases, owners and signals are
/// not among them.
const FCNTLS: &[i32] =
    &[libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];

/// Positions of arguments in seccomp_data: flags and address of sendto(2); those of setsockopt(2).
const SENDTO_FLAGS: u8 = 3;
const SENDTO_ADDRESS: u8 = 4;
const SETSOCKOPT_LEVEL: u8 = 1;
const SETSOCKOPT_OPTION: u8 = 2;

fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let always = ALLOWED.iter().chain(OLDER).map(|&number| (number, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = always.collect();
    let is = |argument, value: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
    };
    // The argument has none of the bits.
    let has_not = |argument, bits: i32| {
        let op = SeccompCmpOp::MaskedEq(bits as u64);
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, 0)
    };
    let equal = |argument, value: u64| SeccompRule::new(vec![is(argument, value)?]);
    let ioctls: Result<_, seccompiler::BackendError> =
        IOCTLS.iter().map(|&request| equal(1, request)).collect();
    rules.insert(libc::SYS_ioctl, ioctls?);
    // A new thread gives itself a name.
    rules.insert(libc::SYS_prctl, vec![equal(0, libc::PR_SET_NAME as u64)?]);
    let fcntls: Result<Vec<_>, seccompiler::BackendError> =
        FCNTLS.iter().map(|&command| equal(1, command as u64)).collect();
    let mut fcntls = fcntls?;
    // A descriptor with O_ASYNC signals its owner.
    let set_flags = vec![is(1, libc::F_SETFL as u64)?, has_not(2, libc::O_ASYNC)?];
    fcntls.push(SeccompRule::new(set_flags)?);
    rules.insert(libc::SYS_fcntl, fcntls);
    // All sockets are connected or bound, so sendto(2) needs no address; sendmsg(2), whose address
    // a filter cannot see, is not allowed. MSG_FASTOPEN connects.
    let whole = SeccompCmpArgLen::Qword;
    let no_address = SeccompCondition::new(SENDTO_ADDRESS, whole, SeccompCmpOp::Eq, 0)?;
    let send = vec![no_address, has_not(SENDTO_FLAGS, libc::MSG_FASTOPEN)?];
    rules.insert(libc::SYS_sendto, vec![SeccompRule::new(send)?]);
    // The options that the live page sets on an accepted connection.
    let level = is(SETSOCKOPT_LEVEL, libc::IPPROTO_TCP as u64)?;
    let no_delay = is(SETSOCKOPT_OPTION, libc::TCP_NODELAY as u64)?;
    rules.insert(libc::SYS_setsockopt, vec![SeccompRule::new(vec![level, no_delay])?]);
    // No memory becomes executable.
    for number in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(number, vec![SeccompRule::new(vec![has_not(2, libc::PROT_EXEC)?])?]);
    }
    let (refuse, allow) = (SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow);
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, refuse, allow, arch)?.try_into()?)
}
