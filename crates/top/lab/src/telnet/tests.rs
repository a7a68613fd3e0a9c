//! A line that the client edits takes one packet each way and an ACK; without line mode each
//! character takes as many.

use base::Duration;

use super::path::{Typing, measure};

fn typing(prints: bool, by_character: bool) -> Typing {
    Typing {
        one_way: Duration::from_millis(100),
        between: Duration::from_millis(100),
        characters: 80,
        prints,
        by_character,
    }
}

#[test]
fn line_mode_sends_a_fortieth_of_the_packets_and_echoes_at_once() {
    for prints in [false, true] {
        let characters = measure(&typing(prints, true)).expect("a measurement");
        let line = measure(&typing(prints, false)).expect("a measurement");
        assert!(characters.packets() >= 40 * line.packets(), "{}", line.packets());
        assert!(characters.bytes > 20 * line.bytes);
        let (slow, fast) = (characters.echo.expect("an echo"), line.echo.expect("an echo"));
        assert!((200.0..201.0).contains(&slow.mid), "{slow:?}");
        assert!(fast.high < 1.0, "{fast:?}");
    }
}
