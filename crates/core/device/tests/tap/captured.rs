//! A capture of a TAP's traffic, opened with tshark.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::LinkKind;
use mbuf::Flags;
use testbed::{Case, Need};
use wirespeed_device::capture::Capture;
use wirespeed_device::counted::Counted;
use wirespeed_device::{Burst, Device};

use crate::ends::{End, ours};
use crate::frames;
use crate::wire::socket;

pub(crate) const CASES: &[Case] = &[
    ("tshark_opens_a_capture_of_a_tap", &[Need::TSHARK], || opens(LinkKind::Ethernet)),
    ("tshark_opens_a_capture_of_a_tun", &[Need::TSHARK], || opens(LinkKind::Ip)),
];

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Frames in both directions pass a capture. They are compared with counters around it and with
/// tshark's output.
fn opens(link: LinkKind) {
    let mut end = End::new(link, true);
    end.echo_both_ways();
    let (socket, address) = socket(false);
    let to = (address.ip(), address.port());
    let mut partial = end.frame(&frames::datagram((ours(false), 1000), to, b"to the kernel"));
    partial.set(Flags::CSUM_PARTIAL);
    partial.set_csum(end.link_len() as u16 + 20);
    let path = std::env::temp_dir().join(format!("wsdev-{}-{link:?}.pcapng", std::process::id()));
    let file = File::create(&path).expect("the temporary folder can be written");
    let End { tap, mut pool, .. } = end;
    let (device, status) = Capture::new(tap, file, now).expect("there is room for the head");
    let (mut device, counts) = Counted::new(device);

    let mut burst = Burst::from_iter([partial]);
    device.tx_burst(&mut pool, &mut burst);
    let mut text = [0; 100];
    assert_eq!(socket.recv(&mut text).ok(), Some(13));
    socket.send_to(b"from the kernel", (ours(false), 1000)).expect("room in the kernel");
    let until = now() + Duration::from_secs(10);
    while counts.totals().rx.frames == 0 && now() < until {
        device.rx_burst(&mut pool, &mut burst);
    }
    drop(device);
    assert_eq!(status.error(), None);

    let fields =
        ["frame.time_epoch", "frame.packet_flags_direction", "udp.length", "frame.comment"];
    let fields = fields.map(|field| ["-e", field]).concat();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(["-T", "fields"]).args(fields);
    let output = tshark.output().expect("it was found");
    std::fs::remove_file(&path).expect("it is there");
    let said = String::from_utf8_lossy(&output.stderr);
    let complaint = said.lines().find(|l| !l.is_empty() && !l.starts_with("Running as user"));
    assert!(output.status.success() && complaint.is_none(), "{complaint:?}");
    let rows = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split('\t').collect()).collect();
    let totals = counts.totals();
    assert_eq!(rows.len() as u64, totals.rx.frames + totals.tx.frames, "{rows:?}");
    assert_eq!(status.frames(), rows.len() as u64);
    let sent = &rows[0];
    assert!(sent[1].ends_with('2') && sent[2] == "21", "{sent:?}");
    assert_eq!(sent[3], "transport checksum left to the device");
    let received = rows.iter().find(|row| row[2] == "23").expect("the kernel's datagram");
    assert!(received[1].ends_with('1'), "{received:?}");
    assert_eq!(received[0].split('.').nth(1).map(str::len), Some(9), "nanoseconds");
}
