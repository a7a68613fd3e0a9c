//! The first bytes of a flow: the server name in a TLS client hello.
//!
//! Called by: `fence`, with what a guest has sent so far. RFC 8446 sections 4.1.2 and 5.1, RFC 6066
//! section 3 (server name). Records may cut the hello anywhere. Unknown extensions and values,
//! GREASE (RFC 8701) among them, are skipped. Of a hello with an encrypted one inside (RFC 9849)
//! the outer name counts. Cost: each byte is read a few times, nothing is kept. Limit:
//! [`BYTES_MAX`].

use host::dns::DomainName;

/// The bytes in which a hello has to be complete, headers of records included.
pub const BYTES_MAX: usize = 16 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// Bytes of a record's content (RFC 8446 section 5.1).
const RECORD_MAX: usize = 1 << 14;
const RECORD_HEADER: usize = 5;

/// What the first bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Not enough to say.
    Incomplete,
    /// No TLS.
    Other,
    /// A hello with this server name, or without one.
    Hello(Option<DomainName>),
    /// They begin as TLS does, and are no hello, or none that this parser takes.
    Malformed,
}

/// Why the parser stops.
enum Stop {
    Incomplete,
    Malformed,
}

/// Read the first bytes of a flow.
pub fn read(bytes: &[u8]) -> Seen {
    match bytes {
        [] => return Seen::Incomplete,
        [HANDSHAKE] | [HANDSHAKE, 3] => return Seen::Incomplete,
        [HANDSHAKE, 3, 0..=4, ..] => {}
        _ => return Seen::Other,
    }
    match hello(bytes) {
        Ok(name) => Seen::Hello(name),
        Err(Stop::Incomplete) if bytes.len() < BYTES_MAX => Seen::Incomplete,
        Err(_) => Seen::Malformed,
    }
}

/// Read the first bytes of a handshake without records, as QUIC has it (RFC 9001 section 4.1.3).
pub fn read_message(bytes: &[u8]) -> Seen {
    match whole(bytes).and_then(|message| message.map(server_of).transpose()) {
        Ok(Some(name)) => Seen::Hello(name),
        Ok(None) if bytes.len() < BYTES_MAX => Seen::Incomplete,
        Ok(None) | Err(_) => Seen::Malformed,
    }
}

fn hello(bytes: &[u8]) -> Result<Option<DomainName>, Stop> {
    server_of(&message(&bytes[..bytes.len().min(BYTES_MAX)])?)
}

/// The server name in the body of a hello.
fn server_of(message: &[u8]) -> Result<Option<DomainName>, Stop> {
    let mut body = Reader(message);
    body.take(2 + 32)?;
    let session = body.byte()?;
    body.take(session.into())?;
    let suites = body.word()?;
    body.take(suites)?;
    let methods = body.byte()?;
    body.take(methods.into())?;
    if body.0.is_empty() {
        // TLS 1.2 knows hellos without extensions.
        return Ok(None);
    }
    let length = body.word()?;
    let mut extensions = Reader(body.take(length)?);
    if !body.0.is_empty() {
        return Err(Stop::Malformed);
    }
    let (mut found, mut is_there) = (None, false);
    while !extensions.0.is_empty() {
        let kind = extensions.word()?;
        let length = extensions.word()?;
        let value = extensions.take(length)?;
        if kind == usize::from(SERVER_NAME) {
            // RFC 8446 section 4.2: no extension comes twice.
            if core::mem::replace(&mut is_there, true) {
                return Err(Stop::Malformed);
            }
            found = Some(server_name(value)?);
        }
    }
    Ok(found)
}

/// The host name in the extension: there is one (RFC 6066 section 3).
fn server_name(value: &[u8]) -> Result<DomainName, Stop> {
    let mut value = Reader(value);
    let length = value.word()?;
    let mut list = Reader(value.take(length)?);
    let kind = list.byte()?;
    let length = list.word()?;
    let name = list.take(length)?;
    if kind != HOST_NAME || !list.0.is_empty() || !value.0.is_empty() {
        return Err(Stop::Malformed);
    }
    let name = core::str::from_utf8(name).map_err(|_| Stop::Malformed)?;
    DomainName::parse(name).map_err(|_| Stop::Malformed)
}

/// The body of the client hello that a handshake begins with; `None` if more is to come.
fn whole(handshake: &[u8]) -> Result<Option<&[u8]>, Stop> {
    if handshake.first().is_some_and(|&kind| kind != CLIENT_HELLO) {
        return Err(Stop::Malformed);
    }
    let Some(&[_, a, b, c]) = handshake.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    if length > BYTES_MAX {
        return Err(Stop::Malformed);
    }
    Ok(handshake.get(4..4 + length))
}

/// The body of the client hello, from the contents of its records.
fn message(bytes: &[u8]) -> Result<Vec<u8>, Stop> {
    let (mut records, mut message) = (bytes, Vec::new());
    loop {
        // It may be complete before its record is.
        if let Some(body) = whole(&message)? {
            return Ok(body.to_vec());
        }
        let Some(&[kind, major, _, a, b]) = records.first_chunk::<RECORD_HEADER>() else {
            return Err(Stop::Incomplete);
        };
        let length = usize::from(u16::from_be_bytes([a, b]));
        // RFC 8446 section 5.1: no empty fragments of a handshake.
        if kind != HANDSHAKE || major != 3 || length == 0 || length > RECORD_MAX {
            return Err(Stop::Malformed);
        }
        let content = &records[RECORD_HEADER..];
        let (content, rest) = content.split_at(length.min(content.len()));
        message.extend(content);
        records = rest;
    }
}

/// Reads fields; what is missing inside of a complete message makes it malformed.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Stop::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        Ok(self.take(1)?[0])
    }

    fn word(&mut self) -> Result<usize, Stop> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }
}

#[cfg(test)]
pub(crate) mod tests;
