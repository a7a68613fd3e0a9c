//! DHCP clients of both versions: any messages, at any time. Their messages can be read, an address
//! is never taken twice or dropped twice, and no server makes them send without end.
//!
//! Called by: the targets `dhcp4` and `dhcp6`. The input is a script: events, and among them
//! messages whose header answers the client's last one.

use core::net::IpAddr;

use arbitrary::{Result, Unstructured};
use base::{Duration, Instant, KeyedHash, MacAddr};
use host::{dhcp4, dhcp6};

const STEPS_MAX: usize = 100;
/// Actions that a client may take at one moment.
const ACTIONS_MAX: usize = 8;
/// The client's link address.
const HARDWARE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The fixed part of a DHCPv4 message, and the cookie in front of the options.
const HEADER_V4: usize = 236;
const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// Both clients, as a script sees them.
trait Client {
    fn receive(&mut self, now: Instant, bytes: &[u8]);
    fn probed(&mut self, now: Instant, conflict: bool);
    fn link_up(&mut self, now: Instant);
    fn stop(&mut self, now: Instant);
    fn deadline(&self) -> Instant;
    /// The address that is in use.
    fn leased(&self) -> Option<IpAddr>;
    fn next(&mut self, now: Instant) -> Option<Done>;
    /// A server's message that answers `asked`, in front of any options.
    fn answer(asked: &[u8], kind: u8) -> Vec<u8>;
    /// Append an option.
    fn option(message: &mut Vec<u8>, code: u8, value: &[u8]);
    /// Codes that mean something.
    const CODES: &'static [u8];
    const KINDS: &'static [u8];
    /// The bytes behind the last option.
    const END: &'static [u8];
}

/// An action of a client.
enum Done {
    Sent(Vec<u8>),
    Probe(IpAddr),
    Acquired(IpAddr),
    Renewed(IpAddr),
    Lost(IpAddr),
    Informed,
}

/// Any messages to a DHCPv4 client.
///
/// # Panics
/// On a finding.
pub fn any_message_v4(data: &[u8]) {
    play_v4(data);
}

/// Did the client get an address?
fn play_v4(data: &[u8]) -> bool {
    let config = dhcp4::Config::new(HARDWARE, KeyedHash::new(3, 4));
    play(data, |now| dhcp4::Client::new(config, now).expect("a good configuration"))
}

/// Any messages to a DHCPv6 client.
///
/// # Panics
/// On a finding.
pub fn any_message_v6(data: &[u8]) {
    play_v6(data);
}

fn play_v6(data: &[u8]) -> bool {
    let is_stateless = data.first().is_some_and(|b| b & 7 == 7);
    let mode = if is_stateless { dhcp6::Mode::Stateless } else { dhcp6::Mode::Stateful };
    let config = dhcp6::Config::new(mode, HARDWARE, KeyedHash::new(3, 4));
    play(data, |now| dhcp6::Client::new(config, now).expect("a good configuration"))
}

fn play<C: Client>(data: &[u8], new: impl FnOnce(Instant) -> C) -> bool {
    let mut u = Unstructured::new(data);
    let mut now = Instant::ZERO + Duration::from_secs(1_000);
    let mut script = Script { client: new(now), asked: Vec::new(), acquired: None, leases: 0 };
    script.act(now);
    for _ in 0..STEPS_MAX {
        if u.is_empty() || script.step(&mut u, &mut now).is_err() {
            break;
        }
        script.act(now);
    }
    script.client.stop(now);
    script.act(now);
    // A DHCPv6 client sends its release a few times.
    for _ in 0..20 {
        let deadline = script.client.deadline();
        if deadline == Instant::NEVER {
            break;
        }
        now = now.max(deadline);
        script.act(now);
    }
    assert_eq!(script.client.deadline(), Instant::NEVER, "it never stops");
    assert_eq!(script.acquired, None, "an address is left");
    script.leases > 0
}

struct Script<C> {
    client: C,
    /// The last message of the client.
    asked: Vec<u8>,
    acquired: Option<IpAddr>,
    leases: u32,
}

