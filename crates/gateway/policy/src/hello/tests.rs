//! Hellos made by hand, cut in every way.

use super::*;

fn extension(kind: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
}

fn named(name: &str) -> Vec<u8> {
    let length = name.len() as u16;
    let list = [&[HOST_NAME][..], &length.to_be_bytes(), name.as_bytes()].concat();
    extension(SERVER_NAME, &[&(list.len() as u16).to_be_bytes()[..], &list].concat())
}

/// The message of a hello with these extensions.
fn message_of(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(32);
    body.extend([9; 32]);
    // A suite of GREASE, and one that means something.
    body.extend([0, 4, 0x1a, 0x1a, 0x13, 0x01, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let length = (body.len() as u32).to_be_bytes();
    [&[CLIENT_HELLO][..], &length[1..], &body].concat()
}

/// A hello with this server name, in a record.
pub(crate) fn hello(name: &str) -> Vec<u8> {
    records(&message_of(&named(name)), 16_384)
}

/// The message in records of up to `most` bytes.
fn records(message: &[u8], most: usize) -> Vec<u8> {
    let record =
        |part: &[u8]| [&[HANDSHAKE, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
    message.chunks(most).flat_map(record).collect()
}

fn usual() -> Vec<u8> {
    let grease = extension(0x2a2a, &[0]);
    // The outer part of an encrypted hello.
    let ech = extension(0xfe0d, &[0; 200]);
    [grease, ech, named("Cloud.Example"), extension(16, b"\0\x03\x02h2")].concat()
}

fn hello_of(name: &str) -> Seen {
    Seen::Hello(Some(DomainName::parse(name).expect("a name")))
}

#[test]
fn a_hello_is_read_in_any_records_and_any_pieces() {
    let message = message_of(&usual());
    for most in [1, 2, 3, 4, 5, 50, message.len() - 1, message.len(), 16_384] {
        let bytes = records(&message, most);
        assert_eq!(read(&bytes), hello_of("cloud.example"), "in records of {most}");
        for end in 0..bytes.len() {
            let seen = read(&bytes[..end]);
            assert_eq!(seen, Seen::Incomplete, "{end} of {} in records of {most}", bytes.len());
        }
        // What follows does not matter.
        assert_eq!(read(&[&bytes[..], b"\x17\x03\x03"].concat()), hello_of("cloud.example"));
    }
}

#[test]
fn other_protocols_are_no_tls() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"SSH-2.0-x",
        b"\x80\x2e\x01\x03\x01",
        b"\x16\x02\x00",
        b"\x16\x03\x09",
        b"\x17\x03\x03\0\x01",
    ] {
        assert_eq!(read(bytes), Seen::Other, "{bytes:?}");
    }
    assert_eq!(read(b""), Seen::Incomplete);
    assert_eq!(read(b"\x16\x03"), Seen::Incomplete);
}

#[test]
fn what_has_no_name_or_two_or_a_wrong_one_is_told_apart() {
    let seen = |extensions: &[u8]| read(&records(&message_of(extensions), 16_384));
    assert_eq!(seen(&[]), Seen::Hello(None));
    assert_eq!(seen(&extension(16, b"x")), Seen::Hello(None));
    assert_eq!(seen(&[named("a.test"), named("b.test")].concat()), Seen::Malformed);
    for name in ["", "a b", "10.0.0.1", "-x", "a..b", "a\0.test"] {
        assert_eq!(seen(&named(name)), Seen::Malformed, "{name:?}");
    }
    assert_eq!(seen(&extension(SERVER_NAME, &[])), Seen::Malformed);
    assert_eq!(seen(&extension(16, b"x")[..4]), Seen::Malformed);
    // TLS 1.2 without extensions at all.
    let mut message = message_of(&[]);
    message.truncate(message.len() - 2);
    message[3] -= 2;
    assert_eq!(read(&records(&message, 100)), Seen::Hello(None));
}

#[test]
fn no_more_than_16_kilobytes_are_waited_for() {
    let long = message_of(&[extension(21, &vec![0; 16_000]), named("a.test")].concat());
    let bytes = records(&long, 16_384);
    assert_eq!(read(&bytes), hello_of("a.test"));
    let longer = message_of(&extension(21, &vec![0; 17_000]));
    let bytes = records(&longer, 16_000);
    assert_eq!(read(&bytes[..20]), Seen::Malformed, "its header says how long it is");
    let many = records(&long, 1);
    assert_eq!(read(&many[..BYTES_MAX - 1]), Seen::Incomplete);
    assert_eq!(read(&many[..BYTES_MAX]), Seen::Malformed);
    for bytes in
        [&b"\x16\x03\x01\0\0\0"[..], b"\x16\x03\x01\xff\xff\x01", b"\x16\x03\x01\0\x04\x02\0\0\0"]
    {
        assert_eq!(read(bytes), Seen::Malformed, "{bytes:?}");
    }
}

#[test]
fn a_handshake_without_records_is_read_in_any_pieces() {
    let message = message_of(&usual());
    for end in 0..message.len() {
        assert_eq!(read_message(&message[..end]), Seen::Incomplete, "{end}");
    }
    assert_eq!(read_message(&[&message[..], b"\x0b"].concat()), hello_of("cloud.example"));
    assert_eq!(read_message(&message_of(&[])), Seen::Hello(None));
    for wrong in [&b"\x02"[..], b"\x01\x01\0\0", b"\x01\0\0\x01\x03"] {
        assert_eq!(read_message(wrong), Seen::Malformed, "{wrong:?}");
    }
}
