//! The stations behind the devices of a bridge or a switch, as learned from the frames that they
//! sent (IEEE 802.1D section 7.8).
//!
//! Called by: `bridge/side.rs`, `switch.rs`.

use base::MacAddr;

/// Maximum number of addresses learned per device. A further one replaces the oldest.
const STATIONS_MAX: usize = 64;

/// What a frame says about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// Nothing new.
    Known,
    /// The station is behind this device now.
    New,
    /// It was behind this other device before.
    Moved(usize),
}

/// The stations behind each device.
#[derive(Clone, Debug)]
pub(crate) struct Stations {
    behind: Vec<Vec<MacAddr>>,
}

impl Stations {
    /// No stations, behind so many devices.
    pub(crate) fn new(devices: usize) -> Stations {
        Stations { behind: vec![Vec::new(); devices] }
    }

    /// The device that leads to a station.
    pub(crate) fn device_to(&self, station: MacAddr) -> Option<usize> {
        self.behind.iter().position(|known| known.contains(&station))
    }

    /// A frame of `station` came from `device`: it is behind this device, and behind no other.
    pub(crate) fn learn(&mut self, device: usize, station: MacAddr) -> Learned {
        let before = self.device_to(station);
        if station.is_group() || before == Some(device) {
            return Learned::Known;
        }
        if let Some(before) = before {
            self.behind[before].retain(|&known| known != station);
        }
        let known = &mut self.behind[device];
        if known.len() >= STATIONS_MAX {
            known.remove(0);
        }
        known.push(station);
        before.map_or(Learned::New, Learned::Moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(number: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, number])
    }

    #[test]
    fn a_station_is_behind_the_device_that_it_sent_from_last() {
        let mut stations = Stations::new(2);
        assert_eq!(stations.device_to(station(1)), None);
        assert_eq!(stations.learn(0, station(1)), Learned::New);
        assert_eq!(stations.learn(0, station(1)), Learned::Known);
        assert_eq!(stations.learn(1, station(1)), Learned::Moved(0));
        assert_eq!(stations.device_to(station(1)), Some(1));
        assert_eq!(stations.learn(0, MacAddr([0xff; 6])), Learned::Known);
        assert_eq!(stations.device_to(MacAddr([0xff; 6])), None);
    }

    #[test]
    fn many_stations_replace_the_oldest_of_their_own_device() {
        let mut stations = Stations::new(2);
        stations.learn(1, station(200));
        for number in 0..=STATIONS_MAX as u8 {
            stations.learn(0, station(number));
        }
        assert_eq!(stations.device_to(station(0)), None);
        assert_eq!(stations.device_to(station(1)), Some(0));
        assert_eq!(stations.device_to(station(200)), Some(1));
    }
}
