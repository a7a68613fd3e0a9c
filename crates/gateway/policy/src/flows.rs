//! Flows: what the engine asks, and what the log hears of it.
//!
//! Called by: the engine of the gateway, for each SYN, each first datagram to a destination and the
//! first bytes of a flow; the owner, with the engine's reports.

use core::net::{IpAddr, SocketAddr};

use gateway::{End, Ends, Glance, Policy, Report, Verdict};
use host::dns::DomainName;

use crate::compiled::{Destination, Protocol};
use crate::fence::{Decision, Fence, Hello};
use crate::hello::{Seen, read};
use crate::hellos::Datagram;
use crate::log::{Line, Note, error, rfc3339, seconds};
use crate::questions::{Known, Questions};
use crate::rules::Action;

/// The port of name servers (RFC 1035 section 4.2).
const NAMES: u16 = 53;

impl Fence {
    /// The next line of the log, without a newline.
    pub fn next_line(&mut self) -> Option<String> {
        let line = self.log.pop()?;
        // A structure of texts and numbers can always be written.
        Some(serde_json::to_string(&line).unwrap_or_default())
    }

    /// Lines for which there was no room.
    pub fn lost_lines(&self) -> u64 {
        self.log.lost()
    }

    /// Questions to people.
    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    /// Somebody has answered a question: the flows that wait, and what becomes of them, for
    /// `Gateway::decide`; `None` if the question is over. Until the rules change the answer holds
    /// for the destination, if `is_kept`, else for 55 s.
    pub fn answer_question(
        &mut self,
        id: u64,
        allows: bool,
        is_kept: bool,
    ) -> Option<Vec<(Ends, Verdict)>> {
        let waiting = self.questions.answer(id, allows, is_kept, self.now)?;
        let mut verdicts = Vec::new();
        for ends in waiting {
            let Some(note) = self.log.flow(Protocol::Tcp, &ends) else { continue };
            if allows {
                note.holds = self.pins.hold(note.to.address);
                verdicts.push((ends, Verdict::Allow));
            } else {
                note.refusal = Some("the answer was no".to_owned());
                verdicts.push((ends, self.refusal()));
            }
        }
        Some(verdicts)
    }

    /// A flow has ended, or did not begin: a report of the engine (`Gateway::next_report`).
    pub fn ended(&mut self, report: &Report) {
        let (protocol, remote) = (report.protocol, report.ends.remote);
        if protocol == Protocol::Udp {
            self.hellos.forget(&report.ends);
        }
        let Some(note) = self.log.end(protocol, &report.ends) else {
            // The refusal of a SYN is in the log already.
            if report.end != End::Refused {
                let to = Destination::new(protocol, remote.ip(), remote.port());
                self.write_end(note("published", to), report);
            }
            return;
        };
        if note.holds {
            self.pins.release(note.to.address);
        }
        self.write_end(note, report);
    }

    fn write_end(&mut self, note: Note, report: &Report) {
        if !self.log.is_read() {
            return;
        }
        // A guest can begin and be refused many times.
        let is_refused_datagram = report.end == End::Refused && report.protocol != Protocol::Tcp;
        let has_begun = !matches!(report.end, End::NotConnected(_) | End::Unanswered);
        if (!has_begun || is_refused_datagram)
            && !self.log.says(report.ends.guest.ip(), note.to, self.now)
        {
            return;
        }
        let is_refused = report.end == End::Refused || note.refusal.is_some();
        let why = || match report.end {
            End::Refused => Some("nobody answered the question".to_owned()),
            // Datagrams have no end of their own.
            End::ShutDown if report.protocol != Protocol::Tcp => None,
            end => error(end),
        };
        let line = Line {
            verdict: if is_refused { "deny" } else { "allow" }.to_owned(),
            bytes_out: Some(report.bytes_up),
            bytes_in: Some(report.bytes_down),
            duration: Some(seconds(report.since, self.now)),
            error: note.refusal.clone().or_else(why),
            ..self.line(note, &report.ends)
        };
        self.log.push(line);
    }

    /// Were more reports lost than before (`Gateway::lost_reports`)? Then it is time for
    /// [`Fence::forget_others`].
    pub fn has_lost(&mut self, reports: u64) -> bool {
        self.log.has_lost(reports)
    }

    /// Reports were lost: forget flows that are not there any more (`Gateway::unreported`).
    pub fn forget_others(&mut self, is_there: impl Fn(Protocol, &Ends) -> bool) {
        for (protocol, ends) in self.log.others(is_there) {
            if let Some(note) = self.log.end(protocol, &ends).filter(|note| note.holds) {
                self.pins.release(note.to.address);
            }
        }
    }

