//! Queues and socket buffers, compared with a plain vector of bytes.

use proptest::prelude::*;

use super::{assert_all_home, bytes, mbuf_of};
use crate::{Mbuf, MbufQueue, Pool, SockBuf};

proptest! {
    #[test]
    fn a_sockbuf_reads_what_was_appended(
        parts in prop::collection::vec(0..3_000usize, 0..20),
        reads in prop::collection::vec(0..5_000usize, 1..40),
    ) {
        let mut pool = Pool::new(4 << 20);
        let mut buf = SockBuf::new(10_000);
        let mut model = Vec::new();
        for (i, &n) in parts.iter().enumerate() {
            let data = bytes(i as u8, n);
            let mbuf = mbuf_of(&mut pool, &data);
            buf.append(mbuf, &mut pool);
            model.extend(data);
            prop_assert_eq!(buf.space(), 10_000usize.saturating_sub(model.len()));
        }
        for n in reads {
            let mut into = vec![0; n];
            let done = buf.read(&mut into, &mut pool);
            prop_assert_eq!(done, n.min(model.len()));
            prop_assert!(into[..done] == model[..done]);
            model.drain(..done);
            prop_assert_eq!(buf.len(), model.len());
        }
        if let Some(mbuf) = buf.take() {
            let n = mbuf.len();
            prop_assert!(mbuf.as_slice() == &model[..n]);
            buf.put_back(mbuf);
            prop_assert_eq!(buf.len(), model.len());
        }
        buf.clear(&mut pool);
        prop_assert!(buf.is_empty());
        assert_all_home(&mut pool);
    }

    /// Some frames are shorter than `from + len`.
    #[test]
    fn frames_alike_are_appended_as_one_by_one(
        before in 0..400usize,
        paddings in prop::collection::vec(0..100usize, 0..20),
        from in 0..100usize,
        len in 0..500usize,
    ) {
        let mut pool = Pool::new(4 << 20);
        let (mut together, mut single) = (SockBuf::new(10_000), SockBuf::new(10_000));
        for buf in [&mut together, &mut single] {
            if before > 0 {
                buf.append(mbuf_of(&mut pool, &bytes(99, before)), &mut pool);
            }
        }
        let mut frames = Vec::new();
        for (i, &padding) in paddings.iter().enumerate() {
            let data = bytes(i as u8, from + len + padding);
            frames.push(mbuf_of(&mut pool, &data));
            let mut frame = mbuf_of(&mut pool, &data);
            frame.keep(from, len);
            let kept: Vec<u8> = data.iter().copied().skip(from).take(len).collect();
            prop_assert_eq!(frame.as_slice(), kept);
            single.append(frame, &mut pool);
        }
        together.append_alike(frames.into_iter(), from, len, &mut pool);
        together.append(mbuf_of(&mut pool, &[7; 300]), &mut pool);
        single.append(mbuf_of(&mut pool, &[7; 300]), &mut pool);
        prop_assert_eq!(together.len(), single.len());
        let (mut one, mut other) = (vec![0; single.len()], vec![0; single.len()]);
        prop_assert_eq!(together.read(&mut one, &mut pool), one.len());
        prop_assert_eq!(single.read(&mut other, &mut pool), other.len());
        prop_assert!(one == other);
        drop((together, single));
        assert_all_home(&mut pool);
    }

    /// Buffers of three pools in any order, which are read in pieces: each returns to its own pool.
    #[test]
    fn what_was_read_goes_home_to_its_own_pool(
        owners in prop::collection::vec(0..3usize, 1..60),
        reads in prop::collection::vec(1..3_000usize, 1..40),
    ) {
        let mut pools = [Pool::new(4 << 20), Pool::new(4 << 20), Pool::new(4 << 20)];
        let mut buf = SockBuf::new(1 << 20);
        let mut model = Vec::new();
        for (i, &owner) in owners.iter().enumerate() {
            let data = bytes(i as u8, 300);
            buf.append(mbuf_of(&mut pools[owner], &data), &mut Pool::new(0));
            model.extend(data);
        }
        for n in reads {
            let mut into = vec![0; n];
            let done = buf.read(&mut into, &mut pools[0]);
            prop_assert_eq!(done, n.min(model.len()));
            prop_assert!(into[..done] == model[..done]);
            model.drain(..done);
            prop_assert_eq!(buf.len(), model.len());
        }
        pools[0].flush();
        let waiting = model.len().div_ceil(300);
        let out: usize = pools.iter_mut().map(Pool::outstanding).sum();
        prop_assert_eq!(out, waiting);
        drop(buf);
        pools.iter_mut().for_each(assert_all_home);
    }

    #[test]
    fn a_queue_keeps_order_count_and_bytes(
        ops in prop::collection::vec((0..6u8, 0..300usize), 0..80),
    ) {
        let mut pool = Pool::new(4 << 20);
        let mut queue = MbufQueue::new();
        let mut model = std::collections::VecDeque::<Vec<u8>>::new();
        for (i, (op, n)) in ops.into_iter().enumerate() {
            let data = bytes(i as u8, n);
            match op {
                0 | 1 => {
                    queue.push_back(mbuf_of(&mut pool, &data));
                    model.push_back(data);
                }
                2 => {
                    queue.push_front(mbuf_of(&mut pool, &data));
                    model.push_front(data);
                }
                3 => {
                    let front = queue.pop_front();
                    let bytes = front.as_ref().map(|m| m.as_slice().to_vec());
                    prop_assert_eq!(bytes, model.pop_front());
                }
                4 => {
                    queue.with_front(|m| m.trim_front(n));
                    if let Some(m) = model.front_mut() { m.drain(..n.min(m.len())); }
                }
                _ => {
                    queue.with_back(|m| m.append(&data));
                    if let Some(m) = model.back_mut() {
                        m.extend(&data[..n.min(1_920 - m.len().min(1_920))]);
                        m.truncate(1_920);
                    }
                }
            }
            if let Some(n) = model.back().map(Vec::len).filter(|&n| n > 1_000) {
                queue.with_back(|m| m.truncate(n / 2));
                model.back_mut().expect("seen").truncate(n / 2);
            }
            prop_assert_eq!(queue.count(), model.len());
            prop_assert_eq!(queue.bytes(), model.iter().map(Vec::len).sum::<usize>());
            prop_assert_eq!(queue.front().map(|m| m.as_slice()), model.front().map(|m| &m[..]));
        }
        drop(queue);
        assert_all_home(&mut pool);
    }
}

