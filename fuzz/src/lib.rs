//! The fuzz targets: each is a function from any bytes to nothing, which panics if a property does
//! not hold.
//!
//! Called by: the programs of `fuzz_targets`, one for each row of [`TARGETS`], `examples/seeds.rs`,
//! and the tests here, which run every target on its seeds. `cargo xtask fuzz` runs all of it;
//! docs/fuzz.md says how to add a target. The crates under test are linked as they are, with every
//! assertion and overflow check.

pub mod capture;
pub mod captures;
pub mod control;
mod craft;
pub mod cut;
pub mod dhcp;
pub mod dissect;
pub mod dns;
pub mod filter;
pub mod forwarder;
pub mod fpm;
pub mod group;
pub mod link;
pub mod pair;
pub mod parsers;
pub mod policy;
pub mod queues;
pub mod rpc;
pub mod rules;
pub mod seeds;
pub mod served;
pub mod stack;
pub mod tcb;
pub mod telnet;

use std::process::ExitCode;

/// Bytes in; a panic is a finding.
pub type Target = fn(&[u8]);

/// Every target by its name, which is that of its program.
pub const TARGETS: &[(&str, Target)] = &[
    ("ethernet", parsers::ethernet),
    ("ipv4", parsers::ipv4),
    ("ipv6", parsers::ipv6),
    ("icmp", parsers::icmp),
    ("tcp_header", parsers::tcp_header),
    ("tcp_options", parsers::tcp_options),
    ("udp", parsers::udp),
    ("checksum", parsers::checksum),
    ("tcb", tcb::any_state),
    ("predict", tcb::predict_equals_input),
    ("stack", stack::any_frame),
    ("listener", stack::any_handshake),
    ("autoconf", stack::any_neighbour),
    ("forward", stack::any_packet_to_forward),
    ("group", group::any_query),
    ("dhcp4", dhcp::any_message_v4),
    ("dhcp6", dhcp::any_message_v6),
    ("control", control::any_client),
    ("capture", capture::written_is_read),
    ("capture_file", captures::any_file),
    ("link", link::any_settings),
    ("cut", cut::any_frame),
    ("dissect", dissect::any_packet),
    ("dns", dns::any_answer),
    ("forwarder", forwarder::any_message),
    ("served", served::any_message),
    ("wheel", queues::wheel),
    ("release", queues::release),
    ("filter", filter::any_program),
    ("rules", rules::any_text),
    ("pair", pair::any_datagram),
    ("policy", policy::any_text),
    ("hello", policy::any_hello),
    ("rpc_record", rpc::any_stream),
    ("rpc_message", rpc::any_message),
    ("telnet", telnet::any_talk),
    ("fpm", fpm::any_bytes),
];

/// The program of a target: under cargo-fuzz the function that libFuzzer calls, else a `main` that
/// runs files.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::run($name, data));
        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::replay($name)
        }
    };
}

/// Give `data` to the target of that name.
///
/// # Panics
/// On a finding, and if there is no such target.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(n, _)| *n == name).expect("a program is named as its row");
    (target.1)(data);
}

/// Run the files of the command line, for machines without cargo-fuzz.
pub fn replay(name: &str) -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    if files.is_empty() {
        eprintln!("{name}: give it files to run, or fuzz it with `cargo xtask fuzz`");
        return ExitCode::from(2);
    }
    for file in files {
        match std::fs::read(&file) {
            Ok(data) => run(name, &data),
            Err(e) => {
                eprintln!("cannot read {}: {e}", file.display());
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests;
