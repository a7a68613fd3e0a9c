//! Domain names in the options of DHCP messages: validated, bounded, as text.
//!
//! Called by: dhcp4 and dhcp6. Any host on the link can forge the names, and they end in files and
//! commands of this host. So labels are letters, digits, hyphens and underscores, and nothing else.
//! RFC 1035 sections 3.1 and 4.1.4, RFC 3397 (compression in option 119), RFC 8415 section 10.

/// The longest name as text, without the dot at its end (RFC 1035 section 2.3.4).
const NAME_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

/// May a name in a block point back into the block?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// RFC 3397 section 2.
    Allowed,
    /// RFC 8415 section 10.
    Forbidden,
}

/// At most `most` names of a block, in their order. Names that are no host names are left out;
/// `None` if the block contradicts itself.
pub(crate) fn read_list(
    block: &[u8],
    compression: Compression,
    most: usize,
) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut at = 0;
    while at < block.len() && names.len() < most {
        let (name, next) = read_name(block, at, compression)?;
        names.extend(name.filter(|name| !name.is_empty()));
        at = next;
    }
    Some(names)
}

/// The name at `at`, if it is a host name, and where the next one begins.
fn read_name(block: &[u8], at: usize, compression: Compression) -> Option<(Option<String>, usize)> {
    let mut name = Some(String::new());
    let mut next = None;
    let mut position = at;
    // A pointer has to lead to a place before all bytes read for this name, so that the walk ends.
    let mut earliest = at;
    loop {
        let length = usize::from(*block.get(position)?);
        match length >> 6 {
            0 if length == 0 => return Some((name, next.unwrap_or(position + 1))),
            0 => {
                let label = block.get(position + 1..position + 1 + length)?;
                name = name.and_then(|name| joined(name, label));
                position += 1 + length;
            }
            3 if compression == Compression::Allowed => {
                let low = usize::from(*block.get(position + 1)?);
                next = next.or(Some(position + 2));
                position = (length & 0x3f) << 8 | low;
                if position >= earliest {
                    return None;
                }
                earliest = position;
            }
            _ => return None,
        }
    }
}

/// The name with one more label, unless that makes it no host name.
fn joined(mut name: String, label: &[u8]) -> Option<String> {
    let dot = usize::from(!name.is_empty());
    if !is_label(label) || name.len() + dot + label.len() > NAME_BYTES {
        return None;
    }
    if dot == 1 {
        name.push('.');
    }
    name.extend(label.iter().map(|&byte| char::from(byte)));
    Some(name)
}

fn is_label(label: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LABEL_BYTES).contains(&label.len())
        && label.iter().all(is_plain)
        && label.first() != Some(&b'-')
}

/// A name written as text, which may end with a dot or with zero bytes.
pub(crate) fn from_text(text: &[u8]) -> Option<String> {
    let end = text.iter().rposition(|&byte| byte != 0)? + 1;
    let text = text[..end].strip_suffix(b".").unwrap_or(&text[..end]);
    text.split(|&byte| byte == b'.').try_fold(String::new(), joined)
}

/// A host name in wire format, with the root behind it; `None` if it is none.
pub(crate) fn to_wire(name: &str) -> Option<Vec<u8>> {
    let name = from_text(name.as_bytes())?;
    let mut wire = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        wire.push(u8::try_from(label.len()).ok()?);
        wire.extend(label.as_bytes());
    }
    wire.push(0);
    Some(wire)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(block: &[u8]) -> Option<Vec<String>> {
        read_list(block, Compression::Allowed, 8)
    }

    /// The example of RFC 3397 section 2.
    #[test]
    fn names_point_back_to_names_before_them() {
        let block = b"\x03eng\x05apple\x03com\0\x09marketing\xc0\x04";
        assert_eq!(read(block).unwrap(), ["eng.apple.com", "marketing.apple.com"]);
        assert_eq!(read_list(block, Compression::Allowed, 1).unwrap(), ["eng.apple.com"]);
        assert_eq!(read_list(block, Compression::Forbidden, 8), None);
    }

    #[test]
    fn pointers_that_do_not_lead_back_are_refused() {
        for block in [&b"\xc0\0"[..], b"\xc0\x02\xc0\0", b"\x01a\xc0\0", b"\x01a\xc0\x09", b"\xc0"]
        {
            assert_eq!(read(block), None, "{block:?}");
        }
    }

    /// Characters that a shell, a resolver's file or a terminal would read differently.
    #[test]
    fn names_that_are_no_host_names_are_left_out() {
        let block = b"\x04;rm \0\x02ok\0\x02-a\0\x02a\n\0\x03a.b\0";
        assert_eq!(read(block).unwrap(), ["ok"]);
        assert_eq!(from_text(b"example.com.\0").as_deref(), Some("example.com"));
        for text in
            [&b""[..], b"\0\0", b".", b"a..b", b"a b", b"$(reboot)", b"a\0b", "\u{fc}".as_bytes()]
        {
            assert_eq!(from_text(text), None, "{text:?}");
        }
        let long = [b'a'; 64];
        assert_eq!(from_text(&long), None);
        assert_eq!(from_text(&[&b"ab."[..]; 85].concat()), None, "254 bytes");
        assert_eq!(from_text(&[&b"ab."[..]; 84].concat()).map(|name| name.len()), Some(251));
        assert_eq!(to_wire("a.example.").as_deref(), Some(&b"\x01a\x07example\0"[..]));
        assert_eq!(to_wire("a b"), None);
    }

    proptest! {
        #[test]
        fn any_block_is_read_to_its_end(block in prop::collection::vec(any::<u8>(), 0..600)) {
            for compression in [Compression::Allowed, Compression::Forbidden] {
                let names = read_list(&block, compression, 8).unwrap_or_default();
                prop_assert!(names.len() <= 8);
                prop_assert!(names.iter().all(|n| from_text(n.as_bytes()).as_ref() == Some(n)));
            }
        }
    }
}
