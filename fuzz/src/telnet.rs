//! Any stream, and anything that users and programs do, to both ends of TELNET: nothing grows
//! without bound, output can be read, and joined ends stop talking.
//!
//! Called by: the target `telnet`.

use telnet::limits::{CHANGES, LINE_BYTES, SUBNEGOTIATION_BYTES, TEXT_BYTES, VARIABLES};
use telnet::{
    Client, Direction, Event, Item, Mode, Out, Parser, Server, Settings, Transcript, code, slc,
};

/// The most bytes that an end answers for a byte, and sends by itself.
const ANSWER_PER_BYTE: usize = 64;
const ANSWER_MORE: usize = 512;
/// Characters of a line of a transcript for a byte of a sub-negotiation: a function of three bytes
/// is told in some forty, and each byte is two digits.
const TEXT_PER_BYTE: usize = 32;
/// Columns that are shown for a byte of a line: a tab is eight, and the cursor goes over it thrice.
const SHOWN_PER_BYTE: usize = 32;
/// Rounds after which joined ends are silent.
const ROUNDS: usize = 4 * CHANGES as usize;

fn settings(asks: bool, linemode: bool) -> Settings {
    Settings {
        terminal: "xterm".to_owned(),
        window: (80, 24),
        speed: "38400,38400".to_owned(),
        environment: vec![("USER".to_owned(), "ann".to_owned())],
        asks,
        linemode,
    }
}

fn drain(out: &mut Out) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !out.is_empty() {
        let next = out.next().0.to_vec();
        out.sent(next.len());
        bytes.extend(next);
    }
    bytes
}

/// A parser gives the same result for the bytes in pieces and whole.
fn parse(bytes: &[u8], piece: usize) {
    let read = |chunks: &mut dyn Iterator<Item = &[u8]>| {
        let (mut parser, mut data, mut rest) = (Parser::default(), Vec::new(), Vec::new());
        for mut chunk in chunks {
            while let Some(item) = parser.next(&mut chunk) {
                match item {
                    Item::Data(more) => data.extend_from_slice(more),
                    Item::Iac => data.push(code::IAC),
                    Item::Sub(_, contents) => {
                        assert!(contents.len() < SUBNEGOTIATION_BYTES);
                        rest.push(format!("{contents:?}"));
                    }
                    other => rest.push(format!("{other:?}")),
                }
            }
        }
        (data, rest)
    };
    let whole = read(&mut core::iter::once(bytes));
    assert_eq!(whole, read(&mut bytes.chunks(piece)));
}

/// Any bytes in words: lines that a terminal can show, in proportion.
fn tell(transcript: &mut Transcript, direction: Direction, bytes: &[u8]) {
    for line in transcript.lines(direction, bytes) {
        assert!(!line.contains(char::is_control), "{line:?}");
        // Earlier bytes may be the beginning of a sub-negotiation.
        assert!(line.len() <= TEXT_PER_BYTE * (bytes.len() + SUBNEGOTIATION_BYTES));
    }
}

fn check(events: Vec<Event>, received: usize) {
    let mut data = 0;
    for event in events {
        match event {
            Event::Data(bytes) => data += bytes.len(),
            Event::Terminal(name) => assert!(name.len() <= TEXT_BYTES),
            Event::Environment(all) => {
                assert!(all.len() <= VARIABLES);
                assert!(all.iter().all(|(n, v)| n.len().max(v.len()) <= TEXT_BYTES));
            }
            _ => {}
        }
    }
    assert!(data <= received, "{data} bytes of data in {received}");
}

/// A script: an operation, then what it takes, for both ends.
///
/// # Panics
/// If something grows, or joined ends do not fall silent.
pub fn any_talk(data: &[u8]) {
    let Some((&first, script)) = data.split_first() else { return };
    parse(script, usize::from(first >> 2) + 1);
    let mut client = Client::new(settings(first & 1 != 0, first & 2 != 0));
    let mut server = Server::new();
    let mut transcript = Transcript::default();
    let mut rest = script;
    while let Some((&operation, more)) = rest.split_first() {
        let length = usize::from(operation >> 3).min(more.len());
        let (bytes, later) = more.split_at(length);
        rest = later;
        let (up, down) = (client.out().len(), server.out().len());
        let typed = client.display_bytes();
        match operation & 7 {
            0 => client.receive(bytes),
            1 => server.receive(bytes),
            2 => client.keys(bytes),
            3 => {
                let mask = bytes.first().copied().unwrap_or(0);
                server.set_mode(Mode::from_mask(mask), mask & 32 != 0);
                server.set_flow(mask & 64 != 0, mask & 128 != 0);
                server.set_flush(length % 2 == 0);
                server.set_forwarding(bytes.get(1..).unwrap_or_default());
            }
            4 => server.write(bytes),
            5 => bytes.iter().for_each(|&b| server.set_character(b % 32, (b > 64).then_some(b))),
            6 if length == 0 => client.urgent(),
            6 if length == 2 => client.set_character(bytes[0] % 32, Some(bytes[1])),
            6 => client.input(bytes),
            _ if length == 0 => server.urgent(),
            _ => client.want_lines(bytes[0] & 1 != 0),
        }
        let most = ANSWER_PER_BYTE * (length + 1) + ANSWER_MORE + LINE_BYTES * 2;
        assert!(client.out().len() <= up + most, "{}", client.out().len() - up);
        assert!(server.out().len() <= down + most, "{}", server.out().len() - down);
        assert!(client.display_bytes() <= typed + SHOWN_PER_BYTE * LINE_BYTES * (length + 1));
        let direction = if operation & 1 == 0 { Direction::Received } else { Direction::Sent };
        tell(&mut transcript, direction, bytes);
        check(server.take_events(), length);
    }
    for _ in 0..ROUNDS {
        let (up, down) = (drain(client.out()), drain(server.out()));
        if up.is_empty() && down.is_empty() {
            return;
        }
        client.receive(&down);
        server.receive(&up);
        check(server.take_events(), up.len());
    }
    panic!("they never stop");
}

/// The script of a conversation: all that two ends say when they agree on everything, keys that
/// edit a line in its middle, signals, and a terminal that is set to characters and back.
pub fn whole_talk() -> Vec<u8> {
    let mut script = vec![3];
    let mut add = |operation: u8, bytes: &[u8]| {
        for part in bytes.chunks(31) {
            script.push(((part.len() as u8) << 3) | operation);
            script.extend_from_slice(part);
        }
    };
    let (mut client, mut server) = (Client::new(settings(true, true)), Server::new());
    let cooked = Mode { edit: true, trapsig: true, ..Mode::default() };
    for (mode, keys) in [
        (cooked, &b"word\x01\x1b[C\x06x\x02\x0b\x05\x7f\x15\xc3\xa9\r"[..]),
        (Mode::default(), b"q\x03"),
        (cooked, b"half\x03\x13\x11\x16\x04;\x04"),
    ] {
        add(3, &[mode.mask() | 0xe0, b';', b':', 200]);
        server.set_mode(mode, true);
        add(5, &[slc::FORW1 + 64, slc::EL]);
        for _ in 0..4 {
            let (up, down) = (drain(client.out()), drain(server.out()));
            add(0, &down);
            add(1, &up);
            client.receive(&down);
            server.receive(&up);
        }
        add(2, keys);
        client.keys(keys);
        add(4, b"output\r\n\xff");
        server.write(b"output\r\n\xff");
    }
    script
}
