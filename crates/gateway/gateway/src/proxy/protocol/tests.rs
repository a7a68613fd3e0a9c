use super::*;

/// Let a handshake have these bytes, whole or one by one; returns what came of them, what the
/// client gets, and what is left.
fn take(
    bytes: &[u8],
    credentials: Option<&Credentials>,
    is_whole: bool,
) -> (Result<Option<Request>, Wrong>, Vec<u8>, Vec<u8>) {
    let (mut handshake, mut input, mut output) = (Handshake::default(), Vec::new(), Vec::new());
    let parts: Vec<&[u8]> = if is_whole { vec![bytes] } else { bytes.chunks(1).collect() };
    for (number, part) in parts.iter().enumerate() {
        input.extend_from_slice(part);
        let taken = handshake.take(&mut input, &mut output, credentials);
        if taken != Ok(None) {
            input.extend(parts[number + 1..].concat());
            return (taken, output, input);
        }
    }
    (Ok(None), output, input)
}

fn connect(taken: Result<Option<Request>, Wrong>) -> (Target, Speaks) {
    match taken {
        Ok(Some(Request { wish: Wish::Connect(target), speaks, .. })) => (target, speaks),
        other => panic!("{other:?}"),
    }
}

fn named(name: &str, port: u16) -> Target {
    Target::Name(DomainName::parse(name).expect("a name"), port)
}

fn at(text: &str) -> Target {
    Target::Address(text.parse().expect("an address"))
}

#[test]
fn socks_asks_for_names_and_addresses() {
    let name = [&[3, 11][..], b"example.org", &[1, 187]].concat();
    let number = [&[3, 9][..], b"127.0.0.1", &[0, 80]].concat();
    let mapped = [&[4][..], &[0; 10], &[0xff, 0xff, 192, 0, 2, 1], &[0, 80]].concat();
    for (address, expected) in [
        (name, named("example.org", 443)),
        (vec![1, 192, 0, 2, 1, 0, 80], at("192.0.2.1:80")),
        // Whatever is written, it is an address.
        (number, at("127.0.0.1:80")),
        (mapped, at("192.0.2.1:80")),
    ] {
        for is_whole in [true, false] {
            let bytes = [&[5, 1, 0, 5, 1, 0][..], &address, b"hello"].concat();
            let (taken, output, left) = take(&bytes, None, is_whole);
            assert_eq!(connect(taken), (expected.clone(), Speaks::Socks));
            assert_eq!((&output[..], &left[..]), (&[5, 0][..], &b"hello"[..]));
        }
    }
}

#[test]
fn socks_refuses_what_it_does_not_know() {
    for (request, code) in [
        (&[5, 2, 0, 1, 1, 1, 1, 1, 0, 1][..], 7),
        (&[5, 1, 0, 2, 1, 1, 1, 1, 0, 1], 8),
        (&[5, 1, 0, 3, 2, 0xff, 0xff, 0, 1], 1),
    ] {
        let (taken, output, _) = take(&[&[5, 1, 0][..], request].concat(), None, true);
        assert_eq!(taken, Err(Wrong::Malformed));
        assert_eq!(output[2..4], [5, code], "{request:?}");
    }
    assert_eq!(take(&[4, 1, 0, 80, 1, 1, 1, 1, 0], None, true).0, Err(Wrong::Malformed));
    let long = [b"GET http://a/".as_slice(), &[b'a'; REQUEST_MAX]].concat();
    assert_eq!(take(&long, None, true).0, Err(Wrong::Malformed));
}

