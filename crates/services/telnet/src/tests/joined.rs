//! A client and a server, joined: they come to an agreement, and then send nothing more.

use proptest::prelude::*;

use crate::code::{
    DM, DO, DONT, EOF, IAC, IP, LINEMODE, LM_MODE, LM_SLC, SB, SE, TIMING_MARK, WILL, WONT,
};
use crate::{Client, Event, Mode, Server, Settings, slc};

pub(super) fn settings() -> Settings {
    Settings {
        terminal: "xterm".to_owned(),
        window: (80, 24),
        speed: "38400,38400".to_owned(),
        environment: vec![("USER".to_owned(), "ann".to_owned())],
        asks: true,
        linemode: true,
    }
}

/// Take all bytes that wait.
pub(super) fn drain(out: &mut crate::Out) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !out.is_empty() {
        let next = out.next().0.to_vec();
        out.sent(next.len());
        bytes.extend(next);
    }
    bytes
}

/// Carry all bytes between the ends until none is left. Returns the number of rounds.
pub(super) fn settle(client: &mut Client, server: &mut Server) -> usize {
    for round in 0..3 * usize::from(crate::limits::CHANGES) {
        let (up, down) = (drain(client.out()), drain(server.out()));
        if up.is_empty() && down.is_empty() {
            return round;
        }
        client.receive(&down);
        server.receive(&up);
    }
    panic!("the ends did not stop sending");
}

pub(super) const COOKED: Mode =
    Mode { edit: true, trapsig: true, soft_tab: false, lit_echo: false };

pub(super) fn joined() -> (Client, Server) {
    let (mut client, mut server) = (Client::new(settings()), Server::new());
    server.set_mode(COOKED, true);
    settle(&mut client, &mut server);
    (client, server)
}

pub(super) fn data(server: &mut Server) -> Vec<u8> {
    let events = server.take_events().into_iter();
    events.filter_map(|e| if let Event::Data(d) = e { Some(d) } else { None }).flatten().collect()
}

#[test]
fn they_agree_on_everything_within_few_rounds() {
    let (mut client, mut server) = (Client::new(settings()), Server::new());
    assert!(drain(&mut Server::new().engine_out()).starts_with(&[IAC, DO, LINEMODE]));
    server.set_mode(COOKED, true);
    assert!(settle(&mut client, &mut server) <= 4);
    assert!(server.is_settled() && client.edits());
    assert_eq!(server.client_mode(), Some(COOKED));
    let events = server.take_events();
    assert!(events.contains(&Event::Terminal("xterm".to_owned())), "{events:?}");
    assert!(events.contains(&Event::Window(80, 24)), "{events:?}");
    let user = vec![("USER".to_owned(), "ann".to_owned())];
    assert!(events.contains(&Event::Environment(user)), "{events:?}");
}

// RFC 1184 2.2-b: With EDIT lines are edited and shown by the client and sent whole.
#[test]
fn a_line_is_edited_here_and_sent_whole() {
    let (mut client, mut server) = joined();
    server.take_events();
    client.keys(b"lx\x7fs dir\x17\xc3\xa9\x7f-l");
    assert!(client.out().is_empty(), "nothing before the line ends");
    assert_eq!(
        client.take_display(),
        b"lx\x08 \x08s dir\x08\x08\x08   \x08\x08\x08\xc3\xa9\x08 \x08-l"
    );
    client.keys(b"\r");
    assert_eq!(client.out().next().0, b"ls -l\r\n");
    settle(&mut client, &mut server);
    assert_eq!(data(&mut server), b"ls -l\r");
}

#[test]
fn a_program_that_takes_characters_gets_what_was_typed_of_a_line() {
    let (mut client, mut server) = joined();
    server.take_events();
    client.keys(b"ab");
    server.set_mode(Mode { edit: false, ..COOKED }, false);
    settle(&mut client, &mut server);
    client.take_display();
    client.keys(b"c\r");
    assert_eq!(client.take_display(), b"", "the client showed what the program shows");
    settle(&mut client, &mut server);
    assert_eq!(data(&mut server), b"abc\r");
}

