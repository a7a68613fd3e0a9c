//! Redirects. RFC 4861 section 8.

use base::{Counter, Limit};

use super::*;

const FAR: &str = "2001:db8:ffff::1";

fn redirect(target: &str, destination: &str, last: u8) -> Vec<u8> {
    let mut bytes = vec![137, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&v6(target).octets());
    bytes.extend_from_slice(&v6(destination).octets());
    bytes.extend_from_slice(&[2, 1, 2, 0, 0, 0, 0, last]);
    bytes
}

/// A link whose default router is `fe80::1`.
fn routed() -> (Link, String) {
    let mut link = Link::configured(stable_only());
    let options = [link_address(1), prefix("2001:db8:1::", 7_200, 7_200)];
    link.hear("fe80::1", &advertisement(1_800, &options));
    link.hear("fe80::2", &advertisement(1_800, &[link_address(2)]));
    link.pass(secs(3));
    let own = link.link_local().expect("there").to_string();
    (link, own)
}

/// RFC 4861 8.1-a, 8.1-b, 8.3-a.
#[test]
fn a_redirect_of_the_first_hop_is_followed_for_a_while() {
    let (mut link, own) = routed();
    assert_eq!(link.next_hop(FAR), Some(v6("fe80::1")));
    link.hear_from("fe80::1", &own, 255, &redirect("fe80::2", FAR, 2));
    assert_eq!(link.next_hop(FAR), Some(v6("fe80::2")));
    assert_eq!(
        link.next_hop("2001:db8:ffff::2"),
        Some(v6("fe80::1")),
        "the redirect changed another destination"
    );
    // The other router is now the first hop, so it may report that the destination is on the link.
    link.hear_from("fe80::2", &own, 255, &redirect(FAR, FAR, 9));
    assert_eq!(link.next_hop(FAR), Some(v6(FAR)));
    assert!(link.bench.stack.neighbour_state(PORT, v6(FAR).into()).is_some());
    assert_eq!(link.bench.stack.counters().of(Counter::Redirects), 2);
    link.pass(secs(600));
    assert_eq!(link.next_hop(FAR), Some(v6("fe80::1")), "the redirect was not forgotten");
}

/// RFC 4861 8.1-a, 8.1-b.
#[test]
fn redirects_of_others_are_refused() {
    let (mut link, own) = routed();
    let good = redirect("fe80::2", FAR, 2);
    let forged: [(&str, u8, Vec<u8>); 6] = [
        ("fe80::2", 255, redirect("fe80::bad", FAR, 9)),
        ("fe80::1", 64, good.clone()),
        ("2001:db8:1::1", 255, good.clone()),
        ("fe80::1", 255, redirect("2001:db8:1::bad", FAR, 9)),
        ("fe80::1", 255, redirect("fe80::2", "ff0e::1", 9)),
        ("fe80::1", 255, redirect("fe80::2", "2001:db8:1::5", 9)),
    ];
    for (n, (src, hops, bytes)) in forged.into_iter().enumerate() {
        link.hear_from(src, &own, hops, &bytes);
        assert_eq!(link.dropped(DropReason::RedirectRefused), n as u64 + 1, "{src} {n}");
    }
    // A redirect to an address of the port, or about such an address.
    let ours = link.of(Origin::Stable, AddressState::Preferred)[0].to_string();
    link.hear_from("fe80::1", &own, 255, &redirect(&own, FAR, 9));
    link.hear_from("fe80::1", &own, 255, &redirect("fe80::2", &ours, 9));
    assert_eq!(link.dropped(DropReason::RedirectRefused), 8);
    // A redirect that was sent to all nodes.
    link.hear("fe80::1", &good);
    assert_eq!(link.dropped(DropReason::RedirectRefused), 9);
    assert_eq!(link.routes_of(RouteOrigin::Redirect), 0);
}

/// RFC 4861 7.3.3-a: the better first hop does not answer any longer.
#[test]
fn a_redirect_to_who_does_not_answer_is_forgotten() {
    let (mut link, own) = routed();
    let mut bare = redirect("fe80::3", FAR, 3);
    bare.truncate(40);
    link.hear_from("fe80::1", &own, 255, &bare);
    assert_eq!(link.next_hop(FAR), Some(v6("fe80::3")));
    let local = SocketAddr::new(link.bench.stack.source_for(far(9)).expect("an address"), 9);
    let socket = link.stack().udp_bind(local, base::Owner::program()).expect("free");
    let now = link.now;
    link.stack().udp_send(socket, far(9), b"x", now).expect("routed");
    assert_eq!(link.pass(secs(4)).len(), 3, "the first hop was not solicited three times");
    assert_eq!(link.next_hop(FAR), Some(v6("fe80::1")));
}

#[test]
fn the_number_of_redirects_is_bounded() {
    let (mut link, own) = routed();
    link.stack().core.cx.budget.set(Limit::Redirects, 4);
    for n in 1..100_u16 {
        link.pass(Duration::from_millis(10));
        let to = format!("2001:db8:ffff::{n:x}");
        link.hear_from("fe80::1", &own, 255, &redirect("fe80::2", &to, 2));
        assert!(link.routes_of(RouteOrigin::Redirect) <= 4);
    }
    assert_eq!(
        link.next_hop("2001:db8:ffff::63"),
        Some(v6("fe80::2")),
        "the last redirect is not used"
    );
    assert_eq!(
        link.next_hop("2001:db8:ffff::1"),
        Some(v6("fe80::1")),
        "the first redirect was not evicted"
    );
    assert!(link.bench.stack.budget().hits(Limit::Redirects) > 90);
}

/// flood_redir6: each accepted redirect changes the routes of every flow, so they are limited.
#[test]
fn redirects_are_rate_limited() {
    let (mut link, own) = routed();
    let most = link.bench.stack.budget().of(Limit::PathChangesPerSecond);
    for n in 0..2 * most {
        let to = format!("2001:db8:ffff::{n:x}");
        link.hear_from("fe80::1", &own, 255, &redirect("fe80::2", &to, 2));
    }
    assert_eq!(link.bench.stack.counters().of(Counter::Redirects), most as u64);
    assert_eq!(link.dropped(DropReason::IcmpRateLimited), most as u64);
    link.pass(secs(1));
    link.hear_from("fe80::1", &own, 255, &redirect("fe80::2", FAR, 2));
    assert_eq!(
        link.next_hop(FAR),
        Some(v6("fe80::2")),
        "no redirect was accepted in the next second"
    );
}
