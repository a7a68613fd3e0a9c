//! [`Url`]: `nfs://HOST[:PORT]/PATH[?OPTIONS]`.
//!
//! Called by: programs. RFC 2224 defines the form without options. The options `nfsport=N` and
//! `mountport=N`, joined by `&`, are those of libnfs.

/// The location of a file or directory on an NFS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The server's name or address, an IPv6 address without brackets.
    pub host: String,
    /// The port of the NFS service. If `None`, the client asks the server's port mapper.
    pub nfs_port: Option<u16>,
    /// The port of the MOUNT service. If `None`, the client asks the server's port mapper.
    pub mount_port: Option<u16>,
    /// The absolute path on the server, beginning with `/`.
    pub path: Vec<u8>,
}

/// Why a text is not an NFS URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// The URL does not begin with `nfs://`.
    #[error("a URL begins with nfs://, for example nfs://192.0.2.1/export/file")]
    Scheme,
    /// The URL has no host, or the `]` after an IPv6 address is missing.
    #[error("there is no host after nfs://: give one, for example nfs://192.0.2.1/export/file")]
    Host,
    /// A port is not a number from 1 to 65535.
    #[error("'{0}' is no port: give a number from 1 to 65535")]
    Port(String),
    /// An option is not known.
    #[error("'{0}' is not known: after the ? there may be nfsport=N and mountport=N, joined by &")]
    Word(String),
    /// A `%` is not followed by two hexadecimal digits.
    #[error("after a % there have to be two hexadecimal digits; %25 is the % itself")]
    Percent,
}

impl core::str::FromStr for Url {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Url, BadUrl> {
        let rest = text.strip_prefix("nfs://").ok_or(BadUrl::Scheme)?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or(BadUrl::Host)?;
                let port = after.strip_prefix(':');
                if port.is_none() && !after.is_empty() {
                    return Err(BadUrl::Host);
                }
                (host, port.filter(|port| !port.is_empty()))
            }
            None => match authority.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err(BadUrl::Host);
        }
        // The port after the host is that of NFS and of MOUNT, unless an option gives another one.
        let port = port.map(number).transpose()?;
        let mut url = Url {
            host: host.to_owned(),
            nfs_port: port,
            mount_port: port,
            path: decoded(if path.is_empty() { "/" } else { path })?,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("nfsport", port)) => url.nfs_port = Some(number(port)?),
                Some(("mountport", port)) => url.mount_port = Some(number(port)?),
                _ => return Err(BadUrl::Word(option.to_owned())),
            }
        }
        Ok(url)
    }
}

fn number(text: &str) -> Result<u16, BadUrl> {
    text.parse().ok().filter(|&port| port > 0).ok_or_else(|| BadUrl::Port(text.to_owned()))
}

/// The bytes of `text`, with each `%` and its two hexadecimal digits replaced by the byte that they
/// stand for (RFC 3986 section 2.1).
fn decoded(text: &str) -> Result<Vec<u8>, BadUrl> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or(BadUrl::Percent)?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url: Url = "nfs://host:2050/a%20b/c".parse().expect("a URL");
        assert_eq!(
            (url.host.as_str(), url.nfs_port, url.mount_port),
            ("host", Some(2050), Some(2050))
        );
        assert_eq!(url.path, b"/a b/c");
        let url: Url = "nfs://[2001:db8::1]/?mountport=7".parse().expect("a URL");
        assert_eq!(
            (url.host.as_str(), url.nfs_port, url.mount_port),
            ("2001:db8::1", None, Some(7))
        );
        assert_eq!(url.path, b"/");
        for (text, error) in [
            ("http://a/b", BadUrl::Scheme),
            ("nfs:///b", BadUrl::Host),
            ("nfs://[2001:db8::1]2049/b", BadUrl::Host),
            ("nfs://a:x/", BadUrl::Port("x".to_owned())),
            ("nfs://a:0/", BadUrl::Port("0".to_owned())),
            ("nfs://a/?v=4", BadUrl::Word("v=4".to_owned())),
            ("nfs://a/%4", BadUrl::Percent),
            ("nfs://a/%4ä", BadUrl::Percent),
        ] {
            assert_eq!(text.parse::<Url>(), Err(error), "{text}");
        }
    }
}
