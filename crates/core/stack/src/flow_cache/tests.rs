use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use inet::FlowKey;
use slotmap::SlotMap;

use super::{FlowCache, SETS};
use crate::TcpHandle;

/// A thousand flows from one host to one server, which differ in one port: nearly all must have a
/// place.
#[test]
fn a_thousand_flows_have_their_places() {
    let v4: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
    let v6: IpAddr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
    for addr in [v4, v6] {
        let mut handles: SlotMap<TcpHandle, ()> = SlotMap::with_key();
        let mut cache = FlowCache::default();
        let keys: Vec<_> = (0..1000u16)
            .map(|i| (FlowKey::new(addr, 80, addr, 40_000 + i), handles.insert(())))
            .collect();
        for (key, handle) in &keys {
            cache.put(key, *handle);
        }
        let found = keys.iter().filter(|(k, h)| cache.get(k) == Some(*h)).count();
        assert!(found >= 950, "only {found} of 1000 flows have a place in {SETS} sets of two");
        let ghosts = (0..1000u16)
            .filter(|i| cache.get(&FlowKey::new(addr, 81, addr, 40_000 + i)).is_some())
            .count();
        assert_eq!(ghosts, 0, "flows that were not stored were found");
    }
}
