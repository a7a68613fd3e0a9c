//! Suite `attacks`: the attacks of docs/attacks.md, run by the tools that people use, against a
//! stack on a TAP, while a well-behaved peer moves data.
//!
//! It is a command of its own, `cargo xtask interop attacks`, and not part of `cargo xtask test`:
//! it takes minutes. Each case prints `attack | expected | seen`. It passes if `services` still
//! runs, resident memory is bounded, the peer got all its bytes back, the answers are the expected
//! ones, and every drop is counted by name. Everything runs in a namespace of its own; packet
//! counts are bounded.

mod configured;
mod router;
mod scene;
mod sweeps;

use super::outside::{IP, TUN};
use super::{Case, Need};
use anyhow::Result;
use scene::{PYTHON, Scene};

const PING: Need = Need::Program { program: "ping", package: "iputils-ping" };
const SCAPY: Need = Need::Program { program: "scapy3", package: "python3-scapy" };
const HPING: Need = Need::Program { program: "hping3", package: "hping3" };
const NMAP: Need = Need::Program { program: "nmap", package: "nmap" };
const THC: Need = Need::Program { program: "atk6-implementation6", package: "thc-ipv6" };
const DSNIFF: Need = Need::Program { program: "arpspoof", package: "dsniff" };

const BY_SCAPY: &[Need] = &[Need::Root, TUN, IP, PING, Need::File(PYTHON), SCAPY];
const BY_HPING: &[Need] = &[Need::Root, TUN, IP, PING, Need::File(PYTHON), HPING];
const BY_NMAP: &[Need] = &[Need::Root, TUN, IP, PING, Need::File(PYTHON), NMAP];
const BY_THC: &[Need] = &[Need::Root, TUN, IP, PING, Need::File(PYTHON), THC];
const BY_DSNIFF: &[Need] = &[Need::Root, TUN, IP, PING, Need::File(PYTHON), DSNIFF];

/// The program that attacks.
enum Shot {
    /// An attack of attacker.py, which checks the result itself.
    Python(&'static str),
    /// A tool with its arguments, and its maximum run time in seconds.
    Tool(&'static str, u64),
}

struct Attack {
    name: &'static str,
    expected: &'static str,
    shots: &'static [Shot],
    /// Drops and counters that must have grown, alternatives joined by `|`.
    counted: &'static [&'static str],
    /// Drops and counters that must not have grown.
    never: &'static [&'static str],
}

macro_rules! attacks {
    ($($needs:ident $name:literal: $expected:literal, $counted:expr, not $never:expr,
       $shots:expr;)*) => {
        pub(super) const CASES: &[Case] = &[
            Case {
                name: "nmap's sweeps and what it makes of us",
                needs: BY_NMAP,
                run: sweeps::run,
            },
            Case {
                name: "a port configured by radvd",
                needs: configured::BY_RADVD,
                run: configured::by_radvd,
            },
            Case {
                name: "a port configured by DHCP",
                needs: configured::BY_DNSMASQ,
                run: configured::by_dnsmasq,
            },
            Case {
                name: "forged offers while a port asks for an address",
                needs: BY_SCAPY,
                run: configured::rogue_dhcp,
            },
            Case {
                name: "denial of duplicate address detection",
                needs: BY_THC,
                run: configured::denied_dad,
            },
            Case {
                name: "forged answers of name servers",
                needs: BY_SCAPY,
                run: configured::forged_dns,
            },
            Case {
                name: "at a router: martians, land, smurf, source routes, scans, claims",
                needs: router::NEEDS,
                run: router::run,
            },
            $(Case {
                name: $name,
                needs: $needs,
                run: |bench| fire(&mut Scene::new(bench)?, &Attack {
                    name: $name,
                    expected: $expected,
                    counted: &$counted,
                    never: &$never,
                    shots: &$shots,
                }),
            },)*
        ];
    };
}

use Shot::{Python, Tool};