#[test]
fn a_password_is_not_shown() {
    let (mut client, mut server) = joined();
    server.set_mode(COOKED, false);
    settle(&mut client, &mut server);
    client.take_display();
    client.keys(b"secret\r");
    assert_eq!(client.take_display(), b"");
    server.set_mode(COOKED, true);
    settle(&mut client, &mut server);
    client.keys(b"x");
    assert_eq!(client.take_display(), b"x");
}

// RFC 854 9-a, 9-b, RFC 1184 2.4-c: From an urgent notification up to the data mark data is dropped
// and commands are carried out. A Synch is a data mark as the last urgent byte. A function with
// FLUSHIN is followed by a Synch, one with FLUSHOUT by a timing mark, up to whose answer output is
// dropped.
#[test]
fn an_interrupt_goes_with_a_synch_and_drops_output_up_to_the_timing_mark() {
    let (mut client, mut server) = joined();
    server.take_events();
    client.keys(b"half\x03");
    client.take_display();
    let (bytes, is_urgent) = client.out().next();
    assert_eq!((bytes, is_urgent), (&[IAC, IP, IAC, DO, TIMING_MARK, IAC, DM][..], true));
    let sent = bytes.to_vec();
    client.out().sent(sent.len());
    server.write(b"old output");
    server.urgent();
    server.receive(b"stale");
    server.receive(&sent);
    settle(&mut client, &mut server);
    server.write(b"new");
    settle(&mut client, &mut server);
    assert_eq!(client.take_display(), b"new");
    assert_eq!(server.take_events(), [Event::Command(IP)]);
    assert_eq!((server.counts().flushed, client.counts().flushed), (5, 10));
}

#[test]
fn a_synch_without_its_data_mark_ends_at_the_limit() {
    let (mut client, mut server) = joined();
    server.take_events();
    client.urgent();
    server.urgent();
    for _ in 0..16 {
        client.receive(&[b'x'; 64 << 10]);
        server.receive(&[b'x'; 64 << 10]);
    }
    assert_eq!(client.counts().flushed, 1 << 20);
    client.receive(b"seen");
    server.receive(b"read");
    assert_eq!((client.take_display(), data(&mut server)), (b"seen".to_vec(), b"read".to_vec()));
}

// RFC 1184 2.5-a: The end of a file, and the signals of suspending and aborting, are commands.
#[test]
fn the_end_of_a_file_is_a_command_on_an_empty_line_and_else_sends_the_line() {
    let (mut client, mut server) = joined();
    server.take_events();
    client.keys(b"ab\x04\x04");
    assert_eq!(client.out().next().0, [b'a', b'b', IAC, EOF]);
    // Ctrl-V makes the next key a plain character.
    settle(&mut client, &mut server);
    client.keys(b"\x16\x04\r");
    assert_eq!(client.out().next().0, b"\x04\r\n");
}

#[test]
fn output_stops_and_resumes_here() {
    let (mut client, mut server) = joined();
    client.keys(b"\x13");
    server.write(b"text");
    settle(&mut client, &mut server);
    assert_eq!(client.take_display(), b"");
    client.keys(b"\x11");
    assert_eq!(client.take_display(), b"text");
}

#[test]
fn a_terminal_that_changes_often_has_one_mode_on_its_way() {
    let (mut client, mut server) = joined();
    for turn in 0..1000 {
        server.set_mode(Mode { edit: turn % 2 == 1, ..COOKED }, true);
        server.write(b"x");
    }
    let sent = drain(server.out());
    assert_eq!(sent.iter().filter(|&&b| b == SB).count(), 1, "{sent:?}");
    client.receive(&sent);
    settle(&mut client, &mut server);
    assert!(client.edits());
    assert_eq!(client.take_display(), vec![b'x'; 1000]);
}

#[test]
fn a_client_in_the_mode_already_need_not_acknowledge_it() {
    let mut server = Server::new();
    server.set_mode(COOKED, true);
    server.receive(&[IAC, WILL, LINEMODE]);
    // BSD's client sends its mode by itself, and does not answer the same mode from the server.
    server.receive(&[IAC, SB, LINEMODE, LM_MODE, 3, IAC, SE]);
    drain(server.out());
    server.set_mode(Mode { edit: false, ..COOKED }, true);
    let sent = drain(server.out());
    assert!(sent.ends_with(&[IAC, SB, LINEMODE, LM_MODE, 2, IAC, SE]), "{sent:?}");
}

