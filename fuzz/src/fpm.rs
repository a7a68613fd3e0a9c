//! Any bytes from the peer that sends routes: the session ends with a reason or gives changes, its
//! tables keep to their limits, and where the stream is cut changes nothing.
//!
//! Called by: the target `fpm`. The first byte says where to cut, and whether the rest is the body
//! of a message, so that the attributes are reached.

use fpm::{Change, Fpm, Kernel, Limit, Violation};

/// Types of the messages whose bodies are read.
const TYPES: [u16; 4] = [24, 25, 104, 105];

/// A frame with one message of this type.
fn framed(kind: u16, body: &[u8]) -> Vec<u8> {
    let body = &body[..body.len().min(60_000)];
    let length = (16 + body.len()) as u32;
    let mut frame = vec![1, 1];
    frame.extend_from_slice(&((4 + length) as u16).to_be_bytes());
    frame.extend_from_slice(&length.to_ne_bytes());
    frame.extend_from_slice(&kind.to_ne_bytes());
    frame.extend_from_slice(&[0; 10]);
    frame.extend_from_slice(body);
    frame
}

fn run(bytes: &[u8], cut: usize) -> (Vec<Change>, Result<(), Violation>) {
    let (mut fpm, mut changes) = (Fpm::default(), Vec::new());
    fpm.begin();
    let mut parts = bytes.chunks(cut);
    let ended = parts.try_for_each(|part| fpm.receive(part, &mut |change| changes.push(change)));
    assert!(fpm.nexthops() <= Limit::Nexthops.most(), "more nexthops than the limit");
    (changes, ended)
}

/// Any bytes.
///
/// # Panics
/// If the pieces matter, or a table is above its limit.
pub fn any_bytes(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else { return };
    // A kernel's datagram; an error is fine, too.
    let _ = Kernel::default().receive(rest, &mut |_| ());
    let bytes = match how & 0x80 {
        0 => rest.to_vec(),
        _ => framed(TYPES[usize::from(how >> 5 & 3)], rest),
    };
    let cut = usize::from(how & 0x1f) + 1;
    assert_eq!(run(&bytes, cut), run(&bytes, bytes.len().max(1)), "the pieces matter");
}

/// What zebra sent once, with numbers of nexthops.
pub fn recorded() -> Vec<u8> {
    let zebra = include_bytes!("../../crates/router/fpm/src/tests/zebra-nexthops.fpm");
    [&[7][..], zebra].concat()
}
