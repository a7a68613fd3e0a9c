//! Any flows through one router, with copies that are lost, reordered and doubled on the way to the
//! other one, which takes over.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A flow as both of its ends see it.
#[derive(Clone, Debug)]
struct Known {
    protocol: u8,
    inside: End,
    outside: End,
    remote: End,
    is_answered: bool,
    next: [u32; 2],
}

impl Known {
    fn is_tcp(&self) -> bool {
        self.protocol == TCP
    }

    /// A packet of one end, as it leaves that end.
    fn packet(&mut self, from_inside: bool, data: usize) -> Vec<u8> {
        let (from, to) = match from_inside {
            true => (self.inside, self.remote),
            false => (self.remote, self.outside),
        };
        let side = usize::from(!from_inside);
        match self.protocol {
            UDP => udp(from, to),
            ICMP if from_inside => echo(8, from.0, to.0, self.inside.1),
            ICMP => echo(0, from.0, to.0, self.outside.1),
            _ => {
                let numbers = [self.next[side], self.next[1 - side]];
                self.next[side] = self.next[side].wrapping_add(data as u32);
                tcp((from, to), Flags::ACK, numbers, data)
            }
        }
    }

    /// It passes in both directions, and is translated as before.
    fn goes_on(&mut self, router: &mut Router) -> Result<(), TestCaseError> {
        for from_inside in [true, false] {
            let in_port = if from_inside { LAN } else { WAN };
            let packet = self.packet(from_inside, 100);
            let passed = router.cross(in_port, packet);
            prop_assert!(passed.is_some(), "{from_inside}: {self:?}");
            let [src, dst] = ends(&passed.unwrap_or_default());
            let (near, far) = if from_inside { (src, dst) } else { (dst, src) };
            let expected = if from_inside { self.outside } else { self.inside };
            prop_assert_eq!(near, expected, "{:?}", self);
            prop_assert_eq!(far.0, self.remote.0);
        }
        Ok(())
    }
}

/// The two routers, their flows, and the copies on the way.
struct Pair {
    a: Router,
    b: Router,
    flows: Vec<Known>,
    ever: Vec<(Tuple, Tuple)>,
    sent: Vec<(u64, Copy)>,
    version: u64,
    has_lost: bool,
    may_lack_ports: bool,
}

impl Pair {
    fn begin(&mut self, [kind, host, port]: [u8; 3]) {
        let protocol = [UDP, TCP, ICMP][usize::from(kind) % 3];
        let inside = (inside(2 + host % 3), 4_000 + u16::from(port % 6));
        let remote = (IpAddr::from([198, 51, 100, kind % 2]), 440 + u16::from(host / 100));
        let remote = if protocol == ICMP { (remote.0, 0) } else { remote };
        let is_it =
            |flow: &&Known| (flow.protocol, flow.inside, flow.remote) == (protocol, inside, remote);
        if self.flows.iter().any(|flow| is_it(&flow)) {
            return;
        }
        let first = match protocol {
            UDP => udp(inside, remote),
            TCP => tcp((inside, remote), Flags::SYN, [999, 0], 0),
            _ => echo(8, inside.0, remote.0, inside.1),
        };
        let Some(out) = self.a.cross(LAN, first) else {
            assert!(self.may_lack_ports, "{inside:?} {remote:?}");
            return;
        };
        let outside = ends(&out)[0];
        let next = [1_000, 70_001];
        self.flows.push(Known { protocol, inside, outside, remote, is_answered: false, next });
    }

    fn answer(&mut self, which: u8, data: usize) -> Result<(), TestCaseError> {
        let count = self.flows.len().max(1);
        let Some(flow) = self.flows.get_mut(usize::from(which) % count) else { return Ok(()) };
        if flow.is_tcp() && !flow.is_answered {
            let back = (flow.remote, flow.outside);
            let syn_ack = tcp(back, Flags::SYN | Flags::ACK, [70_000, 1_000], 0);
            prop_assert!(self.a.cross(WAN, syn_ack).is_some());
            let ack = flow.packet(true, 0);
            prop_assert!(self.a.cross(LAN, ack).is_some());
        }
        for from_inside in [false, true] {
            let packet = flow.packet(from_inside, data);
            let port = if from_inside { LAN } else { WAN };
            prop_assert!(self.a.cross(port, packet).is_some(), "{from_inside} {flow:?}");
        }
        flow.is_answered = true;
        Ok(())
    }