#[test]
fn a_flood_of_special_characters_is_answered_at_most_once_each() {
    let (_, mut server) = joined();
    let triplets: Vec<u8> =
        (0..600).flat_map(|i| [(i % 40) as u8, slc::VALUE, i as u8 % 200]).collect();
    server.receive(&[&[IAC, SB, LINEMODE, LM_SLC], &triplets[..], &[IAC, SE]].concat());
    assert!(server.out().len() <= triplets.len() + 6);
    // Defaults are sent once, even if they are asked for several times.
    let asks = [0, slc::DEFAULT, 0].repeat(600);
    drain(server.out());
    server.receive(&[&[IAC, SB, LINEMODE, LM_SLC], &asks[..], &[IAC, SE]].concat());
    assert!(server.out().len() < 200);
}

fn verb() -> impl Strategy<Value = u8> {
    prop_oneof![Just(WILL), Just(WONT), Just(DO), Just(DONT)]
}

fn triplets() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((0..34u8, any::<u8>(), any::<u8>()), 0..12)
        .prop_map(|all| all.into_iter().flat_map(|(a, b, c)| [a, b, c]).collect())
}

/// A strategy for bytes that a third party puts into the stream.
fn injected() -> impl Strategy<Value = Vec<u8>> {
    let escaped = |option: u8, bytes: Vec<u8>| {
        let body = bytes.into_iter().flat_map(|b| if b == IAC { vec![IAC, IAC] } else { vec![b] });
        [IAC, SB, option].into_iter().chain(body).chain([IAC, SE]).collect::<Vec<u8>>()
    };
    prop_oneof![
        (verb(), any::<u8>()).prop_map(|(verb, option)| vec![IAC, verb, option]),
        (verb(), 0..40u8).prop_map(|(verb, option)| vec![IAC, verb, option]),
        any::<u8>().prop_map(move |mask| escaped(LINEMODE, vec![LM_MODE, mask])),
        triplets().prop_map(move |t| escaped(LINEMODE, [vec![LM_SLC], t].concat())),
        (0..40u8, prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(move |(option, bytes)| escaped(option, bytes)),
        prop::collection::vec(any::<u8>(), 0..30),
    ]
}

proptest! {
    #[test]
    fn joined_ends_always_stop(
        to_client in prop::collection::vec(injected(), 0..8),
        to_server in prop::collection::vec(injected(), 0..8),
        mask in any::<u8>(),
    ) {
        let (mut client, mut server) = joined();
        to_client.iter().for_each(|bytes| client.receive(bytes));
        to_server.iter().for_each(|bytes| server.receive(bytes));
        server.set_mode(Mode::from_mask(mask), mask & 32 != 0);
        settle(&mut client, &mut server);
    }

    #[test]
    fn answers_are_in_proportion_to_what_came(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        let (mut client, mut server) = joined();
        client.receive(&bytes);
        server.receive(&bytes);
        prop_assert!(client.out().len() <= 64 * bytes.len() + 64);
        prop_assert!(server.out().len() <= 64 * bytes.len() + 64);
    }

    #[test]
    fn data_arrives_as_it_was_typed_and_written(
        typed in prop::collection::vec(any::<u8>(), 0..200),
        written in prop::collection::vec(any::<u8>(), 0..200),
        cut in 1..20usize,
    ) {
        let (mut client, mut server) = joined();
        server.set_mode(Mode::default(), false);
        settle(&mut client, &mut server);
        server.take_events();
        // Without EDIT and TRAPSIG only XON and XOFF are handled by the client.
        let typed: Vec<u8> = typed.into_iter().filter(|b| ![17, 19].contains(b)).collect();
        client.keys(&typed);
        for part in written.chunks(cut) {
            server.write(part);
        }
        for part in drain(server.out()).chunks(cut) {
            client.receive(part);
        }
        for part in drain(client.out()).chunks(cut) {
            server.receive(part);
        }
        prop_assert_eq!(data(&mut server), typed);
        prop_assert_eq!(client.take_display(), written);
    }
}

impl Server {
    /// The first bytes that a server sends.
    fn engine_out(mut self) -> crate::Out {
        core::mem::take(self.out())
    }
}
