//! What a user or a program asks of its own end: modes, flow control, input from files.

use super::joined::{COOKED, data, drain, joined, settings, settle};
use crate::code::{DONT, ECHO, EOF, IAC, LFLOW, LINEMODE, SB, SE, SGA};
use crate::{Client, Event, Mode, Server};

#[test]
fn a_user_may_want_characters_and_lines_again() {
    let (mut client, mut server) = joined();
    client.want_lines(false);
    settle(&mut client, &mut server);
    assert!(!client.edits() && !server.is_linemode());
    client.keys(b"a");
    assert_eq!(client.out().next().0, b"a");
    assert!(
        client.take_display().is_empty(),
        "the client showed a character that the server shows"
    );
    client.want_lines(true);
    settle(&mut client, &mut server);
    assert!(client.edits() && server.is_linemode());
}

#[test]
fn without_linemode_lines_are_the_old_ones() {
    let mut client = Client::new(settings());
    drain(client.out());
    client.receive(&[IAC, DONT, LINEMODE]);
    client.receive(&[IAC, crate::code::WILL, SGA, IAC, crate::code::WILL, ECHO]);
    assert!(!client.edits());
    drain(client.out());
    client.want_lines(true);
    assert_eq!(drain(client.out()), [IAC, DONT, SGA, IAC, DONT, ECHO]);
    client.receive(&[IAC, crate::code::WONT, SGA, IAC, crate::code::WONT, ECHO]);
    assert!(client.edits());
}

#[test]
fn a_server_ends_linemode_and_asks_for_it_again() {
    let (mut client, mut server) = joined();
    server.take_events();
    for on in [false, true] {
        server.set_linemode(on);
        settle(&mut client, &mut server);
        assert_eq!((client.is_linemode(), client.edits()), (on, on));
        assert!(server.take_events().contains(&Event::Linemode(on)));
    }
}

#[test]
fn a_terminal_that_does_not_stop_output_gets_the_characters() {
    let (mut client, mut server) = joined();
    server.take_events();
    server.set_mode(Mode { edit: false, ..COOKED }, false);
    server.set_flow(false, false);
    let sent = drain(server.out());
    assert!(sent.windows(6).any(|w| w == [IAC, SB, LFLOW, 0, IAC, SE]), "{sent:?}");
    client.receive(&sent);
    settle(&mut client, &mut server);
    client.keys(b"\x13\x11");
    settle(&mut client, &mut server);
    assert_eq!(data(&mut server), b"\x13\x11");
    // Now any character resumes output.
    server.set_flow(true, true);
    settle(&mut client, &mut server);
    client.keys(b"\x13");
    server.write(b"seen");
    settle(&mut client, &mut server);
    assert!(client.take_display().is_empty());
    client.keys(b"x");
    assert_eq!(client.take_display(), b"seen");
}

#[test]
fn what_a_third_party_puts_in_does_not_go_round_for_ever() {
    let (mut client, mut server) = joined();
    for (verb, other) in [(DONT, crate::code::DO), (crate::code::DO, DONT)] {
        client.receive(&[IAC, verb, LINEMODE, IAC, other, LINEMODE]);
        client.receive(&[IAC, verb, SGA, IAC, other, SGA]);
    }
    settle(&mut client, &mut server);
}

#[test]
fn an_echo_that_is_refused_is_not_offered_again() {
    let mut server = Server::new();
    server.set_mode(COOKED, true);
    server.receive(&[IAC, crate::code::WONT, LINEMODE]);
    assert!(drain(server.out()).ends_with(&[IAC, crate::code::WILL, ECHO]));
    server.receive(&[IAC, DONT, ECHO]);
    server.set_mode(COOKED, false);
    assert!(server.out().is_empty());
}

#[test]
fn speeds_are_told() {
    let (mut client, mut server) = (Client::new(settings()), Server::new());
    settle(&mut client, &mut server);
    assert!(server.take_events().contains(&Event::Speed(38_400, 38_400)));
}

#[test]
fn what_nobody_types_is_not_edited() {
    let (mut client, mut server) = joined();
    server.take_events();
    client.input(b"a\x7f\x03b\ncd");
    assert_eq!(client.out().next().0, b"a\x7f\x03b\r\ncd");
    assert!(client.take_display().is_empty());
    assert!(client.end_of_input());
    assert!(drain(client.out()).ends_with(&[IAC, EOF]));
    // In character mode a line ends as with the key, and the end of the file is sent as its
    // character.
    server.set_mode(Mode { edit: false, ..COOKED }, false);
    settle(&mut client, &mut server);
    client.input(b"a\n");
    assert!(client.end_of_input());
    assert_eq!(drain(client.out()), b"a\r\0\x04");
}

#[test]
fn an_end_without_telnet_is_not_told_of_commands() {
    let mut client = Client::new(crate::Settings { asks: false, ..settings() });
    assert!(client.is_settled() && !client.has_options());
    client.input(b"QUIT\n");
    assert!(!client.end_of_input());
    assert_eq!(drain(client.out()), b"QUIT\r\n");
}

// RFC 854 8-a, 11-a, RFC 855 2-a: A user who asks whether the other end is there (AYT) gets
// something to see. A carriage return that is no new line is followed by NUL. What a
// sub-negotiation says counts only if the option is in force.
#[test]
fn small_things_are_as_the_rfcs_say() {
    let mut server = Server::new();
    drain(server.out());
    server.receive(&[IAC, crate::code::AYT]);
    assert_eq!(drain(server.out()), b"\r\n[Yes]\r\n");
    server.write(b"a\rb\r\n");
    assert_eq!(drain(server.out()), b"a\r\0b\r\n");
    // The client sends a window size without having agreed to NAWS.
    server.receive(&[IAC, SB, crate::code::NAWS, 0, 80, 0, 24, IAC, SE]);
    assert_eq!((server.take_events(), server.counts().dropped), (vec![], 1));
}

// RFC 1184 2.2-a, 2.2-c, 2.4-a: A client takes a mode that is new to it and says so with MODE_ACK;
// one that it is in already, or one with MODE_ACK, is not answered. With TRAPSIG characters of
// signals are sent as commands, without it as they are. Special characters are said by the client
// first.
#[test]
fn a_client_takes_a_mode_once_and_says_its_characters_first() {
    let mut client = Client::new(settings());
    drain(client.out());
    client.receive(&[IAC, crate::code::DO, LINEMODE]);
    assert!(drain(client.out()).starts_with(&[IAC, SB, LINEMODE, crate::code::LM_SLC, 1]));
    let mode = |mask| [IAC, SB, LINEMODE, crate::code::LM_MODE, mask, IAC, SE];
    client.receive(&mode(3));
    assert_eq!(drain(client.out()), mode(3 | Mode::ACK));
    client.receive(&mode(3));
    client.receive(&mode(1 | Mode::ACK));
    assert!(client.out().is_empty());
    client.keys(b"\x1a");
    assert!(drain(client.out()).starts_with(&[IAC, crate::code::SUSP]));
    client.receive(&mode(1));
    drain(client.out());
    client.keys(b"\x1a\r");
    assert_eq!(drain(client.out()), b"\x1a\r\n");
}
