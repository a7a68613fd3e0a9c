//! Which bytes each handle may write when several share a cluster.

use super::{assert_all_home, bytes, mbuf_of};
use crate::{Class, Flags, Front, Mbuf, Pool};

#[test]
fn a_share_for_sending_owns_the_room_in_front() {
    let mut pool = Pool::new(1 << 20);
    let data = bytes(1, 1000);
    let mut kept = mbuf_of(&mut pool, &data);
    let mut sent = pool.share_for_send(&mut kept).expect("alone");
    sent.prepend(40).expect("the headroom is its own").fill(0xaa);
    sent.headers_mut(40).expect("and stays so")[0] = 0xbb;
    assert!(sent.headers_mut(41).is_none(), "a shared payload is writable");
    assert!(sent.as_mut_slice().is_none());
    assert_eq!(sent.append(&[1]), 0);
    assert!(kept.prepend(1).is_none(), "the kept handle may write the headroom");
    assert!(kept.headers_mut(1).is_none());
    assert_eq!(kept.as_slice(), data);
    assert_eq!(&sent.as_slice()[40..], data);
    pool.free(sent);
    assert!(pool.reclaim(&mut kept));
    assert!(kept.as_mut_slice().is_some());
    pool.free(kept);
    assert_all_home(&mut pool);
}

#[test]
fn one_copy_is_out_at_a_time() {
    let mut pool = Pool::new(1 << 20);
    let mut kept = mbuf_of(&mut pool, &bytes(2, 500));
    let first = pool.share_for_send(&mut kept).expect("alone");
    assert!(
        pool.share_for_send(&mut kept).is_none(),
        "a second handle to send was made while the first is in use"
    );
    assert!(!pool.reclaim(&mut kept));
    drop(first);
    assert!(
        pool.share_for_send(&mut kept).is_none(),
        "a handle that was not collected yet does not count as in use"
    );
    assert_eq!(pool.collect(), 1);
    let second = pool.share_for_send(&mut kept).expect("home again");
    pool.free(second);
    pool.free(kept);
    assert_all_home(&mut pool);
}

/// A payload, and the frame in which it was sent.
fn sent(pool: &mut Pool, data: &[u8], flags: u8, headers: &[u8]) -> (Mbuf, Mbuf) {
    let mut payload = mbuf_of(pool, data);
    payload.set(flags);
    let mut frame = pool.share_for_send(&mut payload).expect("alone");
    frame.prepend(headers.len()).expect("headroom").copy_from_slice(headers);
    frame.clear(Flags::SUMMED);
    (payload, frame)
}

/// Does in several steps what [`crate::Shares::behind`] does in one step.
fn shared_then_prepended(pool: &mut Pool, kept: &mut Mbuf, headers: &[u8], like: &Mbuf) -> Mbuf {
    let mut sent = pool.share_for_send(kept).expect("alone");
    sent.prepend(headers.len()).expect("headroom").copy_from_slice(headers);
    sent.clear(Flags::SUMMED);
    sent.set_csum(like.csum());
    sent.set_segment_size(like.segment_size());
    sent
}

#[test]
fn a_share_behind_headers_is_a_share_with_headers_in_front() {
    let mut pool = Pool::new(4 << 20);
    for (len, n) in [(1448, 66), (1448, 96), (1, 20), (65_483, 54), (0, 0)] {
        let data = bytes(4, len);
        let headers: [u8; 96] = core::array::from_fn(|i| i as u8);
        let flags = Flags::SUMMED | Flags::CSUM_PARTIAL;
        let (payload, mut frame) = sent(&mut pool, &data, flags, &headers[96 - n..]);
        frame.set_csum(7);
        frame.set_segment_size(9);
        let front = Front::of(&frame, &payload).expect("not too long");
        assert_eq!(front.headers_len(), n);
        let (mut one, mut other) = (mbuf_of(&mut pool, &data), mbuf_of(&mut pool, &data));
        for m in [&mut one, &mut other] {
            m.set(flags);
            m.set_csum(8);
            m.set_mark(10);
        }
        // The free list now has a share.
        let mut spare = mbuf_of(&mut pool, &data);
        drop(pool.share(&mut spare));
        drop(spare);
        pool.collect();
        let before = pool.outstanding();
        let fill = |all: &mut [u8; 96]| all[95] = 1;
        let fast = match pool.shares(|shares| shares.behind(&mut one, &front, fill)) {
            None if cfg!(wirespeed_unpooled) => pool.share_behind(&mut one, &front, fill),
            fast => fast,
        };
        let fast = fast.expect("like the first");
        assert_eq!(pool.outstanding(), before + 1);
        let mut wanted = headers;
        wanted[95] = 1;
        let plain = shared_then_prepended(&mut pool, &mut other, &wanted[96 - n..], &frame);
        assert_eq!(fast.as_slice(), plain.as_slice());
        assert_eq!(format!("{fast:?}"), format!("{plain:?}"), "length, class or flags differ");
        assert_eq!((fast.csum(), fast.segment_size(), fast.mark()), (7, 9, 10));
        assert_eq!(fast.headroom(), plain.headroom());
        assert_eq!(one.as_slice(), data, "the kept payload was changed");
        assert!(one.prepend(1).is_none() && !one.is_exclusive());
        for m in [fast, plain, one, other, payload, frame] {
            pool.free(m);
        }
    }
    assert_all_home(&mut pool);
}

