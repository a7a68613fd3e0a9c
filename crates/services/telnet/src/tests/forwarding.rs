//! FORWARDMASK, special characters with their levels and flush flags: with ends that support less
//! than ours, and between two of our ends.

use super::joined::{COOKED, data, drain, joined, settle};
use crate::code::{DO, DONT, IAC, IP, LINEMODE, LM_FORWARDMASK, LM_SLC, SB, SE, WILL, WONT};
use crate::slc::{self, Entry, Table};
use crate::{Client, Mode, Server};

fn linemode(contents: &[u8]) -> Vec<u8> {
    [&[IAC, SB, LINEMODE], contents, &[IAC, SE]].concat()
}

/// A server in LINEMODE whose client does not have the functions FORW1 and FORW2.
fn without_forw() -> Server {
    let mut server = Server::new();
    server.set_mode(COOKED, true);
    server.receive(&[IAC, WILL, LINEMODE]);
    for function in [slc::FORW1, slc::FORW2] {
        server.receive(&linemode(&[LM_SLC, function, slc::NOSUPPORT, 0]));
    }
    drain(server.out());
    server
}

// RFC 1184 2.3-a: Characters of a FORWARDMASK send what is typed.
#[test]
fn a_forward_mask_sends_what_was_typed() {
    let (mut client, mut server) = joined();
    client.receive(&linemode(&[DO, LM_FORWARDMASK, 0, 0x40]));
    assert_eq!(drain(client.out()), linemode(&[WILL, LM_FORWARDMASK]));
    client.keys(b"ab");
    assert!(client.out().is_empty());
    client.keys(b"\t");
    assert_eq!(drain(client.out()), b"ab\t");
    // A character that is taken literally counts neither for the mask nor for the terminal's
    // functions.
    client.keys(b"a\x16\t");
    assert!(client.out().is_empty());
    client.receive(&linemode(&[DONT, LM_FORWARDMASK]));
    assert_eq!(drain(client.out()), linemode(&[WONT, LM_FORWARDMASK]));
    client.keys(b"\t\r");
    assert_eq!(drain(client.out()), b"a\t\t\r\n");
    settle(&mut client, &mut server);
}

#[test]
fn characters_of_eight_bits_are_forwarded_with_binary_alone() {
    let (mut client, _) = joined();
    client.receive(&linemode(&[&[DO, LM_FORWARDMASK][..], &[0; 16], &[0x80]].concat()));
    drain(client.out());
    client.keys(b"a\x80");
    assert!(client.out().is_empty());
    client.receive(&[IAC, DO, crate::code::BINARY]);
    drain(client.out());
    client.keys(b"\x80");
    assert_eq!(drain(client.out()), b"a\x80\x80");
    // The server sends a mask with more bits than there are characters.
    client.receive(&linemode(&[&[DO, LM_FORWARDMASK][..], &[1; 33]].concat()));
    assert!(client.out().is_empty());
    assert_eq!(client.counts().dropped, 1);
}

// RFC 1184 2.3-b: A server says by DO FORWARDMASK which characters send what is typed, and DONT
// ends that; one that is refused is not repeated.
#[test]
fn a_client_without_the_functions_is_asked_to_forward() {
    let mut server = without_forw();
    server.set_character(slc::FORW1, Some(b';'));
    server.set_forwarding(b";");
    drain(server.out());
    server.receive(&linemode(&[LM_SLC, slc::FORW1, slc::NOSUPPORT, 0]));
    let mask = [0, 0, 0, 0, 0, 0, 0, 0x10];
    let asked = linemode(&[&[DO, LM_FORWARDMASK][..], &mask].concat());
    assert!(drain(server.out()).ends_with(&asked));
    // Only one mask is in flight at a time, however often the characters change.
    for c in 0..100 {
        server.set_forwarding(&[c]);
    }
    server.set_forwarding(&[]);
    assert!(server.out().is_empty());
    server.receive(&linemode(&[WILL, LM_FORWARDMASK]));
    assert_eq!(drain(server.out()), linemode(&[DONT, LM_FORWARDMASK]));
    server.receive(&linemode(&[WONT, LM_FORWARDMASK]));
    server.set_forwarding(b"a");
    assert!(!drain(server.out()).is_empty(), "that was the answer to DONT");
    // A client that refuses the mask is not asked again.
    server.receive(&linemode(&[WONT, LM_FORWARDMASK]));
    server.set_forwarding(b"b");
    assert!(server.out().is_empty());
}

