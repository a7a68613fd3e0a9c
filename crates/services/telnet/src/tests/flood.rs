//! A peer that sends requests and does not read the answers. The end reports when to stop reading,
//! and its memory stays bounded.

use super::joined::{drain, settings};
use crate::code::{
    AYT, DO, DONT, IAC, LINEMODE, LM_MODE, LM_SLC, NEW_ENVIRON, SB, SE, SEND, STATUS, TIMING_MARK,
    TTYPE, WILL,
};
use crate::limits::ANSWER_BYTES;
use crate::{Client, Out, Server, slc};

/// How many bytes our tools read at a time.
const READ_BYTES: usize = 16 << 10;

/// Receive `unit` again and again while there is room. Returns the most bytes that waited.
fn flooded<E>(
    end: &mut E,
    out: fn(&mut E) -> &mut Out,
    receive: fn(&mut E, &[u8]),
    unit: &[u8],
) -> usize {
    let read = unit.repeat(READ_BYTES / unit.len());
    for _ in 0..10_000 {
        if !out(end).has_room_for_answers() {
            return out(end).len();
        }
        receive(end, &read);
    }
    out(end).len()
}

#[test]
fn a_client_that_reads_nothing_is_answered_up_to_a_limit() {
    for unit in [
        &[IAC, DO, TIMING_MARK][..],
        &[IAC, AYT],
        &[IAC, DO, 99],
        &[IAC, WILL, 99],
        &[IAC, DO, STATUS, IAC, SB, STATUS, SEND, IAC, SE],
        &[IAC, WILL, LINEMODE, IAC, SB, LINEMODE, LM_SLC, 0, slc::DEFAULT, 0, IAC, SE],
        &[IAC, WILL, LINEMODE, IAC, SB, LINEMODE, LM_MODE, 3, IAC, SE],
        &[IAC, WILL, LINEMODE, IAC, DONT, LINEMODE],
    ] {
        let mut server = Server::new();
        drain(server.out());
        let most = flooded(
            &mut server,
            Server::out,
            |server, bytes| {
                server.receive(bytes);
                server.take_events();
            },
            unit,
        );
        assert!(most < ANSWER_BYTES + 16 * READ_BYTES, "{most} bytes for {unit:?}");
        drain(server.out());
        assert!(server.out().has_room_for_answers(), "the server did not accept input again");
    }
}

#[test]
fn a_server_that_reads_nothing_is_answered_up_to_a_limit() {
    for unit in [
        &[IAC, DO, 99][..],
        &[IAC, WILL, 99],
        &[IAC, DO, TIMING_MARK],
        &[IAC, DO, TTYPE, IAC, SB, TTYPE, SEND, IAC, SE],
        &[IAC, DO, NEW_ENVIRON, IAC, SB, NEW_ENVIRON, SEND, IAC, SE],
        &[IAC, DO, LINEMODE, IAC, SB, LINEMODE, LM_SLC, 0, slc::DEFAULT, 0, IAC, SE],
        &[IAC, DO, LINEMODE, IAC, SB, LINEMODE, LM_MODE, 1, IAC, SE, IAC, DONT, LINEMODE],
    ] {
        let mut client = Client::new(settings());
        drain(client.out());
        let most = flooded(&mut client, Client::out, Client::receive, unit);
        assert!(most < ANSWER_BYTES + 64 * READ_BYTES, "{most} bytes for {unit:?}");
        drain(client.out());
        assert!(client.out().has_room_for_answers(), "the client did not accept input again");
    }
}

#[test]
fn what_a_program_writes_takes_no_room_from_answers() {
    let mut server = Server::new();
    drain(server.out());
    server.write(&vec![b'x'; 10 * ANSWER_BYTES]);
    assert!(server.out().has_room_for_answers());
    // Answers that come after output wait with the output, and count until the last of them is
    // sent.
    server.receive(&[IAC, AYT].repeat(ANSWER_BYTES / 2));
    assert!(!server.out().has_room_for_answers());
    server.out().sent(10 * ANSWER_BYTES);
    assert!(!server.out().has_room_for_answers());
    let rest = server.out().len();
    server.out().sent(rest);
    assert!(server.out().has_room_for_answers());
}