    /// A host outside begins a flow to a mapping.
    fn begin_outside(&mut self, which: u8, port: u8) {
        let count = self.flows.len().max(1);
        let Some(flow) = self.flows.get(usize::from(which) % count).cloned() else { return };
        let remote = (REMOTE, 9_000 + u16::from(port % 4));
        if flow.protocol != UDP || flow.remote.0 == REMOTE {
            return;
        }
        let Some(inward) = self.a.cross(WAN, udp(remote, flow.outside)) else { return };
        assert_eq!(ends(&inward)[1], flow.inside);
        let is_new = |known: &&Known| known.inside == flow.inside && known.remote == remote;
        if self.flows.iter().any(|known| known.protocol == UDP && is_new(&known)) {
            return;
        }
        self.a.cross(LAN, udp(flow.inside, remote)).expect("an answer");
        self.flows.push(Known { remote, is_answered: true, ..flow });
    }

    /// Copies leave, in an order and with losses that `how` says.
    fn copy(&mut self, how: u8) {
        self.note();
        let mut changes = self.a.changes();
        if how.is_multiple_of(5) {
            changes.extend(self.a.all(Which::Changed));
        }
        for change in changes {
            self.version += 1;
            self.sent.push((self.version, change));
        }
        if how % 3 == 1 {
            self.sent.reverse();
        }
        if how % 7 == 2 {
            self.has_lost |= self.sent.pop().is_some();
        }
        let keep = if how % 4 == 3 { self.sent.len() / 2 } else { 0 };
        let now = self.sent.split_off(keep);
        for (version, copy) in now.iter().chain(now.iter().take(usize::from(how % 2))) {
            let _ = self.b.take(copy, *version);
        }
    }

    /// Remember which states there have been.
    fn note(&mut self) {
        let (ever, now) = (&mut self.ever, self.a.now);
        self.a.firewall.states().page(Cursor::default(), 10_000, now, |_, state| {
            ever.push((state.original, state.reply));
        });
    }

    /// The last copies come, all states again if some were lost, and the first router is gone.
    fn switch(&mut self) {
        self.copy(0);
        while !self.sent.is_empty() {
            self.copy(0);
        }
        if self.has_lost {
            for copy in self.a.all(Which::AllBut(0)) {
                self.version += 1;
                let _ = self.b.take(&copy, self.version);
            }
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let (ever, now, mut stranger) = (&self.ever, self.b.now, None);
        self.b.firewall.states().page(Cursor::default(), 10_000, now, |_, state| {
            if !ever.contains(&(state.original, state.reply)) {
                stranger = Some(*state);
            }
        });
        prop_assert_eq!(stranger, None, "the first router never had this state");
        let mut taken: BTreeMap<(u8, End), End> = BTreeMap::new();
        for flow in self.flows.iter_mut().filter(|flow| flow.is_answered) {
            // What passed the first router after the last copy.
            flow.next = flow.next.map(|next| next.wrapping_add(5_000));
            for _ in 0..3 {
                flow.goes_on(&mut self.b)?;
            }
            taken.insert((flow.protocol, flow.outside), flow.inside);
        }
        for host in 2..6 {
            for port in 4_000..4_012 {
                for protocol in [UDP, TCP] {
                    let (from, to) = ((inside(host), port), (REMOTE, 17));
                    let first = match protocol {
                        UDP => udp(from, to),
                        _ => tcp((from, to), Flags::SYN, [5, 0], 0),
                    };
                    let Some(out) = self.b.cross(LAN, first) else { continue };
                    let owner = taken.entry((protocol, ends(&out)[0])).or_insert(from);
                    prop_assert_eq!(*owner, from, "two inside hosts have one endpoint");
                }
            }
        }
        Ok(())
    }
}

fn run(nat: &str, steps: &[[u8; 4]]) -> Result<(), TestCaseError> {
    let mut pair = Pair {
        a: Router::new(RULES, nat, 5),
        b: Router::new(RULES, nat, 900),
        flows: Vec::new(),
        ever: Vec::new(),
        sent: Vec::new(),
        version: 0,
        has_lost: false,
        may_lack_ports: nat.contains("block"),
    };
    for &[step, x, y, z] in steps {
        match step % 8 {
            0..=2 => pair.begin([x, y, z]),
            3 | 4 => pair.answer(x, usize::from(y) * 4)?,
            5 => pair.begin_outside(x, y),
            6 => pair.copy(x),
            _ => {
                let span = Duration::from_millis(u64::from(x));
                pair.a.wait(span);
                pair.b.wait(span);
            }
        }
    }
    pair.switch();
    pair.check()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn flows_go_on_at_the_partner(
        nat in 0_usize..5,
        steps in proptest::collection::vec(any::<[u8; 4]>(), 1..80),
    ) {
        let nat = [
            POOL,
            "source out wan from 10.0.0.0/24 to 203.0.113.0/31 block 64",
            "source out wan from 10.0.0.0/24 to port",
            "source out wan from 10.0.0.0/24 to port ports 2000-2063 filtering independent",
            "",
        ][nat];
        run(nat, &steps)?;
    }
}
