//! Clients: the state of calls that wait for their replies, over streams and over datagrams.
//!
//! Called by: `blocking.rs`, or whoever has a transport. RFC 5531 section 9. A call is a
//! [`CallId`] until its reply, its time-out or the end of its connection.

mod datagram;
mod error;
mod slots;
mod stream;

pub use datagram::{DatagramClient, DatagramCounts};
pub use error::CallError;
pub use slots::CallId;
pub use stream::{Replied, StreamClient};

use base::Duration;

use crate::auth::Credential;
use crate::limits;
use crate::message::{CALL, RPC_VERSION};
use crate::xdr::{Encode, put_u32};

/// Bytes between the start of a call and its number of the procedure.
const PROCEDURE_AT: usize = 20;

/// What a client calls, and how. The sizes are those of `clnttcp_create` and `clntudp_bufcreate`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Who calls.
    pub credential: Credential,
    /// Bytes of calls that gather before they are written (`sendsz`); a call is written whole, and
    /// by one write, whatever its size.
    pub send_bytes: usize,
    /// Bytes that are read at a time (`recvsz`).
    pub receive_bytes: usize,
    /// Bytes of the longest call and the longest reply over a stream.
    pub record_max: usize,
    /// Calls that may wait for replies.
    pub calls: usize,
    /// How long a call may take.
    pub timeout: Duration,
}

impl Config {
    /// A client of this program, without credentials, with the default sizes and limits.
    pub fn new(program: u32, version: u32) -> Config {
        Config {
            program,
            version,
            credential: Credential::None,
            send_bytes: limits::BUFFER_UNIT,
            receive_bytes: limits::BUFFER_UNIT,
            record_max: limits::RECORD_BYTES,
            calls: limits::CALLS,
            timeout: limits::CALL_TIMEOUT,
        }
    }

    /// Everything of a call in front of its arguments; xid and procedure are patched in.
    fn template(&self) -> Vec<u8> {
        let mut template = Vec::new();
        [0, CALL, RPC_VERSION, self.program, self.version, 0]
            .iter()
            .for_each(|&word| put_u32(&mut template, word));
        self.credential.encode(&mut template);
        crate::auth::OpaqueAuth::NONE.encode(&mut template);
        template
    }
}

/// Append a call to `out`.
#[inline]
fn put_call<A: Encode + ?Sized>(
    out: &mut Vec<u8>,
    template: &[u8],
    xid: u32,
    procedure: u32,
    args: &A,
) {
    let at = out.len();
    out.extend_from_slice(template);
    out[at..at + 4].copy_from_slice(&xid.to_be_bytes());
    out[at + PROCEDURE_AT..at + PROCEDURE_AT + 4].copy_from_slice(&procedure.to_be_bytes());
    args.encode(out);
}
