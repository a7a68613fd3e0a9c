//! Checks the answer of a server: the identity association, its address and its times, and options.
//!
//! Called by: `client.rs`, for each Advertise and Reply. Any host on the link can forge the values
//! here. RFC 8415 sections 18.2.9, 18.2.10, 21.4 and 21.6.

use core::net::Ipv6Addr;

use base::{Budget, Duration, Limit};

use super::Information;
use super::message::{INFINITE, Options, code, status};
use crate::names::{self, Compression};

/// A renewal costs two messages: T1 is not before that, whatever a server says.
const RENEW_SECONDS_MIN: u32 = 5;
/// Shorter leases are refused.
const VALID_SECONDS_MIN: u32 = 10;
/// The valid range of SOL_MAX_RT and INF_MAX_RT (RFC 8415 sections 21.24 and 21.25).
const MAX_RT_SECONDS: core::ops::RangeInclusive<u32> = 60..=86_400;
/// IRT_DEFAULT and IRT_MINIMUM (RFC 8415 section 7.6).
const REFRESH_SECONDS_DEFAULT: u32 = 86_400;
const REFRESH_SECONDS_MIN: u32 = 600;

/// The answer of a message about our identity association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing, or nothing that can be used.
    Nothing,
    /// NoBinding: the server does not know the association.
    NoBinding,
    /// Another failure.
    Refused,
    /// The address is no longer valid.
    Ended(Ipv6Addr),
    /// An address.
    Given(Given),
}

/// An address with its times, in seconds from the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) address: Ipv6Addr,
    pub(super) preferred: u32,
    pub(super) valid: u32,
    pub(super) t1: u32,
    pub(super) t2: u32,
}

/// The answer about association `iaid`. `wanted` is the address that is held: another address is
/// taken only if `wanted` is `None`, or if the server ends that one.
pub(super) fn answer(options: Options<'_>, iaid: u32, wanted: Option<Ipv6Addr>) -> Answer {
    let associations = options.all(code::IA_NA).filter_map(|ia| association(ia, iaid));
    let mut answer = Answer::Nothing;
    for (t1, t2, inner) in associations {
        let found = of_association(t1, t2, inner, wanted);
        if matches!(found, Answer::Given(_)) {
            return found;
        }
        if found != Answer::Nothing {
            answer = found;
        }
    }
    answer
}

/// T1, T2 and the options of an IA_NA, if it is ours.
fn association(value: &[u8], iaid: u32) -> Option<(u32, u32, Options<'_>)> {
    let (head, inner) = value.split_first_chunk::<12>()?;
    let [id, t1, t2] = words(head);
    // RFC 8415 21.4-a: an association whose T1 is after its T2 is ignored.
    let is_ordered = t1 == 0 || t2 == 0 || t1 <= t2;
    (id == iaid && is_ordered).then_some((t1, t2, Options::whole(inner)?))
}

fn of_association(t1: u32, t2: u32, inner: Options<'_>, wanted: Option<Ipv6Addr>) -> Answer {
    match inner.status() {
        Some(status::SUCCESS) => {}
        Some(status::NO_BINDING) => return Answer::NoBinding,
        _ => return Answer::Refused,
    }
    let addresses = || inner.all(code::IA_ADDRESS).filter_map(address);
    let first_usable = || addresses().find(|&(_, _, valid)| valid >= VALID_SECONDS_MIN);
    let found = match wanted {
        None => first_usable().or_else(|| addresses().next()),
        // RFC 8415 18.2.10-g: new addresses are added to the association; we keep one.
        Some(wanted) => match addresses().find(|&(found, ..)| found == wanted) {
            Some(ended @ (_, _, 0)) => first_usable().or(Some(ended)),
            found => found,
        },
    };
    match found {
        None => Answer::Nothing,
        // RFC 8415 18.2.10-c: a valid lifetime of zero ends the lease.
        Some((address, _, 0)) => Answer::Ended(address),
        Some((_, _, valid)) if valid < VALID_SECONDS_MIN => Answer::Refused,
        Some((address, preferred, valid)) => {
            let (t1, t2) = times(t1, t2, preferred, valid);
            Answer::Given(Given { address, preferred, valid, t1, t2 })
        }
    }
}