attacks! {
    BY_HPING "SYN flood": "cookies; new connections open all the same",
        ["tcp_cookies_sent|tcp_backlog_full|tcp_half_open_replaced"], not [],
        [Tool("hping3 -n -q -I ws0 -S -p 7 -i u50 -c 40000 --rand-source 10.9.0.2", 12)];
    BY_HPING "ACK flood": "RST within resets_per_second, no state",
        ["tcp_listen_ack"], not ["tcp_cookies_accepted"],
        [Tool("hping3 -n -q -I ws0 -A -p 7 -i u50 -c 30000 --rand-source 10.9.0.2", 10)];
    BY_HPING "land": "dropped",
        ["tcp_land"], not [],
        [Tool("hping3 -n -q -I ws0 -S -a 10.9.0.2 -s 7 -p 7 -k -i u1000 -c 300 10.9.0.2", 5)];
    BY_HPING "urgent flags": "no harm, RST or challenge",
        ["tcp_listen_ack|tcp_listen_not_syn|tcp_no_socket"], not [],
        [Tool("hping3 -n -q -I ws0 -U -A -P -p 7 -d 100 -i u1000 -c 300 10.9.0.2", 5),
         Tool("hping3 -n -q -I ws0 -U -S -F -p 9 -i u1000 -c 300 10.9.0.2", 5)];
    BY_HPING "loose source route": "dropped, never answered",
        ["ipv4_source_route"], not [],
        [Tool("hping3 -n -q -I ws0 -S -p 7 --lsrr 10.9.0.1 -i u1000 -c 200 10.9.0.2", 5)];
    BY_HPING "strict source route": "dropped, never answered",
        ["ipv4_source_route"], not [],
        [Tool("hping3 -n -q -I ws0 -S -p 7 --ssrr 10.9.0.1 -i u1000 -c 200 10.9.0.2", 2)];
    BY_HPING "fragment flood": "held within limits, the oldest evicted",
        ["fragments_in", "fragment_evicted|fragment_timeout"], not ["mbuf_exhausted"],
        [Tool("hping3 -n -q -I ws0 -1 -x -d 1000 -i u100 -c 5000 --rand-source 10.9.0.2", 5)];
    BY_HPING "smurf and fraggle by hping3": "no answer to everybody",
        ["icmp_unhandled|ip_not_for_us|udp_no_socket"], not ["icmp_echo_replies"],
        [Tool("hping3 -n -q -I ws0 -1 -i u1000 -c 200 10.9.0.255", 5),
         Tool("hping3 -n -q -I ws0 -2 -s 19 -k -p 7 -i u1000 -c 200 10.9.0.255", 5)];
    BY_SCAPY "smurf and fraggle": "no answer to everybody",
        ["icmp_unhandled|ip_not_for_us|udp_no_socket"], not ["icmp_echo_replies"],
        [Python("smurf")];
    BY_SCAPY "martians": "dropped, never answered",
        ["ip_martian_source"], not [], [Python("martians")];
    BY_SCAPY "blind RST": "only the exact one resets, else a challenge",
        ["tcp_bad_rst", "tcp_out_of_window"], not ["tcp_rst"], [Python("blind_rst")];
    BY_SCAPY "blind SYN": "challenge ACKs, limited",
        ["tcp_syn_in_window|tcp_out_of_window|tcp_duplicate|tcp_challenge_limited",
         "tcp_challenge_acks"], not ["tcp_rst"], [Python("blind_syn")];
    BY_SCAPY "blind data": "dropped, ACK",
        ["tcp_ack_unsent|tcp_ack_too_old|tcp_challenge_limited"], not ["tcp_rst"],
        [Python("blind_data")];
    BY_SCAPY "optimistic and duplicate ACKs": "nothing for nothing",
        ["tcp_ack_unsent|tcp_challenge_limited"], not [], [Python("optimistic_ack")];
    BY_SCAPY "tiny MSS and SACK holes": "segments of 36 bytes at least, memory bounded",
        [], not ["mbuf_exhausted"], [Python("tiny_mss")];
    BY_SCAPY "tiny segments out of order": "pieces bounded",
        ["tcp_reassembly_full"], not ["mbuf_exhausted"], [Python("segment_smack")];
    BY_SCAPY "zero windows (sockstress)": "probes, memory bounded",
        [], not ["mbuf_exhausted"], [Python("zero_window")];
    BY_SCAPY "urgent pointers": "the stream stays whole",
        [], not [], [Python("urgent")];
    BY_SCAPY "options of every kind and length": "delivered or dropped",
        ["tcp_options", "ipv4_total_length", "ip_protocol_unknown"], not [], [Python("options")];
    BY_SCAPY "forged ICMP errors": "ignored: not in flight",
        ["icmp_error_out_of_window"], not ["path_mtu_lowered"], [Python("icmp_forged")];
    BY_SCAPY "ICMP redirect, timestamp, mask": "no answer",
        ["icmp_unhandled", "redirect_refused|icmp_malformed"], not ["redirects"],
        [Python("icmp_other")];
    BY_SCAPY "forged redirects": "refused: not from the first hop, or not about what we sent",
        ["redirect_refused"], not ["redirects"], [Python("redirects")];
    BY_SCAPY "forged address conflicts": "a fixed address is defended, and kept",
        ["neighbour_conflict", "address_conflicts"], not [], [Python("conflicts")];
    BY_SCAPY "overlapping, tiny and oversized fragments": "dropped by name",
        ["fragment_overlap", "fragment_too_big", "fragment_headers"], not [], [Python("fragments")];
    BY_SCAPY "scapy's fuzz()": "delivered or dropped by name",
        ["tcp_no_socket|tcp_listen_ack|tcp_options"], not [], [Python("fuzz")];
    BY_SCAPY "IPv6 routing header 0, chains, fragments": "dropped",
        ["ipv6_routing_header", "ipv6_header_chain", "ipv6_option", "fragment_malformed"], not [],
        [Python("ipv6_headers")];
    BY_SCAPY "gratuitous ARP": "no entry from what nobody asked for",
        ["arp_unsolicited|neighbour_conflict"], not [], [Python("arp_spoof")];
    BY_SCAPY "solicitations from 6000 neighbours": "the table is bounded",
        ["nd_in"], not [], [Python("neighbours6")];
    BY_DSNIFF "arpspoof": "the neighbour in use stays",
        ["arp_unsolicited|neighbour_conflict|arp_in"], not [],
        [Tool("arpspoof -i ws0 -t 10.9.0.2 10.9.0.77", 4)];
    BY_DSNIFF "macof": "not for us: dropped",
        ["ether_not_for_us"], not [], [Tool("macof -i ws0 -n 5000", 5)];
    BY_THC "atk6-implementation6": "no harm",
        ["ipv6_header_chain", "fragment_headers"], not [],
        [Tool("atk6-implementation6 -p ws0 fd09::2", 8)];
    BY_THC "atk6-fragmentation6": "overlaps dropped whole",
        ["fragment_overlap"], not [],
        [Tool("atk6-fragmentation6 -p -n 1 ws0 fd09::2", 6)];
    BY_THC "atk6-randicmp6": "no harm",
        ["icmp_unhandled"], not [], [Tool("atk6-randicmp6 -p ws0 fd09::2", 3)];
    BY_THC "RA flood": "no prefix, no route, no memory",
        ["ra_ignored|ip_not_for_us|icmp_unhandled"], not ["router_advertisements"],
        [Tool("atk6-flood_router26 ws0", 2)];
    BY_THC "NDP exhaustion": "nothing forwarded, few solicitations, a bounded table",
        ["ip_not_for_us", "neighbour_rate_limited|neighbour_failures|neighbour_queue_full"],
        not ["mbuf_exhausted"],
        [Python("prefix_exhaustion"), Tool("atk6-ndpexhaust26 -p ws0 fd09::", 3)];
}

/// One attack on a scene that has begun, up to its end.
fn fire(scene: &mut Scene<'_>, attack: &Attack) -> Result<()> {
    let mut told = Vec::new();
    for shot in attack.shots {
        match shot {
            Python(name) => told.push(scene.python(name)?),
            Tool(words, seconds) => drop(scene.tool(words, *seconds)?),
        }
    }
    let seen = scene.end()?;
    for name in attack.never {
        let grown = seen.grown(name);
        anyhow::ensure!(grown == 0, "{name} was counted {grown} times; {}", seen.drops());
    }
    told.push(seen.counted(attack.counted)?);
    told.push(seen.text);
    told.retain(|text| !text.is_empty());
    println!("{} | {} | {}", attack.name, attack.expected, told.join("; "));
    Ok(())
}
