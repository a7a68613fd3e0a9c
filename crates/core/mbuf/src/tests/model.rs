//! Random operations on several handles, compared with one vector for each handle: bytes that are
//! written through one handle must not appear in another, and only writable bytes may be reported
//! as writable.

use proptest::prelude::*;

use super::{assert_all_home, bytes};
use crate::{Flags, HEADROOM, Mbuf, Pool};

#[derive(Clone, Debug)]
enum Op {
    Alloc(usize),
    Append(usize, usize),
    Prepend(usize, usize),
    WriteFront(usize, usize),
    TrimFront(usize, usize),
    Truncate(usize, usize),
    Split(usize, usize),
    Share(usize),
    ShareForSend(usize),
    Reclaim(usize),
    Free(usize),
    Drop(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let which = 0..16usize;
    let small = 0..200usize;
    let size = prop_oneof![4 => 0..200usize, 2 => 0..5_000usize, 1 => 0..66_000usize];
    prop_oneof![
        3 => size.clone().prop_map(Op::Alloc),
        4 => (which.clone(), size.clone()).prop_map(|(i, n)| Op::Append(i, n)),
        4 => (which.clone(), small.clone()).prop_map(|(i, n)| Op::Prepend(i, n)),
        4 => (which.clone(), small.clone()).prop_map(|(i, n)| Op::WriteFront(i, n)),
        2 => (which.clone(), small).prop_map(|(i, n)| Op::TrimFront(i, n)),
        1 => (which.clone(), size.clone()).prop_map(|(i, n)| Op::Truncate(i, n)),
        3 => (which.clone(), size).prop_map(|(i, n)| Op::Split(i, n)),
        2 => which.clone().prop_map(Op::Share),
        4 => which.clone().prop_map(Op::ShareForSend),
        2 => which.clone().prop_map(Op::Reclaim),
        1 => which.clone().prop_map(Op::Free),
        1 => which.prop_map(Op::Drop),
    ]
}

struct World {
    pool: Pool,
    handles: Vec<(Mbuf, Vec<u8>)>,
    seed: u8,
}

impl World {
    fn step(&mut self, op: &Op) {
        self.seed = self.seed.wrapping_add(7);
        let seed = self.seed;
        if let Op::Alloc(n) = *op {
            match self.pool.alloc(n) {
                Some(mbuf) => {
                    assert!(mbuf.is_empty() && mbuf.tailroom() >= n);
                    assert_eq!(mbuf.headroom(), HEADROOM);
                    self.handles.push((mbuf, Vec::new()));
                }
                None => assert!(n > 65_664, "{n} bytes"),
            }
            return;
        }
        let (Op::Append(i, _)
        | Op::Prepend(i, _)
        | Op::WriteFront(i, _)
        | Op::TrimFront(i, _)
        | Op::Truncate(i, _)
        | Op::Split(i, _)
        | Op::Share(i)
        | Op::ShareForSend(i)
        | Op::Reclaim(i)
        | Op::Free(i)
        | Op::Drop(i)) = *op
        else {
            return;
        };
        if self.handles.is_empty() {
            return;
        }
        let i = i % self.handles.len();
        if matches!(op, Op::Free(_) | Op::Drop(_)) {
            let (mbuf, _) = self.handles.swap_remove(i);
            match op {
                Op::Free(_) => self.pool.free(mbuf),
                _ => drop(mbuf),
            }
            return;
        }
        let (mbuf, model) = &mut self.handles[i];
        let made = Self::change(&mut self.pool, mbuf, model, op, seed);
        self.handles.extend(made);
    }

    fn change(
        pool: &mut Pool,
        mbuf: &mut Mbuf,
        model: &mut Vec<u8>,
        op: &Op,
        seed: u8,
    ) -> Option<(Mbuf, Vec<u8>)> {
        match *op {
            Op::Append(_, n) => {
                let (room, data) = (mbuf.tailroom(), bytes(seed, n));
                let done = mbuf.append(&data);
                assert_eq!(done, n.min(room));
                model.extend_from_slice(&data[..done]);
            }
            Op::Prepend(_, n) => {
                let (room, free) = (mbuf.headroom(), mbuf.is_exclusive());
                let data = bytes(seed, n);
                match mbuf.prepend(n) {
                    Some(front) => front.copy_from_slice(&data),
                    None => {
                        assert!(n > room || !free);
                        return None;
                    }
                }
                model.splice(0..0, data);
            }
            Op::WriteFront(_, n) => {
                let (free, data) = (mbuf.is_exclusive(), bytes(seed, n));
                match mbuf.headers_mut(n) {
                    Some(front) => front.copy_from_slice(&data),
                    None => {
                        assert!(n > model.len() || !free);
                        return None;
                    }
                }
                model[..n].copy_from_slice(&data);
            }
            Op::TrimFront(_, n) => {
                mbuf.trim_front(n);
                model.drain(..n.min(model.len()));
            }
            Op::Truncate(_, n) => {
                mbuf.truncate(n);
                model.truncate(n);
            }
            Op::Split(_, at) => match pool.split(mbuf, at) {
                Some(tail) => return Some((tail, model.split_off(at))),
                None => assert!(at > model.len()),
            },
            Op::Share(_) => {
                let share = pool.share(mbuf).expect("room for a share");
                assert!(!mbuf.is_exclusive() && mbuf.as_mut_slice().is_none() || model.is_empty());
                return Some((share, model.clone()));
            }
            Op::ShareForSend(_) => {
                if let Some(share) = pool.share_for_send(mbuf) {
                    assert_eq!(share.headroom(), mbuf.headroom());
                    return Some((share, model.clone()));
                }
                assert!(!mbuf.is_exclusive());
            }
            Op::Reclaim(_) => assert_eq!(pool.reclaim(mbuf), mbuf.is_exclusive()),
            Op::Alloc(_) | Op::Free(_) | Op::Drop(_) => {}
        }
        None
    }

    fn check(&self) {
        for (mbuf, model) in &self.handles {
            assert_eq!(mbuf.len(), model.len());
            assert!(mbuf.as_slice() == model.as_slice(), "{mbuf:?}");
        }
    }
}

proptest! {
    #[test]
    fn handles_behave_as_vectors(ops in prop::collection::vec(op(), 1..80)) {
        let mut world = World { pool: Pool::new(64 << 20), handles: Vec::new(), seed: 0 };
        for op in &ops {
            world.step(op);
            world.check();
        }
        prop_assert_eq!(world.pool.outstanding(), world.handles.len());
        world.handles.clear();
        assert_all_home(&mut world.pool);
    }

    #[test]
    fn metadata_stays_with_its_handle(mark: u32, hash: u32, vlan: u16, port: u16, seg: u16) {
        let mut pool = Pool::new(1 << 20);
        let mut mbuf = pool.copy_of(&[1; 100]).expect("room");
        mbuf.set_mark(mark);
        mbuf.set_flow_hash(hash);
        mbuf.set_vlan(vlan);
        mbuf.set_in_port(port);
        mbuf.set_segment_size(seg);
        mbuf.set(Flags::VLAN | Flags::PUSH);
        let share = pool.share(&mut mbuf).expect("room");
        mbuf.set_mark(!mark);
        prop_assert_eq!(share.mark(), mark);
        prop_assert_eq!(share.flow_hash(), hash);
        prop_assert_eq!(share.vlan(), vlan);
        prop_assert_eq!(share.in_port(), port);
        prop_assert_eq!(share.segment_size(), seg);
        prop_assert!(share.has(Flags::VLAN | Flags::PUSH));
        drop((mbuf, share));
        assert_all_home(&mut pool);
    }
}
