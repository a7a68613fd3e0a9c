//! Compares our copies with the standard library's, for the relevant lengths and alignments.

use super::copy;

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn check(data: &[u8], from: usize, to_at: usize, len: usize, to: &mut [u8]) {
    to.fill(0xa5);
    copy(&data[from..from + len], &mut to[to_at..to_at + len]);
    assert_eq!(to[to_at..to_at + len], data[from..from + len], "{len} from {from} to {to_at}");
    let mut beside = to[..to_at].iter().chain(&to[to_at + len..]);
    assert!(
        beside.all(|&b| b == 0xa5),
        "{len} from {from} to {to_at}: bytes outside of the copy were written"
    );
}

#[test]
fn every_length_at_every_alignment() {
    let (data, mut to) = (noise(1024), vec![0; 1024]);
    for len in (0..40).chain(225..420).step_by(if cfg!(miri) { 7 } else { 1 }) {
        // All of them would take Miri a minute.
        for at in (0..64).step_by(if cfg!(miri) { 21 } else { 1 }) {
            check(&data, at, (at * 7 + len) % 64, len, &mut to);
        }
    }
}

#[test]
fn segments_pages_and_super_segments() {
    let lengths = [1448, 1460, 4031, 4032, 4033, 8192, 65_483, 65_536];
    // Each of these takes Miri a minute.
    let lengths = if cfg!(miri) { &lengths[..1] } else { &lengths };
    let room = lengths[lengths.len() - 1] + 4464;
    let (data, mut to) = (noise(room), vec![0; room]);
    for &len in lengths {
        for (from, to_at) in [(0, 0), (1, 0), (0, 1), (54, 8), (192, 2056), (3, 4099)] {
            check(&data, from, to_at, len, &mut to);
        }
    }
}

#[test]
#[should_panic(expected = "a copy has one length")]
fn lengths_that_differ_are_a_bad_programmer() {
    copy(&[0; 300], &mut [0; 301]);
}
