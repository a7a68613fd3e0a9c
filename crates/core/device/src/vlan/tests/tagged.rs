//! Frames that keep their tags: the two methods for them do the same as the plain ones.

use super::*;

proptest! {
    /// Ports that are asked for frames with and without tags, in any order, deliver the same frames
    /// as ports that are asked only for frames without tags.
    #[test]
    fn frames_that_keep_their_tags_are_those_that_do_not(
        sent in collection::vec((0..8_u16, 0..8_u16, 14..70_usize), 0..200),
        turns in collection::vec((0..3_usize, any::<bool>()), 1..40),
    ) {
        let mut pool = Pool::new(8 << 20);
        let ids = [Id::Vlan(5), Id::Vlan(6), Id::Untagged];
        let (mut plain, mut plain_peer) = trunk(&ids);
        let (mut keeping, mut keeping_peer) = trunk(&ids);
        let frame = |(number, &(id, priority, len)): (usize, &(u16, u16, usize))| {
            // Some frames are cut within the tag, some have no tag, and some belong to no port.
            let tags = [(TAG, priority << 13 | id)];
            let tags = if id == 1 { &[] } else { &tags[..] };
            let mut frame = bytes(tags, number as u8, 80);
            frame.truncate(len);
            frame
        };
        let sent: Vec<_> = sent.iter().enumerate().map(frame).collect();
        let mut rest = sent.chunks(20);
        for (port, keeps) in turns {
            for peer in [&mut plain_peer, &mut keeping_peer] {
                send(peer, &mut pool, rest.clone().next().unwrap_or_default());
            }
            rest.next();
            let wanted = receive(&mut plain[port], &mut pool);
            let mut got = Burst::new();
            let tag = keeping[port].own_tag().filter(|_| keeps);
            match tag {
                Some(_) => keeping[port].rx_burst_tagged(&mut pool, &mut got),
                None => keeping[port].rx_burst(&mut pool, &mut got),
            };
            for frame in &mut got {
                if let Some(tag) = tag {
                    prop_assert!(tag.is_in(frame) && !frame.has(Flags::VLAN));
                    tag.strip_from(frame);
                }
            }
            prop_assert_eq!(slices(&got), slices(&wanted));
            let vlan = |frame: &Mbuf| frame.has(Flags::VLAN).then(|| frame.vlan());
            prop_assert!(got.iter().map(vlan).eq(wanted.iter().map(vlan)));
        }
        let drops = [plain, keeping].map(|mut ports| {
            receive(&mut ports[0], &mut pool);
            let drops = ports[0].drops().expect("it counts");
            [DropReason::VlanUnknown, DropReason::EtherShort].map(|reason| drops.of(reason))
        });
        prop_assert_eq!(drops[0], drops[1]);
    }

    /// A burst in which some frames have the tag is sent like a burst without tags, over a link
    /// that takes a few frames at a time, and the frames that stay are unchanged.
    #[test]
    fn frames_with_their_tags_are_sent_as_those_without(
        lens in collection::vec(0..40_usize, 1..30),
        tagged: usize,
    ) {
        let mut pool = Pool::new(8 << 20);
        let of_depth = || {
            let (ours, peer) = mem::pair(&mem::Config { depth: 3, ..mem::Config::default() });
            let mut ports = split(Box::new(ours), TAG, &[Id::Vlan(5)]).expect("a good trunk");
            (ports.remove(0), peer)
        };
        let (mut plain, mut plain_peer) = of_depth();
        let (mut keeping, mut keeping_peer) = of_depth();
        // Frames of less than 14 bytes cannot have a tag, so they come after the tagged ones.
        let mut tagged = tagged % (lens.len() + 1);
        let frame = |(number, &len): (usize, &usize)| {
            let len = if number < tagged { 14 + len } else { len };
            bytes(&[], number as u8, len)
        };
        let frames: Vec<_> = lens.iter().enumerate().map(frame).collect();
        let copies = |pool: &mut Pool| -> Burst {
            frames.iter().map(|frame| pool.copy_of(frame).expect("room")).collect()
        };
        let (mut without, mut with) = (copies(&mut pool), copies(&mut pool));
        for frame in with.iter_mut().take(tagged) {
            tag::push(frame, TAG, 5, &mut pool).expect("room");
        }
        while !without.is_empty() {
            let before = with.len();
            let taken = plain.tx_burst(&mut pool, &mut without);
            prop_assert_eq!(keeping.tx_burst_tagged(&mut pool, &mut with, &mut tagged), taken);
            prop_assert_eq!(with.len(), before - taken);
            let tag = keeping.own_tag().expect("a tag");
            prop_assert!(with.iter().take(tagged).all(|frame| tag.is_in(frame)));
            let rest = with.iter().zip(&without).skip(tagged);
            prop_assert!(rest.clone().all(|(a, b)| a.as_slice() == b.as_slice()));
            let wanted = slices(&receive(&mut plain_peer, &mut pool));
            prop_assert_eq!(slices(&receive(&mut keeping_peer, &mut pool)), wanted);
        }
        prop_assert!(with.is_empty() && tagged == 0);
        prop_assert_eq!(plain.drops().map(Drops::total), keeping.drops().map(Drops::total));
    }
}

/// If a tag is around another tag, the priority in the mbuf is that of the outer tag.
#[test]
fn frames_keep_no_tag_that_is_inside_another() {
    let (ours, _peer) = wire(Offloads::default());
    let outer = split(Box::new(ours), SERVICE_TAG, &[Id::Vlan(7)]).expect("a good trunk").remove(0);
    assert_eq!(outer.own_tag(), Some(Tag::new(SERVICE_TAG, 7)));
    let inner = split(Box::new(outer), TAG, &[Id::Vlan(5)]).expect("a good trunk").remove(0);
    assert_eq!(inner.own_tag(), None);
    let (ports, _peer) = trunk(&[Id::Untagged]);
    assert_eq!(ports[0].own_tag(), None);
}
