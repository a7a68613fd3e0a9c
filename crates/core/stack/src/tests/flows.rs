//! The links between the frames of a burst that belong to one flow, compared with a search through
//! the burst frame by frame.

use base::IpVersion;
use device::Burst;
use mbuf::{Mbuf, Pool};
use wire::protocol;

use super::craft::{Rng, Tcp, frame_between};
use crate::flows::{Flows, ports};
use crate::pair::addresses;

/// A frame of one of some flows, or a UDP frame, which ends the links of every flow.
fn frame(pool: &mut Pool, rng: &mut Rng, version: IpVersion) -> Mbuf {
    let [src, dst] = [2, 1].map(|end| addresses(end)[usize::from(version == IpVersion::V6)].addr);
    let segment = Tcp {
        ports: (rng.below(90) as u16, 80),
        seq: base::SeqNumber(rng.below(99)),
        ack: base::SeqNumber(1),
        flags: wire::tcp::Flags::ACK,
        window: 1,
        urgent: 0,
        options: Vec::new(),
        payload: vec![1; 60],
    };
    let protocol = if rng.one_in(20) { protocol::UDP } else { protocol::TCP };
    let frame = frame_between(src, dst, protocol, &segment.bytes(src, dst));
    pool.copy_of(&frame).expect("small")
}

#[test]
fn each_frame_has_the_next_of_its_flow_up_to_one_that_is_no_plain_tcp() {
    let (mut pool, mut rng) = (Pool::new(1 << 20), Rng(7));
    let mut flows = Flows::default();
    for round in 0..300 {
        let version = if round % 2 == 0 { IpVersion::V4 } else { IpVersion::V6 };
        let mut burst = Burst::new();
        for _ in 0..rng.below(65) {
            burst.push(frame(&mut pool, &mut rng, version));
        }
        let tags: Vec<Option<u32>> = burst.iter().map(|m| ports(m, 14)).collect();
        burst.reverse();
        let (frames, count) = flows.link(&mut burst, 14);
        assert_eq!((count, frames.iter().flatten().count()), (tags.len(), tags.len()));
        for (place, tag) in tags.iter().enumerate() {
            let behind = tags.iter().enumerate().skip(place + 1);
            let mut until_stop = behind.take_while(|(_, tag)| tag.is_some());
            let next = until_stop.find(|(_, other)| *other == tag).map(|(place, _)| place);
            let next = tag.and(next);
            assert_eq!(flows.next(place), next, "round {round}, frame {place} of {count}");
        }
        frames.into_iter().flatten().for_each(|m| pool.free(m));
    }
}

#[test]
fn a_look_in_vain_is_repeated_ever_less_often() {
    let mut flows = Flows::default();
    let mut looks = 0;
    for _ in 0..1000 {
        if flows.are_worth_it() {
            looks += 1;
            flows.found(0);
        }
    }
    assert!((15..25).contains(&looks), "links were searched for in {looks} of 1,000 bursts");
    while !flows.are_worth_it() {}
    flows.found(3);
    assert!(flows.are_worth_it(), "the search did not resume after a success");
}
