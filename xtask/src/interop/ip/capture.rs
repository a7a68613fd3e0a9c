//! Captures the frames of a case with tcpdump, and checks them with tshark when it ends.
//!
//! tshark can verify checksums only if no device finishes them later. So our programs run with
//! `--offload off`; then the kernel finishes its own before it gives a frame to the TAP.

use super::steps::{LIMIT, sysctl, until};
use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use crate::interop::outside::shown;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A display filter that no frame may match. An ICMP error quotes the beginning of a segment, whose
/// checksum is that of all of it; tshark adds up the beginning and calls the checksum an error. The
/// kernel writes a TCP checksum of zero as 0xffff now and then, the other zero of one's complement
/// (RFC 1624 section 3), which every receiver accepts; tshark calls that an error too.
const WRONG: &str = "_ws.malformed || ip.checksum.status == 0 || icmp.checksum.status == 0 || \
                     icmpv6.checksum.status == 0 || igmp.checksum.status == 0 || \
                     (!icmp && !icmpv6 && \
                     !tcp.checksum.ffff && \
                     (_ws.expert.severity == \"Error\" || \
                     tcp.checksum.status == 0 || udp.checksum.status == 0))";

/// A display filter that no segment matches on a wire that loses nothing.
const AGAIN: &str = "tcp.analysis.retransmission || tcp.analysis.fast_retransmission || \
                     tcp.analysis.spurious_retransmission || tcp.analysis.lost_segment";

/// The most bytes of tshark's complaints that an error shows.
const SHOWN: usize = 2_000;

/// tcpdump on an interface of a host.
pub(in crate::interop) struct Capture {
    tcpdump: Running,
    path: PathBuf,
    said: PathBuf,
}

impl Capture {
    /// Start tcpdump; returns when it captures frames.
    pub(in crate::interop) fn start(
        bench: &Workbench,
        host: &Host<'_>,
        interface: &str,
    ) -> Result<Capture> {
        // No tail loss probes: a busy machine's late acknowledgement would draw one (RFC 8985
        // section 7).
        sysctl(bench, host, "ipv4/tcp_early_retrans", "0")?;
        let name = format!("tcpdump-{interface}");
        let path = bench.path(&format!("{interface}.pcap"));
        let said = bench.path(&format!("{name}.err"));
        let mut tcpdump = host.command("tcpdump");
        // 256 MB for frames that are not written yet: none may be missing.
        tcpdump.args(["-i", interface, "-U", "-B", "262144", "-Z", "root", "-w", shown(&path)?]);
        let tcpdump = host.start(&name, &mut tcpdump)?;
        until("tcpdump listens", LIMIT, || {
            Ok(std::fs::read_to_string(&said)?.contains("listening on"))
        })?;
        Ok(Capture { tcpdump, path, said })
    }

    /// End tcpdump; returns the capture, in which no frame is missing.
    pub(in crate::interop) fn finish(self, bench: &Workbench) -> Result<Captured<'_>> {
        // tcpdump gets frames each second, and at its end takes none that wait.
        std::thread::sleep(Duration::from_millis(1_200));
        let id = self.tcpdump.id().to_string();
        bench.run(Command::new("kill").args(["-INT", &id]), LIMIT)?;
        self.tcpdump.finish(LIMIT)?;
        let said = std::fs::read_to_string(&self.said)?;
        ensure!(said.contains("\n0 packets dropped by kernel"), "tcpdump missed frames: {said}");
        Ok(Captured { bench, path: self.path })
    }
}

/// The frames of a capture, read by tshark.
pub(in crate::interop) struct Captured<'a> {
    bench: &'a Workbench,
    path: PathBuf,
}

impl Captured<'_> {
    /// A line for each frame that the display filter takes, with these fields, tabs between.
    pub(in crate::interop) fn lines(&self, filter: &str, fields: &[&str]) -> Result<Vec<String>> {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r", shown(&self.path)?]);
        for protocol in ["ip", "tcp", "udp"] {
            tshark.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
        }
        // The bytes of files have no meaning, so dissectors must not guess at them.
        tshark.args(["-d", "tcp.port==5001,data"]);
        tshark.args(["-Y", filter, "-T", "fields", "-e", "frame.number"]);
        tshark.args(fields.iter().flat_map(|field| ["-e", field]));
        let text = self.bench.run(&mut tshark, LIMIT)?;
        let without_number = |line: &str| line.split_once('\t').map_or("", |(_, rest)| rest).into();
        Ok(text.lines().map(without_number).collect())
    }

    /// The number of frames that match the display filter.
    pub(in crate::interop) fn count(&self, filter: &str) -> Result<usize> {
        self.lines(filter, &[]).map(|lines| lines.len())
    }

    /// Check that some frame matches this display filter.
    pub(in crate::interop) fn has(&self, filter: &str) -> Result<()> {
        ensure!(self.count(filter)? > 0, "no frame in the capture is `{filter}`");
        Ok(())
    }

    /// Check that tshark understands every frame, no checksum is wrong, and no segment was sent
    /// twice.
    pub(in crate::interop) fn is_clean(&self) -> Result<()> {
        self.has_no(&format!("{WRONG} || {AGAIN}"))
    }

    /// The same where frames are lost on purpose: segments may have been sent again.
    pub(in crate::interop) fn is_sound(&self) -> Result<()> {
        self.has_no(WRONG)
    }

    /// The same where some frames are refused, which this filter takes: TCP sends again after the
    /// first of them, and each segment that was refused in no more than `pieces`.
    pub(in crate::interop) fn is_clean_but_for(&self, refused: &str, pieces: usize) -> Result<()> {
        self.has_no(WRONG)?;
        let refused = self.lines(refused, &["frame.number"])?;
        let first = refused.first().context("nothing was refused")?;
        self.has_no(&format!("frame.number < {first} && ({AGAIN})"))?;
        let again = self.count(AGAIN)?;
        let most = refused.len() * pieces;
        ensure!(again <= most, "{again} segments were sent again for {} refused", refused.len());
        Ok(())
    }

    fn has_no(&self, filter: &str) -> Result<()> {
        // The header of a capture without frames.
        ensure!(std::fs::metadata(&self.path)?.len() > 24, "nothing was captured");
        let columns = ["frame.number", "frame.time_relative", "_ws.col.Info", "_ws.expert.message"];
        let mut wrong = self.lines(filter, &columns)?.join("\n");
        if wrong.len() > SHOWN {
            wrong.truncate(wrong.floor_char_boundary(SHOWN));
        }
        ensure!(wrong.is_empty(), "tshark complains of frames:\n{wrong}");
        Ok(())
    }
}