impl<C: Client> Script<C> {
    fn step(&mut self, u: &mut Unstructured<'_>, now: &mut Instant) -> Result<()> {
        match u.arbitrary::<u8>()? {
            0..=15 => {
                let len = usize::from(u.arbitrary::<u16>()?) % 700;
                let bytes = u.bytes(len.min(u.len()))?;
                self.client.receive(*now, bytes);
            }
            16..=159 => {
                let message = self.message(u)?;
                self.client.receive(*now, &message);
            }
            160..=207 => {
                let most = *now + Duration::from_secs(1 << 20);
                *now = (*now).max(self.client.deadline().min(most));
            }
            208..=223 => *now += Duration::from_millis(u.arbitrary::<u32>()?.into()),
            224..=243 => self.client.probed(*now, u.ratio(1, 4)?),
            244..=251 => self.client.link_up(*now),
            _ => self.client.stop(*now),
        }
        Ok(())
    }

    fn message(&self, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
        let mut message = C::answer(&self.asked, *u.choose(C::KINDS)?);
        for _ in 0..u.int_in_range(0..=6)? {
            let code = if u.ratio(7, 8)? { *u.choose(C::CODES)? } else { u.arbitrary()? };
            let len = usize::from(u.arbitrary::<u8>()? % 64);
            C::option(&mut message, code, u.bytes(len.min(u.len()))?);
        }
        if u.ratio(1, 8)? {
            let len = usize::from(u.arbitrary::<u8>()?);
            message.extend_from_slice(u.bytes(len.min(u.len()))?);
        } else {
            message.extend_from_slice(C::END);
        }
        Ok(message)
    }

    /// Take the client's actions, and hold them against what it did before.
    fn act(&mut self, now: Instant) {
        let mut count = 0;
        while let Some(done) = self.client.next(now) {
            count += 1;
            assert!(count <= ACTIONS_MAX, "actions without end");
            match done {
                Done::Sent(message) => self.asked = message,
                Done::Probe(address) => {
                    assert_eq!(self.acquired, None, "{address} beside another");
                }
                Done::Acquired(address) => {
                    assert!(!address.is_multicast() && !address.is_loopback(), "{address}");
                    assert_eq!(self.acquired.replace(address), None, "two addresses");
                    self.leases += 1;
                }
                Done::Renewed(address) => assert_eq!(self.acquired, Some(address)),
                Done::Lost(address) => assert_eq!(self.acquired.take(), Some(address)),
                Done::Informed => {}
            }
        }
        assert_eq!(self.client.leased(), self.acquired);
        assert!(self.client.deadline() > now, "a deadline that has passed");
    }
}

impl Client for dhcp4::Client {
    const CODES: &'static [u8] = &[1, 3, 6, 15, 26, 51, 52, 53, 54, 58, 59, 61, 119, 121];
    const KINDS: &'static [u8] = &[2, 2, 5, 5, 6, 4];
    const END: &'static [u8] = &[255];

    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        let _ = self.receive(now, bytes);
    }

    fn probed(&mut self, now: Instant, conflict: bool) {
        self.probed(now, conflict);
    }

    fn link_up(&mut self, now: Instant) {
        self.link_up(now);
    }

    fn stop(&mut self, now: Instant) {
        self.stop(now);
    }

    fn deadline(&self) -> Instant {
        self.deadline()
    }

    fn leased(&self) -> Option<IpAddr> {
        self.lease().map(|lease| lease.address.into())
    }

    fn next(&mut self, now: Instant) -> Option<Done> {
        Some(match self.poll(now)? {
            dhcp4::Action::Send { message, .. } => {
                assert!(message.len() >= 300, "BOOTP's minimum");
                assert_eq!(message[HEADER_V4..HEADER_V4 + 4], COOKIE);
                Done::Sent(message)
            }
            dhcp4::Action::Probe(address) => Done::Probe(address.into()),
            dhcp4::Action::Acquired(lease) => {
                assert!((1..=32).contains(&lease.prefix_len), "/{}", lease.prefix_len);
                Done::Acquired(lease.address.into())
            }
            dhcp4::Action::Renewed(lease) => Done::Renewed(lease.address.into()),
            dhcp4::Action::Lost { address, .. } => Done::Lost(address.into()),
        })
    }

    /// An answer with an address, a server, a mask and a lease time, which later options may
    /// contradict.
    fn answer(asked: &[u8], kind: u8) -> Vec<u8> {
        let mut message = asked.get(..HEADER_V4).map_or(vec![0; HEADER_V4], <[u8]>::to_vec);
        message[0] = 2;
        message[12..16].fill(0);
        message[16..20].copy_from_slice(&[192, 0, 2, 7]);
        message.extend(COOKIE);
        for (code, value) in [
            (53, &[kind][..]),
            (54, &[192, 0, 2, 1]),
            (1, &[255, 255, 255, 0]),
            (51, &[0, 0, 14, 16]),
        ] {
            Self::option(&mut message, code, value);
        }
        message
    }

    fn option(message: &mut Vec<u8>, code: u8, value: &[u8]) {
        message.extend([code, value.len() as u8]);
        message.extend_from_slice(value);
    }
}

