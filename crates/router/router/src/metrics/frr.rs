//! Metrics of the routes of FRR.
//!
//! Called by: `metrics.rs`, if the configuration has `[frr]`.

use fpm::{Encapsulation, Limit};

use super::Text;
use crate::fpm::Figures;

/// All of them.
pub(super) fn figures(text: &mut Text, of: &Figures) {
    let counts = &of.counts;
    for (name, help, value) in [
        ("fpm_connected", "Is zebra connected?", u64::from(of.is_connected)),
        ("fpm_routes", "Routes of zebra.", of.routes as u64),
        ("fpm_nexthops", "Nexthops and groups of zebra.", of.nexthops as u64),
        ("fpm_pending", "Changes that the forwarding table does not have yet.", of.pending as u64),
        (
            "fpm_longest_pause_ns",
            "The longest time that forwarding waited for routes, in CPU time.",
            of.pause.as_nanos() as u64,
        ),
    ] {
        text.alone(name, "gauge", help, value);
    }
    for (name, help, value) in [
        ("fpm_frames_total", "Frames of zebra.", counts.frames),
        ("fpm_bytes_total", "Bytes of zebra.", counts.bytes),
        (
            "fpm_unknown_interface_total",
            "Next hops by an interface that is no port's.",
            of.unknown_interfaces,
        ),
    ] {
        text.alone(name, "counter", help, value);
    }
    let name = "fpm_messages_total";
    text.head(name, "counter", "Messages of zebra, by kind.");
    for (kind, value) in [
        ("new_route", counts.new_routes),
        ("delete_route", counts.deleted_routes),
        ("new_nexthop", counts.new_nexthops),
        ("delete_nexthop", counts.deleted_nexthops),
        ("other", counts.other_messages),
    ] {
        text.value(name, &[("kind", kind)], value);
    }
    let name = "fpm_refused_total";
    text.head(name, "counter", "Routes and nexthops of zebra that are not used, by reason.");
    text.value(name, &[("reason", "kernel")], counts.kernel_routes);
    text.value(name, &[("reason", "unsupported")], counts.unsupported_routes);
    for encapsulation in Encapsulation::ALL {
        let reason = format!("encap_{}", encapsulation.name());
        text.value(name, &[("reason", &reason)], counts.encapsulated[encapsulation as usize]);
    }
    for limit in Limit::ALL {
        text.value(name, &[("reason", limit.name())], counts.limited[limit as usize]);
    }
    if let Some(kernel) = &of.kernel {
        let help = "Routes that daemons wrote into the kernel.";
        text.alone("rtnetlink_routes", "gauge", help, of.kernel_routes as u64);
        for (name, help, value) in [
            ("rtnetlink_dumps_total", "Dumps of the kernel's routes.", kernel.counts.dumps),
            ("rtnetlink_lost_total", "How often messages of the kernel were lost.", kernel.lost),
        ] {
            text.alone(name, "counter", help, value);
        }
    }
}