    fn line(&self, note: Note, ends: &Ends) -> Line {
        let Note { to, names, sni, rule, .. } = note;
        Line {
            time: rfc3339(self.unix),
            protocol: to.protocol.name().to_owned(),
            source: Some(ends.guest),
            destination: Some(ends.remote),
            names,
            sni,
            rule,
            ..Line::default()
        }
    }

    /// A line about a question for a name that was refused.
    pub(crate) fn write_name(&mut self, name: &DomainName, rule: Option<u16>, why: String) {
        if !self.log.is_read() {
            return;
        }
        let line = Line {
            time: rfc3339(self.unix),
            protocol: "dns".to_owned(),
            names: vec![name.to_string()],
            verdict: "deny".to_owned(),
            rule: self.rules.place(rule),
            error: Some(why),
            ..Line::default()
        };
        self.log.push(line);
    }

    fn names_of(&self, address: IpAddr) -> Vec<String> {
        self.pins.names(address, self.now).map(ToString::to_string).collect()
    }

    /// The limit on bytes that is used up.
    fn used_up(&self) -> Option<&'static str> {
        let is_over = |used: u64, most: Option<u64>| most.is_some_and(|most| used >= most);
        match self.used {
            (out, _) if is_over(out, self.rules.bytes_out_max) => Some("bytes_out"),
            (_, into) if is_over(into, self.rules.bytes_in_max) => Some("bytes_in"),
            _ => None,
        }
    }

    fn judge(&mut self, protocol: Protocol, ends: &Ends) -> Verdict {
        let to = Destination::new(protocol, ends.remote.ip(), ends.remote.port());
        if let Some(resolver) = self.resolver_of(&to) {
            self.begin(*ends, note("resolver", to));
            return Verdict::To(resolver);
        }
        if let Some(limit) = self.used_up() {
            let note = note(limit, to);
            return self.refuse(ends, note, format!("the policy's limit {limit} is reached"));
        }
        let Decision { action, rule, hello } = self.decide(&to);
        let rule = self.rules.place(rule);
        let note = Note { rule, hello, names: self.names_of(to.address), ..note("", to) };
        match action {
            Action::Allow => self.allow(ends, note),
            Action::Deny => self.refuse(ends, note, "refused".to_owned()),
            Action::Ask => self.ask(ends, note),
        }
    }

    fn resolver_of(&self, to: &Destination) -> Option<SocketAddr> {
        self.resolver.filter(|_| to.protocol != Protocol::Echo && to.port == NAMES)
    }

    fn begin(&mut self, ends: Ends, note: Note) {
        if let Some(before) = self.log.begin(ends, note).filter(|note| note.holds) {
            self.pins.release(before.to.address);
        }
    }

    fn allow(&mut self, ends: &Ends, mut note: Note) -> Verdict {
        self.counts.allowed += 1;
        note.holds = self.pins.hold(note.to.address);
        let (protocol, hello) = (note.to.protocol, note.hello);
        self.begin(*ends, note);
        if hello != Hello::Ignore && self.log.flow(protocol, ends).is_none() {
            // There are too many flows to remember what its hello has to say.
            self.counts.refused += 1;
            return self.refusal();
        }
        Verdict::Allow
    }

    fn refuse(&mut self, ends: &Ends, note: Note, why: String) -> Verdict {
        self.counts.refused += 1;
        if self.log.is_read() && self.log.says(ends.guest.ip(), note.to, self.now) {
            let line = self.line(note, ends);
            self.log.push(Line { verdict: "deny".to_owned(), error: Some(why), ..line });
        }
        self.refusal()
    }

    fn ask(&mut self, ends: &Ends, note: Note) -> Verdict {
        let describe = || (note.names.clone(), note.rule.clone());
        match self.questions.ask(note.to, ends, self.now, describe) {
            Known::Answer(true) => self.allow(ends, note),
            Known::Answer(false) => self.refuse(ends, note, "the answer was no".to_owned()),
            Known::Full => self.refuse(ends, note, "too many questions are open".to_owned()),
            Known::Asked => {
                self.counts.asked += 1;
                if note.to.protocol == Protocol::Tcp {
                    self.begin(*ends, note);
                }
                Verdict::Ask
            }
        }
    }

    /// Judge the first bytes of a flow. `is_all`: there will not be more.
    fn glance(&mut self, ends: &Ends, bytes: &[u8], is_all: bool) -> Glance {
        let Some(note) = self.log.flow(Protocol::Tcp, ends) else { return Glance::Pass };
        let (hello, to) = (note.hello, note.to);
        let refusal = match (hello, read(bytes)) {
            (Hello::Ignore, _) => return Glance::Pass,
            (_, Seen::Incomplete) if !is_all => return Glance::More,
            (_, Seen::Hello(Some(name))) => return self.named(ends, &to, &name),
            (Hello::Needed, Seen::Other) => "no TLS, which the rule asks for",
            // Nothing was sent at all, or something that no rule asks about.
            (_, Seen::Other) => return Glance::Pass,
            (Hello::NotDenied | Hello::IfAny, Seen::Incomplete) if bytes.is_empty() => {
                return Glance::Pass;
            }
            (Hello::NotDenied, Seen::Hello(None)) => return Glance::Pass,
            (_, Seen::Hello(None)) => "the TLS hello has no server name",
            (_, Seen::Incomplete) => "the TLS hello has no end",
            (_, Seen::Malformed) => "the TLS hello is malformed",
        };
        self.refuse_late(ends, &to, refusal.to_owned())
    }

    /// Judge datagrams of a flow, each of `size` bytes but the last.
    fn look(&mut self, ends: &Ends, payload: &[u8], size: usize) -> Glance {
        let Some(note) = self.log.flow(Protocol::Udp, ends) else { return Glance::Pass };
        let (hello, to) = (note.hello, note.to);
        let mut glance = Glance::Pass;
        for datagram in payload.chunks(if size == 0 { payload.len().max(1) } else { size }) {
            let refusal = match self.hellos.see(ends, datagram) {
                Datagram::Incomplete => {
                    glance = Glance::More;
                    continue;
                }
                Datagram::Hello(id, Seen::Hello(Some(name))) => {
                    if self.named(ends, &to, &name) == Glance::Refuse {
                        self.hellos.forget(ends);
                        return Glance::Refuse;
                    }
                    self.hellos.allow(ends, id);
                    glance = Glance::Pass;
                    continue;
                }
                Datagram::Hello(id, Seen::Hello(None)) if hello == Hello::NotDenied => {
                    self.hellos.allow(ends, id);
                    glance = Glance::Pass;
                    continue;
                }
                Datagram::Hello(_, Seen::Hello(None)) => "the QUIC hello has no server name",
                Datagram::Hello(..) => "the QUIC hello is malformed",
                Datagram::Unknown if hello == Hello::Needed => "a version of QUIC that is not read",
                Datagram::Other { is_known: false } if hello == Hello::Needed => {
                    "no hello of QUIC, which the rule asks for"
                }
                Datagram::Unknown | Datagram::Other { .. } => continue,
            };
            self.hellos.forget(ends);
            return self.refuse_late(ends, &to, refusal.to_owned());
        }
        glance
    }

    /// The hello has a name.
    fn named(&mut self, ends: &Ends, to: &Destination, name: &DomainName) -> Glance {
        let decision = self.decide_named(to, name);
        let place = self.rules.place(decision.rule);
        let Some(note) = self.log.flow(to.protocol, ends) else { return Glance::Pass };
        note.sni = Some(name.to_string());
        match decision.action {
            Action::Allow => {
                note.rule = place;
                Glance::Pass
            }
            // Somebody has allowed the flow by the same rule.
            Action::Ask if note.rule == place => Glance::Pass,
            Action::Ask | Action::Deny => {
                note.rule = place;
                let why = "no rule allows the name in the TLS hello here".to_owned();
                self.refuse_late(ends, to, why)
            }
        }
    }

    fn refuse_late(&mut self, ends: &Ends, to: &Destination, why: String) -> Glance {
        self.counts.refused += 1;
        if let Some(note) = self.log.flow(to.protocol, ends) {
            note.refusal = Some(why);
        }
        Glance::Refuse
    }
}

