//! Files: read back, cut off, of other writers, in a row and in a ring.

use super::*;

#[test]
fn a_file_is_read_back_as_it_was_written() {
    let path = capture("readback.pcapng", "300");
    let path = path.to_str().expect("a path in UTF-8");
    let shown = run(&["dump", "-r", path, "-e", "-S"]);
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    assert_eq!(text(&shown).lines().count(), 300);
    let copy = place("copied.pcapng");
    let copy = copy.to_str().expect("a path in UTF-8");
    let copied = run(&["dump", "-r", path, "-w", copy]);
    assert_eq!(code(&copied), 0, "{}", stderr(&copied));
    assert_eq!(text(&run(&["dump", "-r", copy, "-e", "-S"])), text(&shown));
    let ten = run(&["dump", "-r", path, "-c", "10"]);
    assert_eq!(text(&ten).lines().count(), 10);
}

#[test]
fn a_file_that_is_cut_off_gives_what_it_has_and_says_so() {
    let path = capture("whole.pcapng", "50");
    let bytes = std::fs::read(&path).expect("it was written");
    let cut = place("cut.pcapng");
    // The last block has the statistics of two ports; the cut is within a packet before it.
    std::fs::write(&cut, &bytes[..bytes.len() - 400]).expect("room");
    let output = run(&["dump", "-r", cut.to_str().expect("UTF-8")]);
    assert_eq!(code(&output), 1);
    let lines = text(&output).lines().count();
    assert!((40..50).contains(&lines), "{lines}");
    assert!(stderr(&output).contains("cut off or damaged"), "{}", stderr(&output));
    let (other, _) = crate::common::file("no-capture", 500);
    let output = run(&["dump", "-r", other.to_str().expect("UTF-8")]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("no capture"), "{}", stderr(&output));
}

#[test]
fn what_a_full_disk_took_is_whole() {
    let running = Running::start("1").ready();
    let path = place("full.pcapng");
    let path = path.to_str().expect("a path in UTF-8");
    // A limit of 40 blocks of 512 bytes: the last write succeeds in part.
    let script = format!("trap '' XFSZ; ulimit -f 40; exec $WIRESPEED dump -w {path}");
    let output = running.shell(&script);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("the packets in it are whole"), "{}", stderr(&output));
    let read = run(&["dump", "-r", path]);
    assert_eq!(code(&read), 0, "{}", stderr(&read));
    assert!(text(&read).lines().count() > 5, "{}", text(&read));
    let device = running.ask(&["dump", "-w", "/dev/full"]);
    assert_eq!(code(&device), 1);
    assert!(stderr(&device).contains("make room on the disk"), "{}", stderr(&device));
}

