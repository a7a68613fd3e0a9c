//! What a router says of itself again and again: it is the heartbeat of a session, and its
//! beginning.
//!
//! Called by: `session.rs`. A hello of an unknown session proves nothing, since it may be a
//! recording; one that names our present session and a late hello of
//! ours is an answer.

use crate::codec::Reader;
use crate::counts::Refused;
use crate::seal::SessionId;

/// The body of a hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The session that it answers, and the number of the hello of that session; zeros: none is
    /// known.
    pub(crate) answers: SessionId,
    pub(crate) answered: u64,
    /// The sender's list of names of ports, and the receiver's list that it has.
    pub(crate) names: u32,
    pub(crate) names_heard: u32,
    /// The number of the next datagram with states.
    pub(crate) next: u64,
    /// The sender wants all states: another number than before asks again.
    pub(crate) request: u32,
}

impl Hello {
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = self.answers.0.to_vec();
        body.extend(self.answered.to_be_bytes());
        body.extend(self.names.to_be_bytes());
        body.extend(self.names_heard.to_be_bytes());
        body.extend(self.next.to_be_bytes());
        body.extend(self.request.to_be_bytes());
        body
    }

    /// Later versions may have more behind.
    pub(crate) fn read(body: &[u8]) -> Result<Hello, Refused> {
        let mut from = Reader(body);
        Ok(Hello {
            answers: SessionId(from.chunk()?),
            answered: from.long()?,
            names: from.word()?,
            names_heard: from.word()?,
            next: from.long()?,
            request: from.word()?,
        })
    }
}
