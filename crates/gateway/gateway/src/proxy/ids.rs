//! Numbers of clients and of their connections, and answers to their questions.
//!
//! Called by: the files beside this one, `gateway.rs`, `names.rs`.

use host::dns::{Kind, Transport};
use slotmap::{Key, KeyData, new_key_type};

use crate::datagrams::{FLOW, NAMES, PROXY};
use crate::outside::{Ready, Token};

new_key_type! {
    /// The number of a client; a removed one's is not used again.
    pub(crate) struct ClientId;
    /// The number of a client's connection or socket; a removed one's is not used again.
    pub(crate) struct LegId;
}

impl LegId {
    pub(super) fn token(self) -> Token {
        Token(self.data().as_ffi() & !FLOW | PROXY)
    }

    /// The connection of a token; `None` if it is something else's.
    pub(crate) fn of(token: Token) -> Option<LegId> {
        let is_own = token.0 & (FLOW | NAMES | PROXY) == PROXY;
        is_own.then(|| LegId::from(KeyData::from_ffi(token.0 & !PROXY | FLOW)))
    }
}

/// A connection or a socket.
pub(super) struct Leg {
    pub(super) client: ClientId,
    pub(super) ready: Ready,
}

/// An answer of the resolver to a client's question.
pub(crate) struct Said {
    pub(crate) client: ClientId,
    /// The number of the lookup.
    pub(crate) lookup: u32,
    pub(crate) kind: Kind,
    /// How it was asked.
    pub(crate) by: Transport,
    pub(crate) message: Vec<u8>,
}
