//! Writes files and reads them back: which files there are, and the statistics at their ends.

use std::fs;
use std::path::PathBuf;

use pcap_file::pcapng::{Block, PcapNgReader};

use super::*;

/// A directory that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("wsdump-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("room for a folder");
        Folder(folder)
    }

    /// The files in it, by name.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it is there");
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = entries.map(|entry| name(entry.expect("a file"))).collect();
        names.sort();
        names
    }

    /// The content of a file: number of interfaces, number of packets, packets lost by each
    /// statistic.
    fn content(&self, name: &str) -> (usize, usize, Vec<u64>) {
        let file = File::open(self.0.join(name)).expect("it was written");
        let mut reader = PcapNgReader::new(file).expect("a section");
        let (mut interfaces, mut packets, mut lost) = (0, 0, Vec::new());
        while let Some(block) = reader.next_block() {
            match block.expect("a block").0 {
                Block::InterfaceDescription(_) => interfaces += 1,
                Block::EnhancedPacket(_) => packets += 1,
                Block::InterfaceStatistics(block) => {
                    lost.extend(block.options.iter().filter_map(|option| match option {
                        InterfaceStatisticsOption::IsbOsDrop(lost) => Some(*lost),
                        _ => None,
                    }));
                }
                other => panic!("{other:?}"),
            }
        }
        (interfaces, packets, lost)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn port(name: &str) -> Port {
    Port { name: name.to_owned(), link: Link::RAW }
}

fn packet(seconds: u64, len: usize) -> Packet {
    Packet {
        time_ns: seconds * 1_000_000_000,
        link: Link::RAW,
        port: 0,
        direction: None,
        wire_len: len as u32,
        segment_bytes: 0,
        bytes: vec![0x45; len],
    }
}

fn lost(dropped: u64) -> Vec<Counted> {
    vec![Counted { seen: 9, matched: 8, dropped }]
}

#[test]
fn every_file_says_what_was_lost_until_its_end() {
    let folder = Folder::new("lost");
    let rotation = Rotation { seconds: Some(60), ..Rotation::default() };
    let path = folder.0.join("cap");
    let mut writer =
        Writer::new(&path, rotation, Some(0), vec![port("a")], 65_535, false).expect("room");
    for (seconds, dropped) in [(10, 1), (69, 2), (70, 3), (200, 4)] {
        writer.write(&packet(seconds, 40), || lost(dropped)).expect("room");
    }
    writer.finish(&[port("a")], &lost(5), 300_000_000_000).expect("room");
    assert_eq!(folder.names(), ["cap", "cap1", "cap2"]);
    let contents = folder.names().into_iter().map(|name| folder.content(&name));
    assert_eq!(contents.collect::<Vec<_>>(), [(1, 2, vec![3]), (1, 1, vec![4]), (1, 1, vec![5])]);
}

#[test]
fn a_file_of_no_packets_has_the_ports_that_were_found() {
    let folder = Folder::new("none");
    let path = folder.0.join("cap");
    let rotation = Rotation::default();
    let writer = Writer::new(&path, rotation, None, Vec::new(), 65_535, false).expect("room");
    let counted = [lost(1), lost(2)].concat();
    writer.finish(&[port("a"), port("b")], &counted, 0).expect("room");
    assert_eq!(folder.content("cap"), (2, 0, vec![1, 2]));
}

#[test]
fn a_file_that_is_read_gives_its_times_to_the_names() {
    let folder = Folder::new("times");
    let path = folder.0.join("cap-%s");
    let rotation = Rotation { seconds: Some(60), ..Rotation::default() };
    let mut writer =
        Writer::new(&path, rotation, None, vec![port("a")], 65_535, false).expect("room");
    assert!(folder.names().is_empty());
    for seconds in [1_000, 1_059, 1_060] {
        writer.write(&packet(seconds, 40), Vec::new).expect("room");
    }
    writer.finish(&[], &[], 0).expect("room");
    assert_eq!(folder.names(), ["cap-1000", "cap-1060"]);
    assert_eq!(folder.content("cap-1000"), (1, 2, vec![]));
}

#[test]
fn the_largest_size_is_one_that_no_file_reaches() {
    let folder = Folder::new("largest");
    let path = folder.0.join("cap");
    for (millions, files) in [(u64::MAX, 1), (1, 3)] {
        let rotation = Rotation { megabytes: Some(millions), seconds: Some(u64::MAX), files: None };
        let mut writer =
            Writer::new(&path, rotation, Some(0), vec![port("a")], 65_535, false).expect("room");
        for _ in 0..40 {
            writer.write(&packet(0, 60_000), Vec::new).expect("room");
        }
        writer.finish(&[], &[], 0).expect("room");
        assert_eq!(folder.names().len(), files);
    }
}
