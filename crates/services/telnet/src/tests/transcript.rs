//! Negotiations, shown as lines of text.

use proptest::prelude::*;

use super::joined::{COOKED, drain, settings};
use crate::code::{DM, IAC, LINEMODE, SB, SE};
use crate::{Client, Direction, Server, Transcript};

#[test]
fn a_conversation_is_told_in_words_and_bytes() {
    let (mut client, mut server) = (Client::new(settings()), Server::new());
    server.set_mode(COOKED, true);
    let (mut transcript, mut told) = (Transcript::default(), Vec::new());
    for _ in 0..4 {
        let (up, down) = (drain(client.out()), drain(server.out()));
        told.extend(transcript.lines(Direction::Sent, &up));
        told.extend(transcript.lines(Direction::Received, &down));
        client.receive(&down);
        server.receive(&up);
    }
    client.keys(b"secret\r");
    told.extend(transcript.lines(Direction::Sent, &drain(client.out())));
    let has = |part: &str| assert!(told.iter().any(|line| line.contains(part)), "{told:#?}");
    has("received DO LINEMODE [ff fd 22]");
    has("sent WILL LINEMODE [ff fb 22]");
    has("received SB LINEMODE MODE EDIT|TRAPSIG [ff fa 22 01 03 ff f0]");
    has("sent SB LINEMODE MODE EDIT|TRAPSIG|ACK [ff fa 22 01 07 ff f0]");
    has("IP VALUE|FLUSHIN|FLUSHOUT ^C, ");
    has("MCL VALUE ^B, ");
    has("received SB TTYPE SEND");
    has("sent SB TTYPE IS xterm");
    has("sent SB NAWS 80 columns, 24 rows [ff fa 1f 00 50 00 18 ff f0]");
    has("sent SB NEW-ENVIRON IS USER=ann");
    has("sent data, 8 bytes");
    assert!(!told.iter().any(|line| line.contains("secret")));
}

#[test]
fn what_is_strange_is_told_too() {
    let mut transcript = Transcript::default();
    let bytes = [
        &[b'a', IAC, IAC, IAC, DM, IAC, 251, 200, b'b'][..],
        &[IAC, SB, LINEMODE, 253, 2, 0x04, IAC, SE, IAC, SB, 77, 1, 2, IAC, SE],
        &[IAC, SB, IAC, SE],
    ]
    .concat();
    let expected = [
        "received data, 2 bytes",
        "received DM (the mark of a Synch) [ff f2]",
        "received WILL option 200 [ff fb c8]",
        "received data, 1 bytes",
        "received SB LINEMODE DO FORWARDMASK ^E [ff fa 22 fd 02 04 ff f0]",
        "received SB option 77 2 bytes that nobody here understands [ff fa 4d 01 02 ff f0]",
        "received a sub-negotiation that is cut off, too long, or of no option",
    ];
    assert_eq!(transcript.lines(Direction::Received, &bytes), expected);
}

proptest! {
    #[test]
    fn any_bytes_are_lines_that_a_terminal_can_show(
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        option in 0..40_u8,
    ) {
        let body = bytes.iter().flat_map(|&b| if b == IAC { vec![IAC, IAC] } else { vec![b] });
        let sub: Vec<u8> = [IAC, SB, option].into_iter().chain(body).chain([IAC, SE]).collect();
        let mut transcript = Transcript::default();
        for line in transcript.lines(Direction::Sent, &[sub, bytes.clone()].concat()) {
            prop_assert!(!line.contains(char::is_control), "{line:?}");
            prop_assert!(line.len() < 40 * bytes.len() + 200, "{line:?}");
        }
    }
}
