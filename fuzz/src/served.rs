//! The servers of a gateway for leases and advertisements: any messages of guests. Answers can be
//! read, tables are bounded, every message is answered, taken or counted.
//!
//! Called by: the target `served`. The input is a script: events, and among them messages whose
//! fixed part is right.

use core::net::{Ipv4Addr, Ipv6Addr};

use arbitrary::{Result, Unstructured};
use base::{Duration, Instant, KeyedHash, Limit, MacAddr};
use host::{dhcp4, dhcp6, ra};

const STEPS_MAX: usize = 200;
const LEASES: usize = 6;
/// The fixed part of a DHCPv4 message.
const HEADER_V4: usize = 236;
const COOKIE: [u8; 4] = [99, 130, 83, 99];

struct Script {
    dhcp4: dhcp4::Server,
    dhcp6: dhcp6::Server,
    router: ra::Router,
    now: Instant,
    sent_at: Option<Instant>,
    leases: u64,
}

/// Any messages.
///
/// # Panics
/// On a finding.
pub fn any_message(data: &[u8]) {
    play(data);
}

/// The number of answers that gave an address.
fn play(data: &[u8]) -> u64 {
    let mut u = Unstructured::new(data);
    let now = Instant::ZERO + Duration::from_secs(1_000);
    let address = |last| Ipv4Addr::new(192, 0, 2, last);
    let config = dhcp4::ServerConfig::new(address(1), 24, address(7), address(16));
    let mut dhcp4 = dhcp4::Server::new(config).expect("a good configuration");
    dhcp4.budget_mut().set(Limit::DhcpLeases, LEASES);
    let duid = dhcp6::duid_of_link_address(MacAddr([2, 0, 0, 0, 0, 9]));
    let information = dhcp6::Information::default();
    let config = dhcp6::ServerConfig { duid, information, refresh: None };
    let dhcp6 = dhcp6::Server::new(config).expect("a good configuration");
    let network = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0);
    let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let hardware = MacAddr([2, 0, 0, 0, 0, 9]);
    let config = ra::Config::new(source, hardware, ra::Prefix::new(network, 64));
    let router = ra::Router::new(config, KeyedHash::new(3, 4), now).expect("a good one");
    let mut script = Script { dhcp4, dhcp6, router, now, sent_at: None, leases: 0 };
    for _ in 0..STEPS_MAX {
        if u.is_empty() || script.step(&mut u).is_err() {
            break;
        }
    }
    script.router.stop(script.now);
    for _ in 0..20 {
        script.now =
            script.now.max(script.router.deadline().min(script.now + Duration::from_secs(9)));
        script.advertise();
    }
    assert_eq!(script.router.deadline(), Instant::NEVER, "it never stops");
    script.leases
}

impl Script {
    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        match u.arbitrary::<u8>()? {
            0..=127 => {
                let message = message_v4(u)?;
                self.receive_v4(&message);
            }
            128..=159 => {
                let mut message = vec![u.int_in_range(0..=13)?, 1, 2, 3];
                for _ in 0..u.int_in_range(0..=4)? {
                    let len = usize::from(u.arbitrary::<u8>()? % 40).min(u.len());
                    let value = u.bytes(len)?;
                    message.extend([0, *u.choose(&[1, 2, 3, 4, 6, 13, 25])?]);
                    message.extend([0, value.len() as u8]);
                    message.extend(value);
                }
                let to = if u.ratio(7, 8)? { dhcp6::SERVERS } else { Ipv6Addr::LOCALHOST };
                let before = self.dhcp6.drops().total();
                let outcome = self.dhcp6.receive(to, &message);
                assert_eq!(self.dhcp6.drops().total() - before, u64::from(outcome.is_err()));
            }
            160..=207 => {
                let source =
                    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, u16::from(u.arbitrary::<u8>()?));
                let mut message = vec![133, 0, 0, 0, 0, 0, 0, 0];
                let len = usize::from(u.arbitrary::<u8>()? % 24).min(u.len());
                message.extend(u.bytes(len)?);
                let _ = self.router.receive(self.now, source, 255, &message);
            }
            208..=239 => self.now += Duration::from_millis(u.arbitrary::<u16>()?.into()),
            _ => {
                let lifetime = Duration::from_secs(u.arbitrary::<u16>()?.into());
                self.router.set_lifetime(lifetime, self.now).expect("it fits");
            }
        }
        self.advertise();
        Ok(())
    }

    fn receive_v4(&mut self, message: &[u8]) {
        let before = self.dhcp4.drops().total();
        let outcome = self.dhcp4.receive(self.now, message);
        assert_eq!(self.dhcp4.drops().total() - before, u64::from(outcome.is_err()));
        assert!(self.dhcp4.leases(self.now).count() <= LEASES);
        let Ok(Some(reply)) = outcome else { return };
        assert!((300..=1_472).contains(&reply.message.len()));
        assert_eq!(reply.message[HEADER_V4..HEADER_V4 + 4], COOKIE);
        if let [192, 0, 2, last] = reply.message[16..20] {
            assert!((7..=16).contains(&last), "{last}");
            self.leases += 1;
        }
    }

    /// Advertisements to all nodes keep their distance.
    fn advertise(&mut self) {
        let mut count = 0;
        while let Some(sent) = self.router.poll(self.now) {
            count += 1;
            assert!(count < 20, "without end");
            if sent.destination == ra::ALL_NODES {
                let since = self.sent_at.map(|at| self.now.since(at));
                assert!(since.is_none_or(|span| span >= Duration::from_secs(3)), "{since:?}");
                self.sent_at = Some(self.now);
            }
        }
        assert!(self.router.deadline() > self.now, "a deadline that has passed");
    }
}

/// A message of a client with options.
fn message_v4(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut message = vec![0; HEADER_V4];
    message[..4].copy_from_slice(&[1, 1, 6, 0]);
    message[33] = u.arbitrary::<u8>()? % 16;
    message.extend(COOKIE);
    message.extend([53, 1, *u.choose(&[1, 3, 3, 3, 4, 7, 8, 9])?]);
    if u.ratio(1, 2)? {
        message.extend([50, 4, 192, 0, 2, u.arbitrary::<u8>()? % 20]);
    }
    if u.ratio(1, 4)? {
        message.extend([54, 4, 192, 0, 2, u.arbitrary::<u8>()? % 2 + 1]);
    }
    if u.ratio(1, 4)? {
        message[12..16].copy_from_slice(&[192, 0, 2, u.arbitrary::<u8>()? % 20]);
    }
    for _ in 0..u.int_in_range(0..=3)? {
        let code = *u.choose(&[52, 55, 57, 61, 61, 12, 255])?;
        let len = usize::from(u.arbitrary::<u8>()? % 32).min(u.len());
        let value = u.bytes(len)?;
        message.extend([code, value.len() as u8]);
        message.extend(value);
    }
    Ok(message)
}

/// A script in which a client gets an address: it asks for one that is free.
pub fn whole_lease() -> Vec<u8> {
    // The step, the client, the type, which options, and the address that is asked for.
    let mut script = vec![0; 40];
    script.extend([1; 40]);
    script.extend([2; 80]);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_leads_to_a_lease() {
        assert!(play(&whole_lease()) > 0);
        assert_eq!(play(&[]), 0);
    }
}