/// A note without a name, of what `rule` says.
fn note(rule: &str, to: Destination) -> Note {
    Note {
        to,
        names: Vec::new(),
        sni: None,
        rule: rule.to_owned(),
        hello: Hello::Ignore,
        holds: false,
        refusal: None,
    }
}

impl Policy for Fence {
    fn tcp(&mut self, ends: &Ends) -> Verdict {
        self.judge(Protocol::Tcp, ends)
    }

    fn udp(&mut self, ends: &Ends) -> Verdict {
        self.judge(Protocol::Udp, ends)
    }

    fn echo(&mut self, ends: &Ends) -> Verdict {
        self.judge(Protocol::Echo, ends)
    }

    fn wants_hello(&mut self, ends: &Ends) -> bool {
        let note = self.log.flow(Protocol::Tcp, ends);
        note.is_some_and(|note| note.hello != Hello::Ignore)
    }

    fn wants_datagrams(&mut self, ends: &Ends) -> bool {
        let note = self.log.flow(Protocol::Udp, ends);
        note.is_some_and(|note| note.hello != Hello::Ignore)
    }

    fn datagrams(&mut self, ends: &Ends, payload: &[u8], segment_size: usize) -> Glance {
        self.look(ends, payload, segment_size)
    }

    fn hello(&mut self, ends: &Ends, bytes: &[u8], is_all: bool) -> Glance {
        self.glance(ends, bytes, is_all)
    }
}

#[cfg(test)]
mod tests;