#[test]
fn a_share_behind_headers_of_what_is_not_like_the_first_is_made_the_long_way() {
    let (mut pool, mut foreign) = (Pool::new(1 << 20), Pool::new(1 << 20));
    let data = bytes(5, 1000);
    let headers = [0xee; 66];
    let (payload, frame) = sent(&mut pool, &data, 0, &headers);
    let front = Front::of(&frame, &payload).expect("not too long");
    let mut cut = mbuf_of(&mut pool, &data);
    let mut tail = pool.split(&mut cut, 400).expect("a buffer");
    let mut longer = mbuf_of(&mut pool, &bytes(6, 1300));
    longer.trim_front(300);
    let mut crowded = mbuf_of(&mut pool, &data[..940]);
    crowded.prepend(60).expect("headroom").fill(1);
    let mut theirs = mbuf_of(&mut foreign, &data);
    let mut flagged = mbuf_of(&mut pool, &data);
    flagged.set(Flags::SUMMED);
    let mut short = mbuf_of(&mut pool, &data[1..]);
    let mut out = mbuf_of(&mut pool, &data);
    let still_out = pool.share_for_send(&mut out).expect("alone");
    let (mut again, sent_already) = sent(&mut pool, &data, 0, &headers);
    let unlike = [
        &mut cut,
        &mut tail,
        &mut longer,
        &mut crowded,
        &mut theirs,
        &mut flagged,
        &mut short,
        &mut out,
        &mut again,
    ];
    for kept in unlike {
        let before = kept.as_slice().to_vec();
        assert!(pool.shares(|shares| shares.behind(kept, &front, |_| {})).is_none());
        assert_eq!(kept.as_slice(), before);
        let sent = pool.share_behind(kept, &front, |_| {}).expect("a buffer");
        assert_eq!(sent.as_slice()[..66], headers);
        assert_eq!(sent.as_slice()[66..], before);
        assert!(!sent.has(Flags::SUMMED));
        assert_eq!(kept.as_slice(), before);
        drop(sent);
    }
    assert_eq!(still_out.as_slice(), data);
    drop((cut, tail, longer, crowded, theirs, flagged, short, out, still_out));
    drop((payload, frame, again, sent_already));
    assert_all_home(&mut pool);
    assert_all_home(&mut foreign);
}

#[test]
fn without_a_share_at_hand_none_is_made_and_nothing_changes() {
    let mut pool = Pool::new(1 << 20);
    let (payload, frame) = sent(&mut pool, &bytes(7, 100), 0, &[1; 20]);
    let front = Front::of(&frame, &payload).expect("not too long");
    let mut all = Vec::new();
    let mut left = mbuf_of(&mut pool, &bytes(7, 100));
    loop {
        let mut m = mbuf_of(&mut pool, &bytes(7, 100));
        let share = pool.shares(|shares| shares.behind(&mut m, &front, |_| {}));
        let Some(share) = share else { break };
        all.extend([m, share]);
    }
    assert!(pool.shares(|shares| shares.behind(&mut left, &front, |_| {})).is_none());
    assert!(left.is_exclusive());
    assert_eq!(pool.outstanding(), all.len() + 3);
    drop((all, left, payload, frame));
    assert_all_home(&mut pool);
}

