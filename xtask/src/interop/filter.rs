//! Suite `filter`: the kernel's nftables and our firewall decide alike on the same packets, with
//! random rules and with NAT. The case is a test program of `crates/core/stack`, which has the
//! table of differences.
//!
//! `WIRESPEED_NFT_SETS=N` asks for N sets of rules instead of 200, `WIRESPEED_NFT_FIRST=N` for the
//! first one's number. docs/filter.md.

use super::outside::{IP, TUN};
use super::{Case, Need};

const NFT: Need = Need::Program { program: "nft", package: "nftables" };

pub(super) const CASES: &[Case] = &[Case {
    name: "verdicts and translations are those of nftables, but for a table of differences",
    needs: &[Need::Root, TUN, IP, NFT],
    run: |bench| bench.test_program("nft"),
}];