#[test]
fn passwords_are_needed_where_they_are_set() {
    let known = Credentials { user: "me".to_owned(), password: "secret".to_owned() };
    let request = [5, 1, 0, 1, 192, 0, 2, 1, 0, 80];
    let with = |password: &[u8]| {
        let length = [password.len() as u8];
        [&[5, 2, 0, 2, 1, 2][..], b"me", &length, password, &request].concat()
    };
    for is_whole in [true, false] {
        let (taken, output, _) = take(&with(b"secret"), Some(&known), is_whole);
        assert_eq!(connect(taken).0, at("192.0.2.1:80"));
        assert_eq!(output, [5, 2, 1, 0]);
        for wrong in [&b"secreT"[..], b"", b"secret2"] {
            let (taken, output, _) = take(&with(wrong), Some(&known), is_whole);
            assert_eq!((taken, &output[..]), (Err(Wrong::Unauthorized), &[5, 2, 1, 1][..]));
        }
        let without = [&[5, 1, 0][..], &request].concat();
        let (taken, output, _) = take(&without, Some(&known), is_whole);
        assert_eq!((taken, &output[..]), (Err(Wrong::Unauthorized), &[5, 0xff][..]));
    }
    let http = "CONNECT a.test:443 HTTP/1.1\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n";
    assert_eq!(connect(take(http.as_bytes(), Some(&known), true).0).0, named("a.test", 443));
    let http = http.replace("bWU6", "bWU7");
    let (taken, output, _) = take(http.as_bytes(), Some(&known), true);
    assert_eq!(taken, Err(Wrong::Unauthorized));
    assert!(output.starts_with(b"HTTP/1.1 407 "));
    assert!(!format!("{known:?}").contains("secret"));
}

#[test]
fn http_connects_and_fetches() {
    for is_whole in [true, false] {
        let bytes = b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: x\r\n\r\nhello";
        let (taken, output, left) = take(bytes, None, is_whole);
        assert_eq!(connect(taken), (at("[2001:db8::1]:443"), Speaks::HttpConnect));
        assert_eq!((&output[..], &left[..]), (&b""[..], &b"hello"[..]));
    }
    for (url, target, line) in [
        ("http://a.test/b?c", named("a.test", 80), "GET /b?c HTTP/1.1\r\nHost: a.test\r\n"),
        ("http://a.test:8080", named("a.test", 8080), "GET / HTTP/1.1\r\nHost: a.test:8080\r\n"),
        ("http://[::1]?d", at("[::1]:80"), "GET /?d HTTP/1.1\r\nHost: [::1]\r\n"),
    ] {
        let text = format!(
            "GET {url} HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\n\
             Accept: */*\r\n\r\n"
        );
        let (taken, _, _) = take(text.as_bytes(), None, true);
        let first = taken.as_ref().ok().and_then(|request| request.clone()).expect("one").first;
        assert_eq!(connect(taken), (target, Speaks::HttpPlain), "{url}");
        let expected = format!("{line}Accept: */*\r\nConnection: close\r\n\r\n");
        assert_eq!(String::from_utf8(first).expect("a text"), expected);
    }
    for wrong in ["GET / HTTP/1.1", "GET https://a/ HTTP/1.1", "CONNECT a HTTP/1.1", "X"] {
        let (taken, output, _) = take(format!("{wrong}\r\n\r\n").as_bytes(), None, true);
        assert_eq!(taken, Err(Wrong::Malformed), "{wrong}");
        assert!(output.starts_with(b"HTTP/1.1 400 "));
    }
}

#[test]
fn refusals_say_why() {
    let prohibited = No::Failed(Failure::Unreachable(Unreachable::Prohibited));
    for (why, code, status) in [
        (No::Rules, 2, "403"),
        (prohibited, 2, "403"),
        (No::Failed(Failure::Unreachable(Unreachable::Net)), 3, "502"),
        (No::Name, 4, "502"),
        (No::from(Failure::Refused), 5, "502"),
        (No::from(Failure::TimedOut), 6, "504"),
        (No::from(Failure::Full), 1, "503"),
    ] {
        assert_eq!(Speaks::Socks.no(why), [5, code, 0, 1, 0, 0, 0, 0, 0, 0]);
        let text = String::from_utf8(Speaks::HttpConnect.no(why)).expect("a text");
        assert_eq!(text.split(' ').nth(1), Some(status), "{why:?}");
    }
}

#[test]
fn datagrams_have_their_target_in_front() {
    let from: SocketAddr = "192.0.2.1:53".parse().expect("an address");
    let bytes = [header(from), b"payload".to_vec()].concat();
    assert_eq!(datagram(&bytes), Some((at("192.0.2.1:53"), 10)));
    // A fragment, and what is too short.
    assert_eq!(datagram(&[&[0, 0, 1], &bytes[3..]].concat()), None);
    assert_eq!(datagram(&bytes[..9]), None);
    assert_eq!(datagram(&[]), None);
}