/// Address, preferred and valid lifetime of an IA Address option.
fn address(value: &[u8]) -> Option<(Ipv6Addr, u32, u32)> {
    let (octets, rest) = value.split_first_chunk::<16>()?;
    let (lifetimes, inner) = rest.split_first_chunk::<8>()?;
    let [preferred, valid] = words(lifetimes);
    let address = Ipv6Addr::from(*octets);
    let succeeded = Options::whole(inner)?.status() == Some(status::SUCCESS);
    // RFC 8415 21.6-a: an address that is preferred longer than it is valid is ignored.
    (succeeded && preferred <= valid && is_host(address)).then_some((address, preferred, valid))
}

fn words<const BYTES: usize, const N: usize>(bytes: &[u8; BYTES]) -> [u32; N] {
    let mut all = [0; N];
    let (words, _) = bytes.as_chunks::<4>();
    all.iter_mut().zip(words).for_each(|(to, &word)| *to = u32::from_be_bytes(word));
    all
}

/// T1 and T2. RFC 8415 14.2-a, 21.4-b: if the server leaves them to us, they are 0.5 and 0.8 of the
/// preferred lifetime. They are in order, before the end of the lease, and late enough that no
/// server can make us send in a loop.
fn times(t1: u32, t2: u32, preferred: u32, valid: u32) -> (u32, u32) {
    if valid == INFINITE && (t1 == 0 || t1 == INFINITE) && preferred == INFINITE {
        return (INFINITE, INFINITE);
    }
    // A deprecated address is extended by its valid lifetime.
    let life = if preferred == 0 || preferred == INFINITE { valid } else { preferred };
    let share = |tenths: u64| (u64::from(life) * tenths / 10).min(u64::from(u32::MAX - 1)) as u32;
    let t2 = if t2 == 0 { share(8) } else { t2 };
    let t2 = t2.clamp(RENEW_SECONDS_MIN, valid.max(RENEW_SECONDS_MIN));
    let t1 = if t1 == 0 { share(5) } else { t1 };
    (t1.clamp(RENEW_SECONDS_MIN, t2), t2)
}

/// Can a host have this address, beyond its link?
fn is_host(address: Ipv6Addr) -> bool {
    !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !address.is_unicast_link_local()
        && address.to_ipv4_mapped().is_none()
}

/// The options beside addresses.
pub(super) fn information(options: Options<'_>, budget: &mut Budget) -> Information {
    let most = budget.of(Limit::DhcpListEntries);
    let (servers, _) = options.value(code::DNS_SERVERS).unwrap_or_default().as_chunks::<16>();
    let servers = servers.iter().map(|&octets| Ipv6Addr::from(octets));
    let is_server = |s: &Ipv6Addr| !s.is_unspecified() && !s.is_loopback() && !s.is_multicast();
    let mut dns_servers: Vec<Ipv6Addr> = servers.filter(is_server).collect();
    let block = options.value(code::DOMAIN_LIST).unwrap_or_default();
    // One more than the limit, so that a list that is too long is seen.
    let search = names::read_list(block, Compression::Forbidden, most.saturating_add(1));
    let mut search = search.unwrap_or_default();
    if dns_servers.len().max(search.len()) > most {
        budget.admits(Limit::DhcpListEntries, most);
    }
    dns_servers.truncate(most);
    search.truncate(most);
    Information { dns_servers, search }
}

/// RFC 8415 21.24-a: SOL_MAX_RT or INF_MAX_RT, if it is in its range.
pub(super) fn max_rt(options: Options<'_>, code: u16) -> Option<Duration> {
    let seconds = options.array(code).map(u32::from_be_bytes);
    seconds.filter(|s| MAX_RT_SECONDS.contains(s)).map(|s| Duration::from_secs(u64::from(s)))
}

/// RFC 8415 21.23-a: when information is to be asked for again; `None`: never.
pub(super) fn refresh_time(options: Options<'_>) -> Option<Duration> {
    let seconds = options.array(code::REFRESH_TIME).map(u32::from_be_bytes);
    let seconds = seconds.unwrap_or(REFRESH_SECONDS_DEFAULT).max(REFRESH_SECONDS_MIN);
    (seconds != INFINITE).then(|| Duration::from_secs(u64::from(seconds)))
}
