//! Records that are cut into any fragments and read in any pieces.

use proptest::prelude::*;

use crate::limits::{BUFFER_UNIT, FRAGMENTS_MAX};
use crate::record::{RecordError, RecordReader};

/// A record cut into fragments of these sizes.
fn fragmented(record: &[u8], sizes: &[usize]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), record);
    for &size in sizes {
        let (now, later) = rest.split_at(size.min(rest.len()));
        out.extend((now.len() as u32).to_be_bytes());
        out.extend(now);
        rest = later;
    }
    out.extend((rest.len() as u32 | 1 << 31).to_be_bytes());
    out.extend(rest);
    out
}

fn read(
    stream: &[u8],
    pieces: &[usize],
    receive: usize,
    most: usize,
    takes: bool,
) -> Result<Vec<Vec<u8>>, RecordError> {
    let mut spares = Vec::new();
    let mut reader = RecordReader::new(receive, most);
    let (mut rest, mut found) = (stream, Vec::new());
    let mut pieces = pieces.iter().cycle();
    while !rest.is_empty() {
        let room = reader.room();
        assert!(!room.is_empty());
        let bytes = room.len().min(rest.len()).min(*pieces.next().expect("it cycles"));
        room[..bytes].copy_from_slice(&rest[..bytes]);
        reader.filled(bytes);
        rest = &rest[bytes..];
        while takes && let Some(record) = reader.take_record(|| spares.pop().unwrap_or_default())? {
            found.push(record.to_vec());
            spares.push(record.into_buffer());
        }
        while !takes && let Some(record) = reader.next_record()? {
            found.push(record.to_vec());
        }
        assert!(reader.memory() <= receive.max(64) + 2 * most + 4 * BUFFER_UNIT);
    }
    assert!(!reader.is_inside());
    Ok(found)
}

proptest! {
    // RFC 5531 11-a, 11-b: a record is its fragments joined, however they are cut and come.
    #[test]
    fn records_are_those_that_were_sent(
        lengths in prop::collection::vec(0_usize..5_000, 1..8),
        sizes in prop::collection::vec(0_usize..900, 0..6),
        pieces in prop::collection::vec(1_usize..3_000, 1..5),
        receive in 1_usize..4_000,
    ) {
        let records: Vec<Vec<u8>> =
            lengths.iter().map(|&n| (0..n).map(|i| (i * 7 + n) as u8).collect()).collect();
        let stream: Vec<u8> = records.iter().flat_map(|r| fragmented(r, &sizes)).collect();
        for takes in [false, true] {
            prop_assert_eq!(read(&stream, &pieces, receive, 5_000, takes), Ok(records.clone()));
        }
    }

    #[test]
    fn any_stream_is_read_within_bounds(
        stream in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..4_000),
        piece in 1_usize..100,
    ) {
        let mut reader = RecordReader::new(64, 1_000);
        for piece in stream.chunks(piece) {
            let mut rest = piece;
            while !rest.is_empty() {
                let room = reader.room();
                let bytes = room.len().min(rest.len());
                room[..bytes].copy_from_slice(&rest[..bytes]);
                reader.filled(bytes);
                rest = &rest[bytes..];
                loop {
                    match reader.next_record() {
                        Ok(Some(record)) => prop_assert!(record.len() <= 1_000),
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                prop_assert!(reader.memory() <= 8 * BUFFER_UNIT, "{}", reader.memory());
            }
        }
    }
}

#[test]
fn a_record_that_claims_2_gb_is_refused_at_its_mark() {
    let error = read(&u32::MAX.to_be_bytes(), &[4], 64, 1 << 20, true);
    assert_eq!(error, Err(RecordError::TooLong(0x7fff_ffff, 1 << 20)));
    let two = [&0x0008_0001_u32.to_be_bytes()[..], &vec![0; 0x8_0001], &[0, 8, 0, 0]].concat();
    let refused = Err(RecordError::TooLong(0x10_0001, 1 << 20));
    assert_eq!(read(&two, &[9_000], 64, 1 << 20, true), refused);
}

#[test]
fn a_claim_costs_no_memory_until_the_bytes_come() {
    let mut reader = RecordReader::new(64, 1 << 30);
    reader.room()[..4].copy_from_slice(&0xbf00_0000_u32.to_be_bytes());
    reader.filled(4);
    assert_eq!(reader.next_record(), Ok(None));
    reader.room();
    assert!(reader.memory() <= 2 * BUFFER_UNIT, "{}", reader.memory());
}

#[test]
fn a_long_record_is_taken_with_the_buffer_it_was_read_into() {
    let mut reader = RecordReader::new(64, 1 << 20);
    let sent = fragmented(&[7; 1_000], &[]);
    let mut at = 0;
    // The mark of the next record arrives together with the end of this one.
    for bytes in [64, 940, 64] {
        let stream = [&sent[..], &sent[..]].concat();
        let room = reader.room();
        let bytes = bytes.min(room.len());
        room[..bytes].copy_from_slice(&stream[at..at + bytes]);
        reader.filled(bytes);
        at += bytes;
        let spare = vec![9; 2_000];
        let is_there = spare.as_ptr();
        let before = reader.room().as_ptr() as usize;
        let Some(record) = reader.take_record(|| spare).expect("no error") else { continue };
        assert_eq!(record[..], [7; 1_000]);
        assert!(
            before.abs_diff(record.as_ptr() as usize) <= 1_004,
            "the record was moved out of the buffer into which it was read"
        );
        assert_eq!(reader.room().as_ptr().addr() - is_there.addr(), at - sent.len());
        return;
    }
    panic!("no record after {at} bytes");
}

#[test]
fn a_record_in_empty_fragments_ends() {
    let endless = vec![0; 4 * (FRAGMENTS_MAX as usize + 1)];
    assert_eq!(read(&endless, &[4_000], 64, 1 << 20, false), Err(RecordError::TooManyFragments));
}