#[test]
fn a_front_is_what_this_handle_alone_may_write() {
    let mut pool = Pool::new(1 << 20);
    let (payload, mut frame) = sent(&mut pool, &bytes(8, 100), 0, &[1; 66]);
    let seen = pool.share(&mut frame).expect("a share");
    assert!(
        Front::of(&frame, &payload).is_none(),
        "a front was made of headers that another handle sees"
    );
    let (long, too_long) = sent(&mut pool, &bytes(8, 100), 0, &[1; 97]);
    assert!(Front::of(&too_long, &long).is_none());
    assert!(
        Front::of(&payload, &frame).is_none(),
        "a front was made of a payload longer than its frame"
    );
    drop((payload, frame, seen, long, too_long));
    assert_all_home(&mut pool);
}

#[test]
fn a_partly_acknowledged_mbuf_is_sent_from_where_it_stands() {
    let mut pool = Pool::new(1 << 20);
    let data = bytes(3, 1448);
    let mut kept = mbuf_of(&mut pool, &data);
    pool.share_for_send(&mut kept).map(|sent| pool.free(sent)).expect("alone");
    kept.trim_front(448);
    let mut sent = pool.share_for_send(&mut kept).expect("alone");
    assert_eq!(sent.headroom(), crate::HEADROOM + 448);
    sent.prepend(500).expect("acknowledged bytes are room for headers").fill(9);
    assert_eq!(kept.as_slice(), &data[448..]);
    drop((sent, kept));
    assert_all_home(&mut pool);
}

#[test]
fn what_a_share_of_a_sent_handle_sees_stays() {
    let mut pool = Pool::new(1 << 20);
    let mut kept = mbuf_of(&mut pool, &bytes(4, 100));
    let mut sent = pool.share_for_send(&mut kept).expect("alone");
    sent.prepend(54).expect("headroom").fill(1);
    let seen = pool.share(&mut sent).expect("room");
    assert!(sent.headers_mut(1).is_none(), "bytes that the share sees are writable");
    sent.prepend(4).expect("these it does not").fill(2);
    assert_eq!(seen.as_slice()[..54], [1; 54]);
    let tail = pool.split(&mut sent, 10).expect("room");
    assert!(sent.headers_mut(4).is_some() && sent.headers_mut(5).is_none());
    assert_eq!(tail.len(), 58 + 100 - 10);
    drop((kept, sent, seen, tail));
    assert_all_home(&mut pool);
}

#[test]
fn a_handle_put_in_front_of_its_own_data_can_be_written() {
    let mut pool = Pool::new(1 << 20);
    let mut mbuf = mbuf_of(&mut pool, &[5; 10]);
    let tail = pool.split(&mut mbuf, 5).expect("room");
    pool.free(mbuf);
    let mut tail = tail;
    assert!(!pool.reclaim(&mut tail), "a share became exclusive");
    assert!(tail.prepend(1).is_none() && tail.as_mut_slice().is_none());
    pool.free(tail);
    assert_all_home(&mut pool);
}

#[test]
fn foreign_mbufs_are_copied_with_their_metadata() {
    let (mut ours, mut theirs) = (Pool::new(1 << 20), Pool::new(1 << 20));
    let mut mbuf = mbuf_of(&mut theirs, &bytes(6, 300));
    mbuf.set(Flags::CSUM_PARTIAL | Flags::SUMMED);
    mbuf.set_csum(34);
    mbuf.set_segment_size(100);
    assert!(!ours.owns(&mbuf) && !ours.reclaim(&mut mbuf));
    assert!(ours.share_for_send(&mut mbuf).is_none());
    let copy = ours.share(&mut mbuf).expect("room");
    assert!(ours.owns(&copy) && copy.is_exclusive() && mbuf.is_exclusive());
    assert_eq!(copy.as_slice(), mbuf.as_slice());
    assert_eq!((copy.csum(), copy.segment_size()), (34, 100));
    assert!(copy.has(Flags::CSUM_PARTIAL | Flags::SUMMED));
    let tail = ours.split(&mut mbuf, 100).expect("room");
    assert!(
        !tail.has(Flags::SUMMED) && !mbuf.has(Flags::SUMMED),
        "a part of the mbuf has the sum of the whole"
    );
    assert_eq!((mbuf.len(), tail.len()), (100, 200));
    ours.free(mbuf);
    drop((copy, tail));
    ours.flush();
    assert_all_home(&mut ours);
    assert_all_home(&mut theirs);
}

