//! Suites `filter` and `filter-soak`: the firewall beside the kernel's nftables, and with real
//! programs through it, between hosts that are the kernels of other namespaces. nfcapd collects
//! records of flows.
//!
//! The first case is a test program of `crates/core/stack`, which has the table of differences:
//! `WIRESPEED_NFT_SETS=N` asks for N sets of rules instead of 200, `WIRESPEED_NFT_FIRST=N` for the
//! first one's number. docs/filter.md.

mod ipfix;
mod lasting;
mod paths;
mod scans;
mod scene;
mod servers;
mod soak;

use super::ip::{PING, TCPDUMP, TSHARK};
use super::iperf::IPERF3;
use super::outside::{CURL, DNSMASQ, IP, NGINX, SOCAT, TUN};
use super::router::{PYTHON3, SS, TRACEROUTE};
use super::{Case, Need};

const NFT: Need = Need::Program { program: "nft", package: "nftables" };
const SSH: Need = Need::Program { program: "ssh", package: "openssh-client" };
const SSHD: Need = Need::Program { program: "sshd", package: "openssh-server" };
const NFCAPD: Need = Need::Program { program: "nfcapd", package: "nfdump" };
const NMAP: Need = Need::Program { program: "nmap", package: "nmap" };
const HPING: Need = Need::Program { program: "hping3", package: "hping3" };
const SCAPY: Need = Need::Program { program: "scapy3", package: "python3-scapy" };
const TRACEPATH: Need = Need::Program { program: "tracepath", package: "iputils-tracepath" };
const VSFTPD: Need = Need::Program { program: "vsftpd", package: "vsftpd" };

pub(super) const CASES: &[Case] = &[
    Case {
        name: "verdicts and translations are those of nftables, but for a table of differences",
        needs: &[Need::Root, TUN, IP, NFT],
        run: |bench| bench.test_program("nft"),
    },
    Case {
        name: "iperf3 both ways, TCP and UDP, through states and translation, IPv4 and IPv6",
        needs: &[Need::Root, TUN, IP, SS, PING, IPERF3],
        run: servers::iperf,
    },
    Case {
        name: "curl and nginx: through NAT, behind `dest`, and by a hairpin",
        needs: &[Need::Root, TUN, IP, SS, PING, CURL, NGINX],
        run: servers::web,
    },
    Case {
        name: "passive FTP in and out, by a range of ports in the rules",
        needs: &[Need::Root, TUN, IP, SS, PING, CURL, VSFTPD],
        run: servers::ftp,
    },
    Case {
        name: "ssh stays open over 20 reloads, and ends with the rule that passes it",
        needs: &[Need::Root, TUN, IP, SS, PING, SSH, SSHD],
        run: lasting::ssh,
    },
    Case {
        name: "nmap -sS, -sA and -sU see what the rules say",
        needs: &[Need::Root, TUN, IP, SS, PING, NMAP, SOCAT],
        run: scans::nmap,
    },
    Case {
        name: "hping3's and scapy's forged RSTs and ICMP errors end no flow",
        needs: &[Need::Root, TUN, IP, SS, PING, HPING, PYTHON3, SCAPY, SOCAT],
        run: scans::forged,
    },
    Case {
        name: "scapy's fragments: in any order, but not over headers",
        needs: &[Need::Root, TUN, IP, SS, PING, PYTHON3, SCAPY, SOCAT],
        run: scans::fragments,
    },
    Case {
        name: "traceroute and tracepath through NAT show each hop and each MTU",
        needs: &[Need::Root, TUN, IP, PING, TRACEROUTE, TRACEPATH],
        run: paths::traced,
    },
    Case {
        name: "a STUN client names mapping and filtering as configured",
        needs: &[Need::Root, TUN, IP, PING, PYTHON3],
        run: paths::stun,
    },
    Case {
        name: "nfcapd has the flows and their translation by IPFIX, also after it was away",
        needs: &[Need::Root, TUN, IP, PING, TCPDUMP, TSHARK, NFCAPD, CURL, SOCAT, PYTHON3],
        run: ipfix::collected,
    },
];

pub(super) const SOAK: &[Case] = &[Case {
    name: "rules, links and addresses change at random while flows pass",
    needs: &[Need::Root, TUN, IP, SS, PYTHON3, DNSMASQ, TCPDUMP],
    run: soak::run,
}];
