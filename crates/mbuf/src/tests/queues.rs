//! Queues and socket buffers, beside a plain vector of bytes.

use proptest::prelude::*;

use super::{assert_all_home, bytes, mbuf_of};
use crate::{MbufQueue, Pool, SockBuf};

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

/// A closure may put another mbuf in place of the one it was lent.
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
        // What was dropped is handed out again: a queue that still held it would show it.
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