#[test]
fn files_follow_each_other_by_size() {
    let running = Running::start("1").ready();
    let path = place("rotated");
    let name = path.to_str().expect("UTF-8");
    let output = running.ask(&["dump", "-c", "3000", "-C", "1", "-w", name]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let count = |name: &str| {
        let shown = run(&["dump", "-r", name]);
        assert_eq!(code(&shown), 0, "{name}: {}", stderr(&shown));
        text(&shown).lines().count()
    };
    let (first, second) = (count(name), count(&format!("{name}1")));
    assert!(first > 100 && second > 100, "{first} and {second}");
}

#[test]
fn a_pcap_file_is_read_whoever_wrote_it() {
    let orders = [u32::to_le_bytes as fn(u32) -> [u8; 4], u32::to_be_bytes];
    for (number, order) in orders.into_iter().enumerate() {
        for (magic, fraction) in [(MICRO, 5), (NANO, 5_000)] {
            let name = format!("made-{number}-{magic}.pcap");
            let path = pcap(&name, order, [magic, ETHERNET], &[(1, fraction)]);
            let mut dump = program();
            let output = dump.args(["dump", "-r", path.as_str()]).env("TZ", "UTC0").output();
            let shown = text(&output.expect("the program starts"));
            assert!(shown.starts_with("00:00:01.000005 02:00:00:00:00:01 > "), "{name}: {shown}");
            assert!(shown.contains("(0x88b5), length 60: \n\t0x0000:  0000 "), "{name}: {shown}");
        }
    }
}

#[test]
fn sections_behind_each_other_keep_their_interfaces() {
    let ethernet = pcap("one.pcap", u32::to_le_bytes, [MICRO, ETHERNET], &[(1, 0), (2, 0)]);
    let ip = pcap("two.pcap", u32::to_le_bytes, [MICRO, RAW_IP], &[(3, 0)]);
    let sections = [
        written("one.pcapng", &["dump", "-r", &ethernet]),
        written("two.pcapng", &["dump", "-r", &ip]),
    ];
    let both = place("both.pcapng");
    let bytes = sections.map(|path| std::fs::read(path).expect("it was written"));
    std::fs::write(&both, bytes.concat()).expect("room");
    let both = both.to_str().expect("a path in UTF-8");
    let shown = text(&run(&["dump", "-r", both]));
    assert_eq!(packets(&shown), 3, "{shown}");
    assert_eq!(shown.matches("IP 192.0.2.1 > 192.0.2.2:  ip-proto-253 0").count(), 1, "{shown}");
    let copy = written("both-copied.pcapng", &["dump", "-r", both]);
    assert_eq!(text(&run(&["dump", "-r", &copy])), shown);
}

#[test]
fn a_capture_of_nothing_is_copied_whole() {
    let empty = pcap("empty.pcap", u32::to_le_bytes, [MICRO, RAW_IP], &[]);
    let none = written("none.pcapng", &["dump", "-r", &empty]);
    let copy = written("none-copied.pcapng", &["dump", "-r", &none]);
    let len = |path: &str| std::fs::metadata(path).expect("it was written").len();
    // A section header, an interface with its name, its statistics.
    assert!(len(&none) > 28 + 40 + 50, "{}", len(&none));
    assert_eq!(len(&copy), len(&none));
}

#[test]
fn files_are_called_by_the_times_of_their_packets() {
    let times = [(1_000, 0), (1_059, 0), (1_060, 0)];
    let path = pcap("timed.pcap", u32::to_le_bytes, [MICRO, ETHERNET], &times);
    written("timed-%s.pcapng", &["dump", "-r", &path, "-G", "60"]);
    for (name, packets) in [("timed-1000.pcapng", 2), ("timed-1060.pcapng", 1)] {
        let shown = run(&["dump", "-r", place(name).to_str().expect("a path in UTF-8")]);
        assert_eq!(self::packets(&text(&shown)), packets, "{name}: {}", stderr(&shown));
    }
    // Without `-G` the name is used unchanged.
    let path = written("sized-%s.pcapng", &["dump", "-r", &path, "-C", "1"]);
    assert!(std::fs::exists(&path).expect("the folder can be read"));
}

#[test]
fn files_are_a_ring_by_size_and_come_to_an_end_by_time() {
    let times: Vec<(u32, u32)> = (0..9).map(|minute| (minute * 60, 0)).collect();
    let path = pcap("minutes.pcap", u32::to_le_bytes, [MICRO, ETHERNET], &times);
    written("minutes.pcapng", &["dump", "-r", &path, "-G", "60", "-W", "3"]);
    let exists = |name: &str| std::fs::exists(place(name)).expect("the folder can be read");
    assert!(exists("minutes.pcapng2") && !exists("minutes.pcapng3"));
    let running = Running::start("1").ready();
    let ring = place("ring");
    let name = ring.to_str().expect("UTF-8");
    let output = running.ask(&["dump", "-c", "6000", "-C", "1", "-W", "2", "-w", name]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(exists("ring0") && exists("ring1") && !exists("ring2"));
    let output = run(&["dump", "-W", "2", "-w", name]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
}