/// A closure may replace the mbuf that it gets.
#[test]
fn an_exchanged_mbuf_takes_the_place_in_the_queue() {
    let mut pool = Pool::new(1 << 20);
    for (len, back) in [(1, false), (1, true), (3, false), (3, true)] {
        let mut queue = MbufQueue::new();
        (0..len).for_each(|i| queue.push_back(mbuf_of(&mut pool, &[i; 10])));
        let new = mbuf_of(&mut pool, &[99; 25]);
        match back {
            false => queue.with_front(|m| drop(core::mem::replace(m, new))),
            true => queue.with_back(|m| *m = new),
        };
        // The dropped mbuf is allocated again. If the queue still had it, this would show.
        pool.collect();
        let other = mbuf_of(&mut pool, &[55; 10]);
        queue.push_back(mbuf_of(&mut pool, &[77; 1]));
        assert_eq!((queue.count(), queue.bytes()), (len as usize + 1, len as usize * 10 + 15 + 1));
        let place = if back { len as usize - 1 } else { 0 };
        for i in 0..len as usize {
            let mbuf = queue.pop_front().expect("as many as went in");
            assert_eq!(mbuf.as_slice()[0], if i == place { 99 } else { i as u8 });
        }
        drop((other, queue));
        assert_all_home(&mut pool);
    }
}

#[test]
fn a_panic_in_a_closure_leaves_a_whole_queue() {
    let mut pool = Pool::new(1 << 20);
    let mut queue = MbufQueue::new();
    queue.push_back(mbuf_of(&mut pool, &[1; 10]));
    queue.push_back(mbuf_of(&mut pool, &[2; 10]));
    let new = mbuf_of(&mut pool, &[3; 5]);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        queue.with_front(|m| {
            *m = new;
            panic!("a caller's mistake");
        });
    }));
    assert!(result.is_err());
    assert_eq!((queue.count(), queue.bytes()), (2, 15));
    assert_eq!(queue.pop_front().expect("two").as_slice(), [3; 5]);
    queue.clear(&mut pool);
    assert_all_home(&mut pool);
}

/// Shares and clusters are returned in one list; each can be allocated again.
#[test]
fn a_list_of_shares_and_clusters_is_taken_in() {
    let mut pool = Pool::new(1 << 20);
    for first in [false, true] {
        let mut queue = MbufQueue::new();
        for i in 0..20 {
            let mut cluster = mbuf_of(&mut pool, &[i; 400]);
            let share = pool.share(&mut cluster).expect("the pool is large enough");
            let (one, other) = if first { (share, cluster) } else { (cluster, share) };
            queue.push_back(one);
            queue.push_back(other);
        }
        queue.use_up(&mut pool, |data| data.len() == 400);
        assert!(queue.is_empty());
        assert_all_home(&mut pool);
        let again: Vec<Mbuf> = (0..40).map(|i| mbuf_of(&mut pool, &[i; 400])).collect();
        assert!((0..40).zip(&again).all(|(i, m)| m.as_slice() == [i; 400]));
        drop(again);
        assert_all_home(&mut pool);
    }
}

#[test]
fn a_queue_is_extended_at_its_end() {
    let mut pool = Pool::new(1 << 20);
    let mut queue = MbufQueue::new();
    queue.extend_alike(std::iter::empty(), 4);
    assert!(queue.is_empty());
    for (len, count, bytes) in [(2, 3, 6), (5, 6, 21)] {
        let more: Vec<Mbuf> = (0..3).map(|_| mbuf_of(&mut pool, &vec![9; len])).collect();
        queue.extend_alike(more.into_iter(), len);
        assert_eq!((queue.count(), queue.bytes()), (count, bytes));
    }
    queue.push_back(mbuf_of(&mut pool, &[9; 4]));
    let lens: Vec<usize> = std::iter::from_fn(|| queue.pop_front()).map(|m| m.len()).collect();
    assert_eq!(lens, [2, 2, 2, 5, 5, 5, 4]);
    assert_all_home(&mut pool);
}
