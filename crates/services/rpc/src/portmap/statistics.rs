//! The counters of a port mapper, for GETSTAT of version 4 (RFC 1833 section 2.1, `rpcb_stat`).
//!
//! Called by: `service.rs`. Limit: `LOOKUPS_MAX`; look-ups beyond it are not listed.

use crate::limits::LOOKUPS_MAX;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, List};

/// Number of procedures that are counted, from procedure 0 on (RPCBSTAT_HIGHPROC).
const PROCEDURES: usize = 13;

crate::xdr! {
    /// How often a version of a program was looked up on a transport (`rpcbs_addrlist`).
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Lookups {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// How many look-ups found an address.
        pub found: i32,
        /// How many look-ups found none.
        pub missed: i32,
        /// The network id.
        pub netid: String,
    }

    /// Calls that were forwarded (`rpcbs_rmtcalllist`).
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct RemoteCalls {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// The procedure.
        pub procedure: u32,
        /// How many calls were answered.
        pub answered: i32,
        /// How many calls were not answered.
        pub failed: i32,
        /// Whether the calls came by INDIRECT.
        pub indirect: i32,
        /// The network id.
        pub netid: String,
    }
}

/// The counters of one version of the port mapper. Calls of procedure 0 are not counted, because
/// [`crate::server::Server`] answers them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls of each procedure.
    pub calls: [u32; PROCEDURES],
    /// Mappings that were set.
    pub set: u32,
    /// Mappings that were removed.
    pub unset: u32,
    /// Look-ups.
    pub lookups: List<Lookups>,
    /// Calls that were forwarded: always empty, because this port mapper forwards none.
    pub remote: List<RemoteCalls>,
}

impl Statistics {
    /// Count a call of this procedure.
    pub(super) fn call(&mut self, procedure: u32) {
        if let Some(count) = self.calls.get_mut(procedure as usize) {
            *count = count.wrapping_add(1);
        }
    }

    /// Count a look-up of a version of a program on a transport.
    pub(super) fn look_up(&mut self, program: u32, version: u32, netid: &str, is_found: bool) {
        let all = &mut self.lookups.0;
        let is_it =
            |l: &Lookups| (l.program, l.version, l.netid.as_str()) == (program, version, netid);
        let at = all.iter().position(is_it).or_else(|| {
            let netid = netid.to_owned();
            (all.len() < LOOKUPS_MAX).then(|| {
                all.push(Lookups { program, version, netid, ..Lookups::default() });
                all.len() - 1
            })
        });
        let Some(lookups) = at.map(|at| &mut all[at]) else { return };
        let count = if is_found { &mut lookups.found } else { &mut lookups.missed };
        *count = count.wrapping_add(1);
    }
}

impl Encode for Statistics {
    fn encode(&self, out: &mut Vec<u8>) {
        self.calls.iter().for_each(|count| count.encode(out));
        (self.set, self.unset).encode(out);
        self.lookups.encode(out);
        self.remote.encode(out);
    }
}

impl<'a> Decode<'a> for Statistics {
    fn decode(from: &mut Decoder<'a>) -> Result<Statistics, DecodeError> {
        let mut calls = [0; PROCEDURES];
        for count in &mut calls {
            *count = from.u32()?;
        }
        let (set, unset) = Decode::decode(from)?;
        let (lookups, remote) = (Decode::decode(from)?, Decode::decode(from)?);
        Ok(Statistics { calls, set, unset, lookups, remote })
    }
}