impl Client for dhcp6::Client {
    const CODES: &'static [u8] = &[1, 2, 3, 5, 7, 13, 14, 23, 24, 32, 82, 83];
    const KINDS: &'static [u8] = &[2, 7];
    const END: &'static [u8] = &[];

    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        let _ = self.receive(now, bytes);
    }

    fn probed(&mut self, now: Instant, conflict: bool) {
        self.probed(now, conflict);
    }

    fn link_up(&mut self, now: Instant) {
        self.link_up(now);
    }

    fn stop(&mut self, now: Instant) {
        self.stop(now);
    }

    fn deadline(&self) -> Instant {
        self.deadline()
    }

    fn leased(&self) -> Option<IpAddr> {
        self.lease().map(|lease| lease.address.into())
    }

    fn next(&mut self, now: Instant) -> Option<Done> {
        Some(match self.poll(now)? {
            dhcp6::Action::Send(message) => {
                assert!(walks(&message), "options that do not fill the message");
                Done::Sent(message)
            }
            dhcp6::Action::Probe(address) => Done::Probe(address.into()),
            dhcp6::Action::Acquired(lease) => Done::Acquired(lease.address.into()),
            dhcp6::Action::Renewed(lease) => Done::Renewed(lease.address.into()),
            dhcp6::Action::Lost { address, .. } => Done::Lost(address.into()),
            dhcp6::Action::Informed(_) => Done::Informed,
        })
    }

    /// An answer with both identifiers, and with an address if the kind is odd; later options may
    /// say more.
    fn answer(asked: &[u8], kind: u8) -> Vec<u8> {
        let mut message = vec![kind];
        message.extend_from_slice(asked.get(1..4).unwrap_or(&[0; 3]));
        let duid = dhcp6::duid_of_link_address(HARDWARE);
        Self::option(&mut message, 1, &duid);
        Self::option(&mut message, 2, &[0, 3, 0, 1, 2, 0, 0, 0, 0, 9]);
        let mut address = vec![0x20, 1, 0x0d, 0xb8];
        address.extend([0; 11]);
        address.push(7);
        address.extend([0, 0, 14, 16, 0, 0, 28, 32]);
        let [_, _, a, b, c, d] = HARDWARE.0;
        let mut association = vec![a, b, c, d];
        association.extend([0; 8]);
        Self::option(&mut association, 5, &address);
        Self::option(&mut message, 3, &association);
        message
    }

    fn option(message: &mut Vec<u8>, code: u8, value: &[u8]) {
        message.extend([0, code]);
        message.extend((value.len() as u16).to_be_bytes());
        message.extend_from_slice(value);
    }
}

/// Do the options of a DHCPv6 message fill it?
fn walks(message: &[u8]) -> bool {
    let mut rest = message.get(4..).unwrap_or_default();
    while let Some((&[_, _, a, b], value)) = rest.split_first_chunk::<4>() {
        match value.get(usize::from(u16::from_be_bytes([a, b]))..) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty()
}

/// A script in which the client gets an address and keeps it: steps, and for a message the place of
/// its kind, no options, no bytes behind them.
pub fn whole_lease(is_v6: bool) -> Vec<u8> {
    const DEADLINE: u8 = 160;
    const NO_CONFLICT: [u8; 2] = [224, 1];
    let message = |kind| [16, kind, 0, 1];
    let mut script = Vec::new();
    if is_v6 {
        script.push(DEADLINE);
        script.extend(message(0));
        script.push(DEADLINE);
        script.extend(message(1));
    } else {
        script.extend(message(0));
        script.extend(message(2));
    }
    script.extend(NO_CONFLICT);
    script.push(DEADLINE);
    script.extend(message(if is_v6 { 1 } else { 2 }));
    script.push(DEADLINE);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_lead_to_a_lease() {
        assert!(play_v4(&whole_lease(false)));
        assert!(play_v6(&whole_lease(true)));
        assert!(!play_v4(&[]) && !play_v6(&[]));
    }
}
