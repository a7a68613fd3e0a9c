//! Access to the live page: the request has to name the server by an address, and on other
//! addresses than loopback it needs the token.
//!
//! Called by: `server.rs`, for each request; `texts.rs`, for the address in a request. A name in
//! the Host header is refused: a foreign page could let its own name resolve to this address and
//! then read the answers (DNS rebinding). RFC 9110 sections 7.2 and 7.4; Fetch Metadata Request
//! Headers (W3C).

use core::net::IpAddr;
use std::fmt::Write as _;

use hyper::header::{HOST, HeaderMap};
use hyper::{Method, StatusCode, Uri};
use subtle::ConstantTimeEq;

use crate::Error;

/// A random text that the URL has to contain.
#[derive(Clone, Debug)]
pub(super) struct Token(String);

impl Token {
    pub(super) fn new() -> Result<Token, Error> {
        let mut bytes = [0; 16];
        let filled = getrandom::fill(&mut bytes);
        filled.map_err(Error::of("the system gives no random bytes"))?;
        let mut text = String::new();
        for byte in bytes {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Token(text))
    }

    /// The token with this text, which another process has made.
    pub(super) fn of(text: String) -> Token {
        Token(text)
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Compare with `text`, in a time that does not depend on where the two texts differ.
    fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

/// The thing that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Page,
    Events,
}

/// The thing that a request asks for, or why it is refused.
pub(super) fn check(
    token: Option<&Token>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Wanted, (StatusCode, &'static str)> {
    if method != Method::GET {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "use GET: the page changes nothing"));
    }
    has_address(uri, headers)?;
    if let Some(token) = token {
        let given = uri.query().unwrap_or_default().split('&');
        let mut given = given.filter_map(|pair| pair.strip_prefix("token="));
        if !given.next_back().is_some_and(|text| token.is(text)) {
            let why = "use the whole URL that the program printed at its start: it has a token";
            return Err((StatusCode::FORBIDDEN, why));
        }
    }
    let from = headers.get("sec-fetch-site").and_then(|from| from.to_str().ok());
    match uri.path() {
        "/" => Ok(Wanted::Page),
        "/events" if matches!(from, Some("cross-site" | "same-site")) => {
            Err((StatusCode::FORBIDDEN, "the events are for the page itself"))
        }
        "/events" => Ok(Wanted::Events),
        _ => Err((StatusCode::NOT_FOUND, "there are only the page, /, and its /events")),
    }
}

/// Check that the request names this server by an address; else return why it is refused.
pub(super) fn has_address(
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), (StatusCode, &'static str)> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err((StatusCode::BAD_REQUEST, "the request needs one Host field"));
    };
    let authorities = [host.to_str().ok(), uri.authority().map(|a| a.as_str()).or(Some("[::]"))];
    if !authorities.into_iter().all(|authority| authority.is_some_and(is_address)) {
        let why = "use the address of this server, not a name";
        return Err((StatusCode::FORBIDDEN, why));
    }
    Ok(())
}

/// Is `authority` an address or localhost, perhaps with a port?
fn is_address(authority: &str) -> bool {
    let is_port = |text: &str| text.is_empty() || text.parse::<u16>().is_ok();
    if let Some(rest) = authority.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        let port = if port.is_empty() { Some("") } else { port.strip_prefix(':') };
        return address.parse::<core::net::Ipv6Addr>().is_ok() && port.is_some_and(is_port);
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let is_known = host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok();
    is_known && is_port(port)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn asked(
        token: Option<&Token>,
        method: &Method,
        uri: &str,
        fields: &[(&'static str, &str)],
    ) -> Result<Wanted, u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).expect("a value"));
        }
        let uri = uri.parse().expect("a URI");
        check(token, method, &uri, &headers).map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn hosts_are_addresses_or_localhost() {
        for host in
            ["127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "localhost:1", "LOCALHOST"]
        {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "127.0.0.1.example.org",
            "127.0.0.1:x",
            "[::1",
            "[::1]x",
            "a@1.2.3.4",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn only_a_get_of_what_there_is_by_its_address_is_answered() {
        let get = |uri: &str, fields: &[_]| asked(None, &Method::GET, uri, fields);
        let host = ("host", "127.0.0.1:8080");
        assert_eq!(get("/", &[host]), Ok(Wanted::Page));
        assert_eq!(get("/?x", &[host]), Ok(Wanted::Page));
        assert_eq!(get("/events", &[host]), Ok(Wanted::Events));
        assert_eq!(get("/events", &[host, ("sec-fetch-site", "same-origin")]), Ok(Wanted::Events));
        assert_eq!(get("/events", &[host, ("sec-fetch-site", "cross-site")]), Err(403));
        assert_eq!(get("/else", &[host]), Err(404));
        assert_eq!(get("/", &[]), Err(400));
        assert_eq!(get("/", &[host, host]), Err(400));
        assert_eq!(get("/", &[("host", "evil.example")]), Err(403));
        assert_eq!(get("http://evil.example/", &[host]), Err(403));
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS] {
            assert_eq!(asked(None, &method, "/", &[host]), Err(405), "{method}");
        }
    }

    #[test]
    fn without_the_token_nothing_is_seen() {
        let token = Token::new().expect("random bytes");
        let get = |uri: &str| asked(Some(&token), &Method::GET, uri, &[("host", "192.0.2.1")]);
        let text = token.text();
        assert_eq!(text.len(), 32);
        assert_eq!(get(&format!("/?token={text}")), Ok(Wanted::Page));
        assert_eq!(get(&format!("/events?token={text}")), Ok(Wanted::Events));
        for wrong in ["/", "/?token=", "/events?token=00", &format!("/?token={text}0")] {
            assert_eq!(get(wrong), Err(403), "{wrong}");
        }
        assert_eq!(get("/else"), Err(403), "a path without the token was answered otherwise");
        assert_ne!(text, Token::new().expect("random bytes").text());
    }
}
