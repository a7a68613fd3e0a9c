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
    Port::new(name.to_owned(), Link::RAW)
}

/// A writer of one port.
fn writer(path: &Path, rotation: Rotation, begins_ns: Option<u64>, ports: Vec<Port>) -> Writer {
    let how = How { rotation, begins_ns, snaplen: 65_535, unbuffered: false, inputs: Vec::new() };
    Writer::new(path, how, ports).expect("room")
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
    let mut writer = writer(&path, rotation, Some(0), vec![port("a")]);
    for (seconds, dropped) in [(10, 1), (59, 2), (60, 3), (200, 4)] {
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
    let writer = writer(&path, rotation, None, Vec::new());
    let counted = [lost(1), lost(2)].concat();
    writer.finish(&[port("a"), port("b")], &counted, 0).expect("room");
    assert_eq!(folder.content("cap"), (2, 0, vec![1, 2]));
}

#[test]
fn a_file_that_is_read_gives_its_times_to_the_names() {
    let folder = Folder::new("times");
    let path = folder.0.join("cap-%s");
    let rotation = Rotation { seconds: Some(60), ..Rotation::default() };
    let mut writer = writer(&path, rotation, None, vec![port("a")]);
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
        let mut writer = writer(&path, rotation, Some(0), vec![port("a")]);
        for _ in 0..40 {
            writer.write(&packet(0, 60_000), Vec::new).expect("room");
        }
        writer.finish(&[], &[], 0).expect("room");
        assert_eq!(folder.names().len(), files);
    }
}

#[test]
fn periods_follow_each_other_by_the_clock() {
    const SECOND_NS: u64 = 1_000_000_000;
    let folder = Folder::new("clock");
    let rotation = Rotation { seconds: Some(60), files: Some(4), ..Rotation::default() };
    let begins_ns = Some(1_000 * SECOND_NS);
    let mut writer = writer(&folder.0.join("cap-%s"), rotation, begins_ns, vec![port("a")]);
    let mut passes = |at: u64| writer.pass_time(at * SECOND_NS, || lost(7)).expect("room");
    assert!(passes(1_059) && passes(1_075) && passes(1_119));
    // A packet late in its period moves no period; one of the period before goes into this one.
    assert!(writer.write(&packet(1_170, 40), || lost(8)).expect("room"));
    assert!(writer.write(&packet(1_110, 40), || lost(8)).expect("room"));
    // One period is left out: nobody looked.
    let mut passes = |at: u64| writer.pass_time(at * SECOND_NS, || lost(9)).expect("room");
    assert!(passes(1_240) && passes(1_299));
    assert!(!passes(1_300));
    writer.finish(&[port("a")], &lost(10), 1_300 * SECOND_NS).expect("room");
    let names = ["cap-1000", "cap-1060", "cap-1120", "cap-1240"];
    assert_eq!(folder.names(), names);
    let contents: Vec<_> = names.iter().map(|name| folder.content(name)).collect();
    let expected = [(1, 0, vec![7]), (1, 0, vec![8]), (1, 2, vec![9]), (1, 0, vec![10])];
    assert_eq!(contents, expected);
}

#[test]
fn a_file_that_is_read_is_not_written_over_under_any_name() {
    let folder = Folder::new("same");
    let path = folder.0.join("in");
    fs::write(&path, "what was captured").expect("room");
    std::os::unix::fs::symlink("in", folder.0.join("soft")).expect("room");
    fs::hard_link(&path, folder.0.join("hard")).expect("room");
    let id = fs::metadata(&path).ok().and_then(|metadata| FileId::of(&metadata));
    let at = |name: &str, rotation| {
        let inputs = id.into_iter().collect();
        let how = How { rotation, begins_ns: None, snaplen: 1, unbuffered: false, inputs };
        Writer::new(&folder.0.join(name), how, vec![port("a")])
    };
    for name in ["in", "soft", "hard"] {
        let error = at(name, Rotation::default()).err().expect("it would be destroyed");
        assert!(error.is::<Usage>(), "{error:#}");
    }
    // The second file of the ring would be that file.
    fs::rename(&path, folder.0.join("ring1")).expect("room");
    let rotation = Rotation { megabytes: Some(1), files: Some(2), ..Rotation::default() };
    let mut writer = at("ring", rotation).expect("the first is another");
    let written: Result<Vec<bool>> =
        (0..40).map(|_| writer.write(&packet(0, 60_000), Vec::new)).collect();
    assert!(written.err().is_some_and(|error| error.is::<Usage>()));
    let left = fs::read_to_string(folder.0.join("ring1")).expect("it is there");
    assert_eq!(left, "what was captured");
}
