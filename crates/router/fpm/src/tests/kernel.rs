//! Datagrams as a kernel sends them: the messages are those of `craft.rs` without frames.

use super::craft::{Attributes, delete_route, route};
use super::{hop, key};
use crate::{Kernel, News, Reachable};

const BIRD: u8 = 12;

/// The news of datagrams with these messages.
fn news(kernel: &mut Kernel, messages: &[Vec<u8>]) -> Vec<News> {
    let mut all = Vec::new();
    kernel.receive(&messages.concat(), &mut |news| all.push(news)).expect("it is rtnetlink");
    all
}

fn numbered(mut message: Vec<u8>, sequence: u32, flags: u16) -> Vec<u8> {
    message[6..8].copy_from_slice(&flags.to_ne_bytes());
    message[8..12].copy_from_slice(&sequence.to_ne_bytes());
    message
}

/// NLMSG_DONE.
fn done(sequence: u32) -> Vec<u8> {
    let mut message = vec![0; 20];
    message[..4].copy_from_slice(&20_u32.to_ne_bytes());
    message[4] = 3;
    numbered(message, sequence, 2)
}

fn by(gateway: &str) -> Attributes {
    Attributes::default().word(6, 32).gateway(gateway).word(4, 7)
}

#[test]
fn routes_of_daemons_are_news_and_those_of_others_are_counted() {
    let mut kernel = Kernel::default();
    for protocol in [0, 1, 2, 3, 9, 16] {
        let got = news(&mut kernel, &[route("10.1.0.0/16", protocol, 1, by("192.0.2.2"))]);
        assert_eq!(got, [], "protocol {protocol}");
    }
    assert_eq!(kernel.counts().of_others, 6);
    let to = Reachable::Hops(vec![hop("192.0.2.2", 7)]);
    let expected = News::Route { key: key("10.1.0.0/16"), metric: 32, protocol: BIRD, to };
    // The kernel says what a number stands for: the number is not needed.
    for attributes in [by("192.0.2.2"), by("192.0.2.2").word(30, 9)] {
        let got = news(&mut kernel, &[route("10.1.0.0/16", BIRD, 1, attributes)]);
        assert_eq!(got, std::slice::from_ref(&expected));
    }
    let gone = News::Gone { key: key("10.1.0.0/16"), metric: 32 };
    let alone = Attributes::default().word(6, 32).word(30, 9);
    let got = news(&mut kernel, &[route("10.1.0.0/16", BIRD, 1, alone)]);
    assert_eq!(got, std::slice::from_ref(&gone), "a number alone");
    let got = news(&mut kernel, &[delete_route("10.1.0.0/16", BIRD, by("192.0.2.2"))]);
    assert_eq!(got, [gone]);
}

#[test]
fn a_dump_is_whole_unless_the_table_changed_within() {
    let mut kernel = Kernel::default();
    for (flags, is_whole) in [(2, true), (2 | 0x10, false), (2, true)] {
        let request = kernel.begin();
        let sequence = u32::from_ne_bytes([request[8], request[9], request[10], request[11]]);
        let row = numbered(route("10.1.0.0/16", BIRD, 1, by("192.0.2.2")), sequence, flags);
        let got = news(&mut kernel, &[row, done(sequence)]);
        assert_eq!(got.last(), Some(&News::Dumped { is_whole }));
        // The end of another request says nothing.
        assert_eq!(news(&mut kernel, &[done(sequence + 7)]), []);
    }
    assert_eq!(kernel.counts().dumps, 3);
}

#[test]
fn links_and_addresses_ask_for_a_dump_and_a_cut_datagram_is_refused() {
    let mut kernel = Kernel::default();
    for kind in [16_u8, 17, 20, 21] {
        let mut message = done(0);
        message[4] = kind;
        assert_eq!(news(&mut kernel, &[message]), [News::Unsure]);
    }
    let whole = route("10.1.0.0/16", BIRD, 1, by("192.0.2.2"));
    for length in 1..whole.len() {
        assert!(kernel.receive(&whole[..length], &mut |_| ()).is_err(), "{length} bytes");
    }
}
