//! A question as a message, and what its answer says: for those who ask a forwarder themselves.
//!
//! Called by: code with a forwarder whose clients give it names, as those of a proxy do.

use core::net::IpAddr;

use super::answer::contents;
use super::question::{TRUNCATED, rcode};
use crate::dns::message::{self, Kind};
use crate::dns::name::DomainName;

/// What an answer says about a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The answer was cut: ask by TCP.
    pub is_truncated: bool,
    /// The policy does not let the name be asked, or its answer pass.
    pub is_refused: bool,
    /// Its addresses, in the answer's order; none if there are none, or nobody has answered.
    pub addresses: Vec<IpAddr>,
}

/// The message that asks for the addresses of a name, for [`super::Forwarder::question`]. It is a
/// plain one, without EDNS, which every server reads.
pub fn question(name: &DomainName, kind: Kind) -> Vec<u8> {
    // The forwarder has identifiers of its own towards servers.
    message::query(&message::Question { id: 0, name: name.wire().to_vec(), kind }, false)
}

/// Read the answer to [`question`].
pub fn said(answer: &[u8], name: &DomainName) -> Said {
    let code = answer.get(3).map_or(rcode::SERVER_FAILURE, |flags| flags & 0x0f);
    let found = contents(answer, name).map(|contents| contents.addresses).unwrap_or_default();
    let addresses = found.iter().filter(|learned| !learned.is_hint).map(|l| l.address).collect();
    let is_truncated = answer.get(2).is_some_and(|flags| flags & TRUNCATED != 0);
    Said { is_truncated, is_refused: code == rcode::REFUSED, addresses }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::forwarder::question::Question;

    #[test]
    fn a_question_is_read_as_it_was_written_and_its_answer_too() {
        let name = DomainName::parse("www.example.org").expect("a name");
        let message = question(&name, Kind::Aaaa);
        let read = Question::parse(&message).expect("a question");
        assert_eq!((read.name.to_string(), read.rtype), (name.to_string(), 28));
        let addresses = vec!["2001:db8::7".parse().expect("an address")];
        let answer = read.addresses(&addresses);
        assert_eq!(said(&answer, &name), Said { addresses, ..Said::default() });
        assert!(said(&read.truncated(), &name).is_truncated);
        let refusal = read.failure(rcode::REFUSED, 15);
        assert_eq!(said(&refusal, &name), Said { is_refused: true, ..Said::default() });
        assert_eq!(said(&[], &name), Said::default());
    }
}
