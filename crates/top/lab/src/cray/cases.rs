//! The rows of the table: the measurement, its settings, and the published figure.
//!
//! Called by: `cray.rs`. Source: D. Borman, "Implementing TCP/IP on a Cray computer", 1989.

use base::{LinkKind, Mtu, Switch};
use device::mem;
use stack::pair::PairConfig;
use wire::checksum::Ladder;

use crate::joined::Joining;

/// The settings of 1989.
pub(super) const BUFFER_BYTES: u32 = 512 << 10;
pub(super) const WINDOW_BYTES: u32 = 65_535;
pub(super) const MTU: usize = 32 << 10;
/// The size of packet with which HYPERchannel was fastest.
pub(super) const UNIT_BYTES: usize = 16 << 10;

/// The MTUs of the comparison by MTU.
const MTUS: [usize; 6] = [1_500, 4_096, 8_192, 16_384, 32_768, 65_535];

/// How a connection is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settings {
    /// 512 KB of buffers, a window of 64 KB, as in 1989.
    Of1989,
    /// The defaults of a connection.
    Today,
}

impl Settings {
    pub(super) fn tcp(self) -> tcp::Config {
        let mut config = tcp::Config::default();
        if self == Settings::Of1989 {
            config.set_fixed_buffers(BUFFER_BYTES, BUFFER_BYTES);
            // Without window scaling the window is 64 KB at most, however large the buffer is.
            config.window_scaling = false;
        }
        config
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Settings::Of1989 => "1989",
            Settings::Today => "today",
        }
    }
}

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// memcpy of a buffer that has this many bytes.
    Memcpy(usize),
    /// Both ends on one thread, real time.
    Memory { rung: Option<Ladder>, mtu: usize },
    /// Over a channel, in virtual time.
    Channel { mbps: u64, mtu: usize },
}

/// A row.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) heading: &'static str,
    pub(super) name: String,
    pub(super) settings: Settings,
    pub(super) what: What,
    /// The published figure in Mb/s, and the machine or the channel that it is from.
    pub(super) published: Option<(f64, &'static str)>,
}

/// The name of a checksum; `None` is no checksum.
pub(super) fn rung_name(rung: Option<Ladder>) -> &'static str {
    match rung {
        Some(Ladder::Byte) => "byte",
        Some(Ladder::Word16) => "16-bit words",
        Some(Ladder::Word64) => "64-bit words, portable",
        Some(Ladder::Avx2) => "AVX2",
        Some(Ladder::Avx512) => "AVX-512",
        None => "none",
    }
}

fn published_rung(rung: Option<Ladder>) -> Option<(f64, &'static str)> {
    match rung? {
        Ladder::Byte => Some((6.0, "characters in C")),
        Ladder::Word16 => Some((25.0, "words in C: 20 to 30")),
        Ladder::Word64 => Some((250.0, "CRAY Y-MP, scalar")),
        Ladder::Avx2 => Some((550.0, "CRAY Y-MP, vectors; X-MP 400, CRAY-2 310")),
        Ladder::Avx512 => None,
    }
}

/// All rows, in the order of the table.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for (bytes, name) in [(1 << 20, "1 MB, in a cache"), (256 << 20, "256 MB, in memory")] {
        cases.push(Case {
            heading: "memcpy on this machine",
            name: name.to_owned(),
            settings: Settings::Today,
            what: What::Memcpy(bytes),
            published: None,
        });
    }
    for settings in [Settings::Of1989, Settings::Today] {
        let (heading, mtu) = match settings {
            Settings::Of1989 => ("settings of 1989, by checksum", MTU),
            Settings::Today => ("settings of today, by checksum", 65_535),
        };
        for rung in Ladder::available().map(Some).chain([None]) {
            let published = published_rung(rung).filter(|_| settings == Settings::Of1989);
            let (name, what) = (rung_name(rung).to_owned(), What::Memory { rung, mtu });
            cases.push(Case { heading, name, settings, what, published });
        }
    }
    for settings in [Settings::Of1989, Settings::Today] {
        let heading = match settings {
            Settings::Of1989 => "settings of 1989, by MTU",
            Settings::Today => "settings of today, by MTU",
        };
        for mtu in MTUS {
            let what = What::Memory { rung: Some(Ladder::best()), mtu };
            cases.push(Case {
                heading,
                name: format!("MTU {mtu}"),
                settings,
                what,
                published: None,
            });
        }
    }
    let channels = [
        (850, MTU, "HSX, 850 Mb/s, MTU 32,768", Some((190.0, "CRAY-2 to X-MP"))),
        (100, UNIT_BYTES, "HYPERchannel, 100 Mb/s, MTU 16,384", Some((23.0, "HYPERchannel DX"))),
        (50, UNIT_BYTES, "HYPERchannel, 50 Mb/s, MTU 16,384", Some((12.0, "over 50 or 100 Mb/s"))),
    ];
    for settings in [Settings::Of1989, Settings::Today] {
        let heading = match settings {
            Settings::Of1989 => "over a channel, settings of 1989",
            Settings::Today => "over a channel, settings of today",
        };
        for (mbps, mtu, name, published) in channels {
            let published = published.filter(|_| settings == Settings::Of1989);
            let what = What::Channel { mbps, mtu };
            cases.push(Case { heading, name: name.to_owned(), settings, what, published });
        }
    }
    cases
}

/// The stacks of a row in memory.
pub(super) fn joining(settings: Settings, rung: Option<Ladder>, mtu: usize) -> Option<Joining> {
    let mut pair = PairConfig::new([0x1989, 0x850]);
    pair.wire = wire(mtu)?;
    pair.stack.ladder = rung;
    if rung.is_none() {
        let switches = pair.stack.switches;
        let off = switches.with(Switch::ChecksumRx, false).with(Switch::ChecksumTx, false);
        pair.stack.switches = off;
    }
    // 64 KB is the most that may wait to be sent, so that a turn has one call of `tcp_write`.
    Some(Joining { pair, tcp: settings.tcp(), write_bytes: 64 << 10 })
}

/// A wire that has no link headers, like the channels, and room for a whole window.
pub(super) fn wire(mtu: usize) -> Option<mem::Config> {
    Some(mem::Config {
        link: LinkKind::Ip,
        mtu: Mtu::new(mtu)?,
        depth_bytes: 1 << 20,
        ..mem::Config::default()
    })
}
