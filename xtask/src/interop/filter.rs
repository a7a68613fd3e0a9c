//! Suite `filter`: the kernel's nftables and our firewall decide alike on the same packets, with
//! random rules and with NAT; that case is a test program of `crates/core/stack`, which has the
//! table of differences. nfcapd collects records of flows.
//!
//! `WIRESPEED_NFT_SETS=N` asks for N sets of rules instead of 200, `WIRESPEED_NFT_FIRST=N` for the
//! first one's number. docs/filter.md.

mod ipfix;

use super::ip::{PING, TCPDUMP, TSHARK};
use super::outside::{IP, SOCAT, TUN};
use super::{Case, Need};

const NFT: Need = Need::Program { program: "nft", package: "nftables" };

const NFCAPD: Need = Need::Program { program: "nfcapd", package: "nfdump" };
const CURL: Need = Need::Program { program: "curl", package: "curl" };
const PYTHON3: Need = Need::Program { program: "python3", package: "python3" };

pub(super) const CASES: &[Case] = &[
    Case {
        name: "verdicts and translations are those of nftables, but for a table of differences",
        needs: &[Need::Root, TUN, IP, NFT],
        run: |bench| bench.test_program("nft"),
    },
    Case {
        name: "nfcapd has the flows and their translation by IPFIX, also after it was away",
        needs: &[Need::Root, TUN, IP, PING, TCPDUMP, TSHARK, NFCAPD, CURL, SOCAT, PYTHON3],
        run: ipfix::collected,
    },
];
