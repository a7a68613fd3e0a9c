//! Credentials: AUTH_NONE and AUTH_SYS (RFC 5531 section 8 and appendix A).
//!
//! Called by: `message.rs`, clients and servers. AUTH_SYS contains only the caller's claim about
//! its user, which nothing checks. A body has 400 bytes at most.

use crate::limits::{GROUPS_MAX, MACHINE_NAME_MAX};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, put_opaque, put_u32};

/// The flavor AUTH_NONE.
pub const AUTH_NONE: u32 = 0;
/// The flavor AUTH_SYS.
pub const AUTH_SYS: u32 = 1;

/// A credential or a verifier as in a message: its flavor, and a body of 400 bytes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// [`AUTH_NONE`], [`AUTH_SYS`] or another one.
    pub flavor: u32,
    /// The body, in the format of the flavor.
    pub body: &'a [u8],
}

impl OpaqueAuth<'_> {
    /// AUTH_NONE.
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth { flavor: AUTH_NONE, body: &[] };
}

impl Encode for OpaqueAuth<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.flavor);
        put_opaque(out, self.body);
    }
}

/// The content of an AUTH_SYS credential (`authsys_parms`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSys {
    /// Any number of the caller's choice.
    pub stamp: u32,
    /// The name of the caller's host. Names longer than 255 bytes are cut.
    pub machine: String,
    /// The user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// Further groups; only the first sixteen are sent.
    pub gids: Vec<u32>,
}

impl Encode for AuthSys {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.stamp);
        let name = self.machine.as_bytes();
        put_opaque(out, &name[..name.len().min(MACHINE_NAME_MAX)]);
        put_u32(out, self.uid);
        put_u32(out, self.gid);
        self.gids[..self.gids.len().min(GROUPS_MAX)].encode(out);
    }
}

impl<'a> Decode<'a> for AuthSys {
    fn decode(from: &mut Decoder<'a>) -> Result<AuthSys, DecodeError> {
        let stamp = from.u32()?;
        let name = from.opaque(MACHINE_NAME_MAX)?;
        let machine = String::from_utf8_lossy(name).into_owned();
        let (uid, gid) = (from.u32()?, from.u32()?);
        let gids = Vec::decode(from)?;
        if gids.len() > GROUPS_MAX {
            return Err(DecodeError::TooLong);
        }
        Ok(AuthSys { stamp, machine, uid, gid, gids })
    }
}

/// The credential that a client sends with its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// AUTH_NONE.
    #[default]
    None,
    /// AUTH_SYS.
    Sys(AuthSys),
}

impl Encode for Credential {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Credential::None => OpaqueAuth::NONE.encode(out),
            Credential::Sys(sys) => {
                let mut body = Vec::new();
                sys.encode(&mut body);
                OpaqueAuth { flavor: AUTH_SYS, body: &body }.encode(out);
            }
        }
    }
}

/// Why a server rejects a caller's credential or verifier (`auth_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum AuthError {
    /// The credential is malformed.
    #[error("the credential is broken (AUTH_BADCRED)")]
    BadCredential = 1,
    /// A new session has to begin.
    #[error("the credential was rejected: a new session must begin (AUTH_REJECTEDCRED)")]
    RejectedCredential = 2,
    /// The verifier is malformed.
    #[error("the verifier is broken (AUTH_BADVERF)")]
    BadVerifier = 3,
    /// The verifier has expired or was used before.
    #[error("the verifier has expired or was used before (AUTH_REJECTEDVERF)")]
    RejectedVerifier = 4,
    /// The server wants a stronger flavor.
    #[error("the server wants a stronger credential: try AUTH_SYS (AUTH_TOOWEAK)")]
    TooWeak = 5,
    /// Any other reason.
    #[error("the server refuses the credential")]
    Other = 7,
}

impl AuthError {
    /// The reason with that number; [`AuthError::Other`] for an unknown number.
    pub fn of(number: u32) -> AuthError {
        match number {
            1 => AuthError::BadCredential,
            2 => AuthError::RejectedCredential,
            3 => AuthError::BadVerifier,
            4 => AuthError::RejectedVerifier,
            5 => AuthError::TooWeak,
            _ => AuthError::Other,
        }
    }
}
