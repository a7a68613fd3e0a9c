//! The parser, the options and the special characters, each alone.

use crate::code::{DO, DONT, ECHO, IAC, NOP, SB, SE, WILL, WONT};
use crate::limits::SUBNEGOTIATION_BYTES;
use crate::slc::{self, Entry, Table};
use crate::{Item, Options, Parser, Side};

fn items(mut bytes: &[u8]) -> Vec<Item<'_>> {
    let mut parser = Parser::default();
    core::iter::from_fn(|| parser.next(&mut bytes)).collect()
}

// RFC 854 14-a, RFC 855 2-b: A data byte of value 255 is sent twice. A byte of value 255 in a
// sub-negotiation is sent twice.
#[test]
fn the_stream_is_cut_into_its_parts() {
    let bytes = [b'a', IAC, IAC, IAC, NOP, IAC, WILL, 1, IAC, SB, 24, IAC, IAC, 1, IAC, SE, b'b'];
    let expected = [
        Item::Data(b"a"),
        Item::Iac,
        Item::Command(NOP),
        Item::Negotiate(WILL, 1),
        Item::Sub(24, vec![IAC, 1]),
        Item::Data(b"b"),
    ];
    assert_eq!(items(&bytes), expected);
}

#[test]
fn a_sub_negotiation_without_an_end_keeps_no_more_than_the_limit() {
    let mut parser = Parser::default();
    let bytes = [&[IAC, SB][..], &[7; 100_000]].concat();
    let mut input = &bytes[..];
    assert_eq!(parser.next(&mut input), None);
    let mut end = &[IAC, SE, b'x'][..];
    assert_eq!(parser.next(&mut end), Some(Item::Malformed));
    assert_eq!(parser.next(&mut end), Some(Item::Data(b"x")));
    let whole = [&[IAC, SB][..], &[7; SUBNEGOTIATION_BYTES], &[IAC, SE]].concat();
    assert_eq!(items(&whole), [Item::Sub(7, vec![7; SUBNEGOTIATION_BYTES - 1])]);
    // Another command cuts the sub-negotiation off, and is understood itself.
    let cut = [IAC, SB, 24, 1, IAC, DO, ECHO, b'x'];
    assert_eq!(items(&cut), [Item::Malformed, Item::Negotiate(DO, ECHO), Item::Data(b"x")]);
}

// RFC 855 1-a, RFC 1143 7-a: An option that an end does not know, or does not want, is refused. A
// request for the state that an option is in already is not answered.
#[test]
fn only_a_change_is_answered() {
    let mut options = Options::new(&[ECHO], &[]);
    assert_eq!(options.receive(DO, ECHO).reply, Some(WILL));
    assert_eq!(options.receive(DO, ECHO).reply, None);
    assert_eq!(options.receive(DONT, ECHO).reply, Some(WONT));
    assert_eq!(options.receive(DONT, ECHO).reply, None);
    assert_eq!(options.receive(WILL, 77).reply, Some(DONT), "refused");
    assert_eq!(options.receive(WONT, 77).reply, None);
}

// RFC 1143 7-b: A change of mind while an answer is to come is kept and sent after the answer.
#[test]
fn a_change_of_mind_waits_for_the_answer() {
    let mut options = Options::new(&[ECHO], &[]);
    assert_eq!(options.request(Side::Us, ECHO, true), Some(WILL));
    assert_eq!(options.request(Side::Us, ECHO, false), None);
    assert!(options.is_pending(Side::Us, ECHO));
    assert_eq!(options.receive(DO, ECHO).reply, Some(WONT));
    assert_eq!(options.request(Side::Us, ECHO, true), None);
    let reaction = options.receive(DONT, ECHO);
    assert_eq!(reaction.reply, Some(WILL));
    assert_eq!(options.receive(DO, ECHO).settled, Some((Side::Us, true)));
    assert!(options.is_on(Side::Us, ECHO));
}

// RFC 1184 2.4-b: A character that is taken is acknowledged, one that is not is answered with a
// lower level, so that agreeing ends.
#[test]
fn special_characters_are_agreed_by_level() {
    let mut table = Table::client();
    // RFC 1184 section 2.4: a value is accepted, and acknowledged once.
    let ours = [slc::EC, slc::VALUE, 8];
    assert_eq!(table.receive(&ours), [slc::EC, slc::VALUE | slc::ACK, 8]);
    assert_eq!(table.receive(&ours), []);
    assert_eq!(table.value(slc::EC), Some(8));
    assert_eq!(table.receive(&[slc::EC, slc::DEFAULT, 0]), [slc::EC, slc::VALUE, 127]);
    table.set(slc::EL, Entry::new(slc::CANTCHANGE, 21));
    assert_eq!(table.receive(&[slc::EL, slc::VALUE, 1]), [slc::EL, slc::CANTCHANGE, 21]);
    let both = table.receive(&[slc::EL, slc::CANTCHANGE, 1]);
    assert_eq!(both, [slc::EL, slc::NOSUPPORT, slc::NONE]);
    assert_eq!(table.value(slc::EL), None);
    assert_eq!(table.receive(&[99, slc::VALUE, 1]), [99, slc::NOSUPPORT, slc::NONE]);
    assert_eq!(table.receive(&[99, slc::NOSUPPORT, 1, 5]), []);
}
