//! HTTP as a proxy speaks it: CONNECT, and requests for whole URLs of `http://`, of which a
//! connection has one. RFC 9110 sections 9.3.6 and 11.7, RFC 9112 sections 3.2 and 9.6, RFC 7617.
//!
//! Called by: `protocol.rs`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Credentials, No, Request, Speaks, Target, Wish, Wrong, is_prohibited};
use crate::outside::Failure;

const END: &[u8] = b"\r\n\r\n";

/// As `Handshake::take`.
pub(super) fn take(
    input: &mut Vec<u8>,
    output: &mut Vec<u8>,
    credentials: Option<&Credentials>,
) -> Result<Option<Request>, Wrong> {
    let Some(end) = input.windows(END.len()).position(|window| window == END) else {
        return Ok(None);
    };
    let head: Vec<u8> = input.drain(..end + END.len()).collect();
    let read = core::str::from_utf8(&head[..end]).ok().and_then(Head::read);
    let Some(head) = read else {
        output.extend(answer("400 Bad Request", "", "not a request to a proxy\n"));
        return Err(Wrong::Malformed);
    };
    if let Some(known) = credentials
        && !head.fields.iter().any(|(name, value)| is_of(known, name, value))
    {
        let asks = "Proxy-Authenticate: Basic realm=\"wirespeed\"\r\n";
        let why = "the proxy needs a user name and a password\n";
        output.extend(answer("407 Proxy Authentication Required", asks, why));
        return Err(Wrong::Unauthorized);
    }
    match head.request() {
        Some(request) => Ok(Some(request)),
        None => {
            let why = "write CONNECT HOST:PORT, or a request for http://HOST/\n";
            output.extend(answer("400 Bad Request", "", why));
            Err(Wrong::Malformed)
        }
    }
}

/// The head of a request.
struct Head<'a> {
    method: &'a str,
    target: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Head<'a> {
    fn read(text: &'a str) -> Option<Head<'a>> {
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if !version.starts_with("HTTP/1.") || words.next().is_some() {
            return None;
        }
        let fields = lines.map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name, value.trim()))
        });
        Some(Head { method, target, fields: fields.collect::<Option<_>>()? })
    }

    fn request(&self) -> Option<Request> {
        if self.method == "CONNECT" {
            let (host, port) = self.target.rsplit_once(':')?;
            let target = Target::of(host, port.parse().ok()?)?;
            let wish = Wish::Connect(target);
            return Some(Request { wish, speaks: Speaks::HttpConnect, first: Vec::new() });
        }
        let rest = self.target.strip_prefix("http://")?;
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // Names and passwords in URLs are for nobody (RFC 9110 section 4.2.4).
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, 80),
        };
        let wish = Wish::Connect(Target::of(host, port)?);
        let first = self.of_origin(authority, path);
        Some(Request { wish, speaks: Speaks::HttpPlain, first })
    }

    /// The request as its server expects it. Another request of this connection may be for another
    /// server, so there will be none.
    fn of_origin(&self, authority: &str, path: &str) -> Vec<u8> {
        let slash = if path.starts_with('/') { "" } else { "/" };
        let mut head = format!("{} {slash}{path} HTTP/1.1\r\nHost: {authority}\r\n", self.method);
        for (name, value) in &self.fields {
            let ours = ["host", "connection", "keep-alive", "proxy-authorization"];
            let name_lower = name.to_ascii_lowercase();
            if !ours.contains(&&*name_lower) && name_lower != "proxy-connection" {
                head.extend([name, ": ", value, "\r\n"]);
            }
        }
        head.push_str("Connection: close\r\n\r\n");
        head.into_bytes()
    }
}

/// Are these the credentials of a request?
fn is_of(known: &Credentials, name: &str, value: &str) -> bool {
    let encoded = value.split_once(' ').filter(|(kind, _)| kind.eq_ignore_ascii_case("Basic"));
    let given = encoded.and_then(|(_, text)| STANDARD.decode(text.trim()).ok());
    let given = given.unwrap_or_default();
    let colon = given.iter().position(|&byte| byte == b':').unwrap_or(given.len());
    let (user, password) = given.split_at(colon);
    name.eq_ignore_ascii_case("Proxy-Authorization")
        && known.are(user, password.get(1..).unwrap_or(&[]))
}

/// A refusal.
pub(super) fn no(why: No) -> Vec<u8> {
    let (status, why) = match why {
        _ if is_prohibited(why) => ("403 Forbidden", "the proxy's rules do not allow this\n"),
        No::Name => ("502 Bad Gateway", "the name has no address\n"),
        No::Full | No::Failed(Failure::Full) => {
            ("503 Service Unavailable", "the proxy has no room; try again\n")
        }
        No::Failed(Failure::TimedOut) => ("504 Gateway Timeout", "the host does not answer\n"),
        No::Failed(Failure::Refused | Failure::Reset) => {
            ("502 Bad Gateway", "the host refuses the connection\n")
        }
        No::Rules | No::Failed(_) => ("502 Bad Gateway", "the host cannot be reached\n"),
    };
    answer(status, "", why)
}

fn answer(status: &str, fields: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}"
    )
    .into_bytes()
}
