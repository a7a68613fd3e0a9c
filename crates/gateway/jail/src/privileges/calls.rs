//! The system calls that a process may still make: lists, and conditions on arguments.
//!
//! Called by: a router's worker and the gateway, when all their threads run. Source: seccomp(2).

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// It runs a stack over devices and sockets that it was given.
    Stack,
    /// The same, and it makes sockets for IP and ICMP echo, which it connects, binds and sends
    /// from.
    Gateway,
}

/// Allow all threads of this process the system calls of what it does, and no others.
///
/// # Errors
/// The kernel has no seccomp, or the filter was not written for this machine.
pub fn lock_down(calls: Calls) -> io::Result<()> {
    let filter = filter(calls).map_err(io::Error::other)?;
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
    // The kernel's version says which offloads a packet socket takes.
    libc::SYS_uname,
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
    // The bytes of a message that are there: vhost-user.
    libc::FIONREAD,
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

/// The rules of each system call: one of them has to match, and any arguments do if there is none.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(calls: Calls) -> Result<BpfProgram, seccompiler::Error> {
    let always = ALLOWED.iter().chain(OLDER).map(|&number| (number, Vec::new()));
    let mut rules: Rules = always.collect();
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
    if calls == Calls::Gateway {
        allow_sockets(&mut rules)?;
    }
    let (refuse, allow) = (SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow);
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, refuse, allow, arch)?.try_into()?)
}

/// More calls of a gateway. It can have sockets for IP alone, and they are bound to no device, so
/// the addresses of these calls need no rule.
const OF_SOCKETS: &[i64] = &[
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_epoll_pwait2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    // A log that is full begins anew.
    libc::SYS_ftruncate,
];

/// Levels of setsockopt(2): none of packet sockets.
const LEVELS: &[i32] = &[
    libc::SOL_SOCKET,
    libc::IPPROTO_IP,
    libc::IPPROTO_IPV6,
    libc::IPPROTO_TCP,
    libc::IPPROTO_UDP,
    libc::IPPROTO_ICMPV6,
];

/// The bits of a socket's type without its flags: Linux `SOCK_TYPE_MASK`.
const TYPE_BITS: u64 = 0xf;

fn allow_sockets(rules: &mut Rules) -> Result<(), seccompiler::Error> {
    rules.extend(OF_SOCKETS.iter().map(|&number| (number, Vec::new())));
    let is = |argument, value: i32| {
        let (whole, equal) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq);
        SeccompCondition::new(argument, whole, equal, value as u64)
    };
    let has_type = |kind: i32| {
        let masked = SeccompCmpOp::MaskedEq(TYPE_BITS);
        SeccompCondition::new(1, SeccompCmpArgLen::Dword, masked, kind as u64)
    };
    let mut sockets = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let echo = if family == libc::AF_INET { libc::IPPROTO_ICMP } else { libc::IPPROTO_ICMPV6 };
        let kinds = [
            (libc::SOCK_STREAM, 0),
            (libc::SOCK_STREAM, libc::IPPROTO_TCP),
            (libc::SOCK_DGRAM, 0),
            (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
            (libc::SOCK_DGRAM, echo),
        ];
        for (kind, protocol) in kinds {
            let all = vec![is(0, family)?, has_type(kind)?, is(2, protocol)?];
            sockets.push(SeccompRule::new(all)?);
        }
    }
    rules.insert(libc::SYS_socket, sockets);
    let mut levels = Vec::new();
    for &level in LEVELS {
        levels.push(SeccompRule::new(vec![is(SETSOCKOPT_LEVEL, level)?])?);
    }
    rules.insert(libc::SYS_setsockopt, levels);
    Ok(())
}
