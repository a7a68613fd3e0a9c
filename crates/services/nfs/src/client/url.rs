//! [`Url`]: `nfs://HOST[:PORT]/PATH`, with the options of libnfs behind it.
//!
//! Called by: programs. RFC 2224 has the form; `?nfsport=N&mountport=N` are libnfs's.

/// The location of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// A name or an address.
    pub host: String,
    /// The port of NFS; `None`: the port mapper is asked.
    pub nfs_port: Option<u16>,
    /// The port of MOUNT.
    pub mount_port: Option<u16>,
    /// From the root of the server on, beginning with `/`.
    pub path: Vec<u8>,
}

/// Why a text is no URL of files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Not `nfs://`.
    #[error("a URL begins with nfs://, as nfs://192.0.2.1/export/file")]
    Scheme,
    /// No host.
    #[error("there is no host behind nfs://: give one, as nfs://192.0.2.1/export/file")]
    Host,
    /// No number.
    #[error("'{0}' is no port: give a number from 1 to 65535")]
    Port(String),
    /// An unknown option.
    #[error("'{0}' is not known: after the ? there may be nfsport=N and mountport=N, joined by &")]
    Word(String),
    /// A % without two digits behind it.
    #[error("after a % there have to be two hexadecimal digits; %25 is the % itself")]
    Percent,
}

impl core::str::FromStr for Url {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Url, BadUrl> {
        let rest = text.strip_prefix("nfs://").ok_or(BadUrl::Scheme)?;
        let (rest, words) = rest.split_once('?').unwrap_or((rest, ""));
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']').ok_or(BadUrl::Host)?;
                (host, behind.strip_prefix(':').filter(|port| !port.is_empty()))
            }
            None => match authority.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err(BadUrl::Host);
        }
        // One port is for both.
        let both = port.map(number).transpose()?;
        let mut url = Url {
            host: host.to_owned(),
            nfs_port: both,
            mount_port: both,
            path: decoded(if path.is_empty() { "/" } else { path })?,
        };
        for word in words.split('&').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("nfsport", port)) => url.nfs_port = Some(number(port)?),
                Some(("mountport", port)) => url.mount_port = Some(number(port)?),
                _ => return Err(BadUrl::Word(word.to_owned())),
            }
        }
        Ok(url)
    }
}

fn number(text: &str) -> Result<u16, BadUrl> {
    text.parse().ok().filter(|&port| port > 0).ok_or_else(|| BadUrl::Port(text.to_owned()))
}

/// With each `%41` as the byte that it stands for (RFC 3986 section 2.1).
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
