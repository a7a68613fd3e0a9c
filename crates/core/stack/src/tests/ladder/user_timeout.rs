//! The user timeout option: sent and accepted where the program has asked for it, within limits.

use super::*;
use tcp::Error;

/// A connection whose SYNs offered the user timeouts `theirs` and `ours`, in seconds.
fn with_option(ours: Option<u64>, theirs: Option<u32>) -> Ladder {
    let mut setup = Setup::plain().tcp(|c| c.user_timeout_option = ours.map(Duration::from_secs));
    setup.syn.uto = theirs;
    setup.established()
}

/// The number of seconds until unacknowledged data ends the connection.
fn seconds_until_abort(t: &mut Ladder) -> u64 {
    t.write(10);
    let from = t.now;
    while t.info().state != State::Closed {
        t.pass(1000);
        assert!(t.now.since(from) < Duration::from_secs(20_000));
    }
    assert_eq!(t.write_result(), Err(CallError::Failed(Error::TimedOut)));
    t.now.since(from).as_millis() / 1000
}

#[track_caller]
fn about(seconds: u64, wanted: u64) {
    assert!(seconds.abs_diff(wanted) <= 2, "{seconds} s instead of {wanted}");
}

/// RFC 5482 section 3.1: the longer of both values, but from 100 s to an hour.
#[test]
fn both_ends_wait_as_long_as_the_more_patient_one() {
    for (ours, theirs, agreed) in
        [(150, 200, 200), (300, 200, 300), (10, 20, 100), (10, 100_000, 3600), (2000, 1, 2000)]
    {
        about(seconds_until_abort(&mut with_option(Some(ours), Some(theirs))), agreed);
    }
}

#[test]
fn nothing_is_told_or_adopted_unless_it_is_asked_for() {
    let usual = seconds_until_abort(&mut with_option(None, None));
    about(seconds_until_abort(&mut with_option(None, Some(120))), usual);
    about(seconds_until_abort(&mut with_option(Some(120), None)), usual);
    let mut t = Setup::plain().ladder();
    t.listen();
    t.send(syn().uto(120));
    assert_eq!(t.expect(syn_ack()).uto, None);
}

/// The peer's option cannot change a value that the user has set.
#[test]
fn a_time_out_that_was_set_is_not_changed_by_the_peer() {
    let set = |c: &mut tcp::Config| {
        c.user_timeout = Some(Duration::from_secs(7));
        c.user_timeout_option = Some(Duration::from_secs(500));
    };
    let mut setup = Setup::plain().tcp(set);
    setup.syn.uto = Some(900);
    about(seconds_until_abort(&mut setup.established()), 7);
}

#[test]
fn syn_and_syn_ack_tell_and_any_later_segment_may() {
    let told = |c: &mut tcp::Config| c.user_timeout_option = Some(Duration::from_secs(250));
    let mut t = Setup::plain().tcp(told).ladder();
    t.connect();
    t.expect(syn().uto(250));
    let mut t = Setup::plain().tcp(told).ladder();
    t.listen();
    t.send(t.setup.syn.clone());
    t.expect(syn_ack().uto(250));
    t.send(seg().seq(1).ack(1).uto(400));
    t.accept();
    about(seconds_until_abort(&mut t), 400);
}