#[test]
fn two_characters_need_no_mask() {
    let (mut client, mut server) = joined();
    server.take_events();
    server.set_character(slc::FORW1, Some(b';'));
    server.set_forwarding(b";");
    let sent = drain(server.out());
    assert_eq!(sent, linemode(&[LM_SLC, slc::FORW1, slc::VALUE, b';']));
    client.receive(&sent);
    settle(&mut client, &mut server);
    client.keys(b"ab;");
    settle(&mut client, &mut server);
    assert_eq!(data(&mut server), b"ab;");
    // A third character does need a mask.
    server.set_forwarding(b";:");
    settle(&mut client, &mut server);
    server.take_events();
    client.keys(b"cd:");
    settle(&mut client, &mut server);
    assert_eq!(data(&mut server), b"cd:");
}

// RFC 1184 2.4-c: A function with FLUSHIN is followed by a Synch, one with FLUSHOUT by a timing
// mark, up to whose answer output is dropped.
#[test]
fn a_terminal_that_does_not_flush_has_the_client_not_flush() {
    let (mut client, mut server) = joined();
    for (on, flags) in [(false, 0), (true, slc::FLUSH)] {
        server.set_flush(on);
        settle(&mut client, &mut server);
        assert_eq!(client.table().entry(slc::IP), Entry::new(slc::VALUE | flags, 3));
        client.keys(b"\x03");
        let sent = drain(client.out());
        assert_eq!(sent == [IAC, IP], !on, "{sent:?}");
        server.receive(&sent);
        settle(&mut client, &mut server);
    }
}

#[test]
fn the_user_has_the_choice_of_what_a_terminal_has_not() {
    let (mut client, mut server) = joined();
    let agreed = |client: &Client, server: &Server, function| {
        assert_eq!(client.table().entry(function), server.table().entry(function), "{function}");
        client.table().value(function)
    };
    assert_eq!(agreed(&client, &server, slc::MCBOL), Some(1));
    for function in [slc::SYNCH, slc::AYT, slc::ECR, slc::MCWL, slc::INSRT] {
        assert_eq!(agreed(&client, &server, function), None);
        client.set_character(function, Some(0x14));
        settle(&mut client, &mut server);
        assert_eq!(agreed(&client, &server, function), Some(0x14));
        client.set_character(function, None);
        settle(&mut client, &mut server);
        assert_eq!(agreed(&client, &server, function), None);
    }
    // A Synch is such a function.
    client.set_character(slc::SYNCH, Some(0x14));
    settle(&mut client, &mut server);
    client.keys(b"\x14");
    let (bytes, is_urgent) = client.out().next();
    assert_eq!((bytes, is_urgent), (&[IAC, crate::code::DM][..], true));
    // A server that is asked for its defaults leaves the choice to the client.
    drain(client.out());
    server.receive(&linemode(&[LM_SLC, 0, slc::DEFAULT, 0]));
    settle(&mut client, &mut server);
    assert_eq!(agreed(&client, &server, slc::MCBOL), Some(1));
}

#[test]
fn two_ends_that_leave_a_function_to_each_other_have_it_not() {
    let (mut left, mut right) = (Table::server(), Table::server());
    let answer = right.receive(&left.all());
    assert!(left.receive(&answer).is_empty());
    let mut right = Table::client();
    right.set(slc::MCL, Entry::new(slc::DEFAULT, slc::NONE));
    let answer = right.receive(&[slc::MCL, slc::DEFAULT, 0]);
    assert_eq!(answer, [slc::MCL, slc::NOSUPPORT, slc::NONE]);
    assert_eq!(left.receive(&answer), [slc::MCL, slc::NOSUPPORT | slc::ACK, slc::NONE]);
    assert!(!left.has(slc::MCL) && !right.has(slc::MCL));
}

#[test]
fn iac_everywhere_is_read_as_the_rfc_has_it() {
    let (mut client, mut server) = joined();
    server.set_mode(Mode::default(), false);
    settle(&mut client, &mut server);
    server.take_events();
    let before = (client.counts(), server.counts());
    // Pairs of IAC are data. An odd one begins a command, and 255 is data, not a command.
    for bytes in [[IAC; 1000].as_slice(), &[IAC; 1001], &[crate::code::NOP]] {
        client.receive(bytes);
        server.receive(bytes);
    }
    assert_eq!(client.take_display(), [IAC; 1000]);
    assert_eq!(data(&mut server), [IAC; 1000]);
    // In negotiations there is an option 255, and one in each sub-negotiation.
    for verb in [WILL, WONT, DO, DONT] {
        client.receive(&[IAC, verb, IAC]);
        server.receive(&[IAC, verb, IAC]);
    }
    let sub = [IAC, SB, IAC, IAC, IAC, IAC, IAC, SE];
    client.receive(&sub);
    server.receive(&sub);
    assert_eq!(client.counts().dropped, before.0.dropped + 1);
    assert_eq!(server.counts().dropped, before.1.dropped + 1);
    let refusals = [IAC, DONT, IAC, IAC, WONT, IAC];
    assert_eq!((drain(client.out()), drain(server.out())), (refusals.to_vec(), refusals.to_vec()));
    settle(&mut client, &mut server);
}
