//! What the worker gives up for good: capabilities, new privileges, and all system calls that a
//! running stack does not need. It can open no file, start no process and no thread, connect to
//! nobody, and make no memory executable.
//!
//! Called by: the worker of `wirespeed up`: [`drop_capabilities`] first, while it has one thread,
//! [`lock_down`] when all its threads run. A system call that is not allowed fails with EPERM.
//! Sources: capabilities(7), seccomp(2). docs/decisions/0079-privileges.md.

use std::collections::BTreeMap;
use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Drop all capabilities of this thread, and those that a program could give back.
///
/// # Errors
/// The system's.
pub fn drop_capabilities() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // Without the capability to do so there is nothing in the set that could come back: new
    // privileges were just given up.
    for one in CapabilitySet::all().iter() {
        let _ = rustix::thread::remove_capability_from_bounding_set(one);
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Allow all threads of this process the system calls of a running stack, and no others.
///
/// # Errors
/// The kernel has no seccomp, or this is no machine that the filter is written for.
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
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_bind,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_fcntl,
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

/// Questions about interfaces and descriptors; settings need privileges, and are not among them.
/// And whether the own threads are sampled.
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

/// Sockets that ask about interfaces; they cannot connect.
const FAMILIES: &[i32] = &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let always = ALLOWED.iter().chain(OLDER).map(|&number| (number, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = always.collect();
    let equal = |argument, value: u64| {
        let len = SeccompCmpArgLen::Dword;
        SeccompRule::new(vec![SeccompCondition::new(argument, len, SeccompCmpOp::Eq, value)?])
    };
    let ioctls: Result<_, seccompiler::BackendError> =
        IOCTLS.iter().map(|&request| equal(1, request)).collect();
    rules.insert(libc::SYS_ioctl, ioctls?);
    // A thread that begins gives itself a name.
    rules.insert(libc::SYS_prctl, vec![equal(0, libc::PR_SET_NAME as u64)?]);
    let families: Result<_, seccompiler::BackendError> =
        FAMILIES.iter().map(|&family| equal(0, family as u64)).collect();
    rules.insert(libc::SYS_socket, families?);
    // No memory becomes executable.
    for number in [libc::SYS_mmap, libc::SYS_mprotect] {
        let is_code = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        let condition = SeccompCondition::new(2, SeccompCmpArgLen::Dword, is_code, 0)?;
        rules.insert(number, vec![SeccompRule::new(vec![condition])?]);
    }
    let (refuse, allow) = (SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow);
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, refuse, allow, arch)?.try_into()?)
}