#[test]
#[cfg_attr(miri, ignore = "an interpreter takes an hour for 65,535 handles")]
fn the_count_of_handles_stops_at_its_end() {
    let mut pool = Pool::new(16 << 20);
    let data = bytes(7, 64);
    let mut mbuf = mbuf_of(&mut pool, &data);
    let mut shares: Vec<_> = (1..u16::MAX).map(|_| pool.share(&mut mbuf).expect("room")).collect();
    assert_eq!(pool.outstanding(), usize::from(u16::MAX));
    for _ in 0..3 {
        assert!(pool.share(&mut mbuf).is_none(), "a share was made beyond 65,535 handles");
        assert!(pool.split(&mut mbuf, 1).is_none());
        assert_eq!(pool.outstanding(), usize::from(u16::MAX));
    }
    assert_eq!(mbuf.as_slice(), data);
    pool.free(shares.pop().expect("many"));
    shares.push(pool.share(&mut mbuf).expect("one came home"));
    drop(mbuf);
    assert!(shares.iter().all(|share| share.as_slice() == data));
    shares.into_iter().for_each(|share| pool.free(share));
    assert_all_home(&mut pool);
}

#[test]
fn truncate_takes_any_length() {
    let mut pool = Pool::new(1 << 20);
    let mut mbuf = mbuf_of(&mut pool, &[1; 10]);
    mbuf.truncate(1 << 32);
    assert_eq!(mbuf.len(), 10);
    mbuf.trim_front(usize::MAX);
    assert!(mbuf.is_empty());
    drop(mbuf);
    assert_all_home(&mut pool);
}

/// Making a share may collect returned handles; one that belongs to the same cluster must be
/// counted.
#[test]
fn a_share_made_while_another_comes_home_is_counted_right() {
    let mut pool = Pool::new(4 << 20);
    let mut kept = mbuf_of(&mut pool, &bytes(8, 100));
    // As many shares as are in a slab: for the next one the pool looks at the return list first.
    let slab = crate::Class::Share.slab_objects();
    let mut shares: Vec<_> = (0..slab).filter_map(|_| pool.share(&mut kept)).collect();
    assert_eq!(shares.len(), slab);
    drop(shares.pop());
    shares.extend(pool.share(&mut kept));
    assert_eq!(shares.len(), slab);
    shares.into_iter().for_each(|share| pool.free(share));
    assert!(pool.reclaim(&mut kept), "another handle is still counted");
    pool.free(kept);
    assert_all_home(&mut pool);
}

#[test]
fn many_are_freed_like_one_after_the_other() {
    let (mut pool, mut other) = (Pool::new(4 << 20), Pool::new(4 << 20));
    let mut kept = mbuf_of(&mut pool, &bytes(6, 300));
    let shares: Vec<Mbuf> = (0..3).filter_map(|_| pool.share(&mut kept)).collect();
    let large = mbuf_of(&mut pool, &bytes(7, 30_000));
    let mut foreign = mbuf_of(&mut other, &bytes(8, 300));
    let foreign_share = other.share(&mut foreign).expect("memory");
    let all = [foreign, kept, large, foreign_share].into_iter().chain(shares);
    pool.free_all(all);
    assert_eq!(pool.outstanding(), 0);
    assert!(pool.holds_foreign());
    pool.flush();
    assert_all_home(&mut pool);
    assert_all_home(&mut other);
}

#[test]
fn a_class_is_filled_up_to_its_capacity() {
    let mut pool = Pool::new(4 << 20);
    let most = Class::K2.capacity();
    let (m, n) = pool.alloc_filled_in(Class::K2, most, |to| to.len()).expect("memory");
    assert_eq!((m.len(), n, m.tailroom()), (most, most, 0));
    assert!(pool.alloc_filled_in(Class::K2, most + 1, |_| ()).is_none());
    assert!(
        pool.alloc_filled_in(Class::Share, 0, |_| ()).is_none(),
        "a share's header was filled with data"
    );
    pool.free(m);
    assert_all_home(&mut pool);
}
