//! The control socket from both sides: answers, limits, descriptors, timeouts, other protocols.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration as Span;

use base::{Budget, Duration, Instant, Limit, Owner};
use wirespeed_control::{Client, ControlError, Message, Peer, Reply, Server, frame, path};

const TIMEOUT: Span = Span::from_secs(10);

/// A directory for one test, removed when it is dropped.
struct Fixture(PathBuf);

impl Fixture {
    fn new(name: &str) -> Fixture {
        let place = std::env::temp_dir().join(format!("wsctl-{}-{name}", std::process::id()));
        path::prepare(&place).expect("the directory is made");
        Fixture(place)
    }

    fn serve(&self, budget: Budget) -> Server {
        Server::bind(&self.0.join("1.sock"), budget, |_| Some(vec![7, 8]), |_| true)
            .expect("the server binds the socket")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn echo(_: &Peer, request: Message, _: bool) -> Reply {
    Reply::Now(request)
}

/// Serve on this thread while `client` runs on another.
fn with<T: Send>(server: &mut Server, client: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let asking = scope.spawn(client);
        while !asking.is_finished() {
            server.poll(Instant::from_nanos(1), echo);
            std::thread::yield_now();
        }
        asking.join().expect("the client does not panic")
    })
}

fn message(payload: &[u8]) -> Message {
    Message { payload: payload.to_vec(), descriptors: Vec::new() }
}

#[test]
fn requests_of_every_length_are_answered_and_longer_ones_refused() {
    let place = Fixture::new("lengths");
    let mut server = place.serve(Budget::default());
    let path = server.path().to_owned();
    with(&mut server, move || {
        let mut client = Client::connect(&path, TIMEOUT).expect("the server answers");
        for len in [0, 1, 65_535, 65_536, 1 << 20] {
            let sent: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            assert_eq!(client.call(message(&sent)).expect("an answer").payload, sent);
        }
        let error = client
            .call(message(&vec![0; (1 << 20) + 1]))
            .expect_err("a request that is too long was answered");
        assert!(matches!(error, ControlError::TooLong { .. }), "{error}");
    });
}

#[test]
fn descriptors_go_both_ways_close_on_exec_and_are_closed_when_refused() {
    let place = Fixture::new("descriptors");
    let mut server = place.serve(Budget::default());
    let path = server.path().to_owned();
    let (mut far, near) = UnixStream::pair().expect("a pair");
    let refused = with(&mut server, move || {
        let mut client = Client::connect(&path, TIMEOUT).expect("the server answers");
        let near: OwnedFd = near.into();
        let request = Message { payload: b"take".to_vec(), descriptors: vec![near] };
        let answer = client.call(request).expect("an answer");
        let [fd] = answer.descriptors.try_into().expect("a descriptor comes back");
        let flags = rustix::io::fcntl_getfd(fd.as_fd()).expect("the descriptor is open");
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        UnixStream::from(fd)
            .write_all(b"through")
            .expect("the descriptor is the socket of the pair");
        let many = (0..17).map(|_| UnixStream::pair().expect("a pair").0.into()).collect();
        client
            .call(Message { payload: Vec::new(), descriptors: many })
            .expect_err("a request with too many descriptors was answered")
    });
    assert!(matches!(refused, ControlError::Descriptors { .. }), "{refused}");
    let mut text = String::new();
    // The end of the stream comes only when every copy of the other end is closed.
    far.set_read_timeout(Some(TIMEOUT)).expect("the timeout is set");
    far.read_to_string(&mut text).expect("every copy was closed");
    assert_eq!(text, "through");
}

/// A client that sends raw bytes.
fn raw(server: &Server) -> UnixStream {
    let stream = UnixStream::connect(server.path()).expect("the server accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("the timeout is set");
    stream
}

fn hello(version: u16) -> Vec<u8> {
    [&frame::MAGIC[..], &version.to_be_bytes(), &[0, 0]].concat()
}

#[test]
fn strangers_other_versions_and_broken_frames_are_closed() {
    let place = Fixture::new("strangers");
    let mut server = place.serve(Budget::default());
    let good = hello(frame::VERSION);
    let cases: [Vec<u8>; 4] = [
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
        hello(frame::VERSION + 1),
        [&good[..], &[0xff; 8]].concat(),
        [&good[..], &[0, 0, 0, 0, 0, 1, 0, 0]].concat(),
    ];
    for bytes in cases {
        let mut stream = raw(&server);
        stream.write_all(&bytes).expect("room in the socket");
        for _ in 0..4 {
            server.poll(Instant::from_nanos(1), echo);
        }
        assert_eq!(server.clients(), 0, "{bytes:?}");
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert_eq!(said, good, "the server's hello, then the end of the stream");
    }
}

#[test]
fn silent_and_half_sent_clients_are_closed_in_time_and_counted() {
    let place = Fixture::new("silence");
    let mut server = place.serve(Budget::default());
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let mut stream = raw(&server);
    stream.write_all(&hello(frame::VERSION)).expect("room");
    server.poll(at(1), echo);
    stream.write_all(&[0, 0]).expect("room");
    server.poll(at(100), echo);
    assert_eq!(server.next_deadline(), at(5_100));
    server.poll(at(5_099), echo);
    assert_eq!(server.clients(), 1);
    server.poll(at(5_100), echo);
    assert_eq!(server.clients(), 0);
    assert_eq!(server.budget().hits(Limit::ControlHalfFrameMs), 1);
    let mut stream = raw(&server);
    stream.write_all(&hello(frame::VERSION)).expect("room");
    server.poll(at(6_000), echo);
    server.poll(at(65_999), echo);
    assert_eq!(server.clients(), 1);
    server.poll(at(66_000), echo);
    assert_eq!((server.clients(), server.budget().hits(Limit::ControlIdleMs)), (0, 1));
}

/// The client sends a hundred requests for as much as a frame holds, and reads nothing. Only one
/// answer is kept for it, and only for a limited time.
#[test]
fn a_client_that_asks_and_never_reads_is_closed_in_time() {
    let place = Fixture::new("never-reads");
    let mut server = place.serve(Budget::default());
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let mut stream = raw(&server);
    stream.write_all(&hello(frame::VERSION)).expect("room");
    stream.write_all(&[0; 800]).expect("room");
    let much = |_: &Peer, _, _: bool| Reply::Now(message(&vec![7; 1 << 20]));
    let answered: usize = (1..100).map(|ms| server.poll(at(ms), much)).sum();
    assert_eq!((answered, server.clients(), server.is_answering()), (1, 1, true));
    assert!(server.next_deadline() <= at(5_100));
    assert_eq!(server.poll(at(5_100), much), 0);
    assert_eq!((server.clients(), server.budget().hits(Limit::ControlHalfFrameMs)), (0, 1));
}

/// A request waits until there is something to report, its time is over, or the client makes
/// another one. A client that disconnects meanwhile is removed.
#[test]
fn a_request_waits_for_its_answer() {
    let place = Fixture::new("waits");
    let mut server = place.serve(Budget::default());
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let mut stream = raw(&server);
    stream.set_read_timeout(Some(TIMEOUT)).expect("the timeout is set");
    stream.write_all(&hello(frame::VERSION)).expect("room");
    server.poll(at(0), echo);
    stream.read_exact(&mut [0; 12]).expect("its hello");
    let request = [&[0, 0, 0, 1, 0, 0, 0, 0][..], b"?"].concat();
    let patient = |_: &Peer, request, may_wait: bool| match may_wait {
        true => Reply::Later(request, Duration::from_millis(500)),
        false => Reply::Now(message(b"nothing")),
    };
    let ready = |_: &Peer, _, _: bool| Reply::Now(message(b"news"));
    let said = |stream: &mut UnixStream, len: usize| {
        let mut answer = vec![0; 8 + len];
        stream.read_exact(&mut answer).expect("an answer");
        answer.split_off(8)
    };
    // The program has something to report.
    stream.write_all(&request).expect("room");
    assert_eq!((server.poll(at(1), patient), server.next_deadline()), (0, at(501)));
    assert_eq!((server.poll(at(2), patient), server.next_deadline()), (0, at(501)));
    assert_eq!(server.poll(at(3), ready), 1);
    assert_eq!(said(&mut stream, 4), b"news");
    // The program has nothing to report.
    stream.write_all(&request).expect("room");
    assert_eq!((server.poll(at(10), patient), server.poll(at(509), patient)), (0, 0));
    assert_eq!(server.poll(at(510), patient), 1);
    assert_eq!(said(&mut stream, 7), b"nothing");
    // The client asks for something else.
    stream.write_all(&request).expect("room");
    assert_eq!(server.poll(at(600), patient), 0);
    stream.write_all(&request).expect("room");
    assert_eq!(server.poll(at(601), patient), 1);
    assert_eq!(said(&mut stream, 7), b"nothing");
    assert_eq!((server.poll(at(602), patient), server.next_deadline()), (0, at(1_102)));
    drop(stream);
    assert_eq!((server.poll(at(603), patient), server.clients()), (0, 0));
}

#[test]
fn clients_beyond_the_limit_and_users_not_admitted_are_told() {
    let place = Fixture::new("limit");
    let mut budget = Budget::default();
    budget.set(Limit::ControlClients, 1);
    let mut server = place.serve(budget);
    let path = server.path().to_owned();
    let error = with(&mut server, || {
        let _first = Client::connect(&path, TIMEOUT).expect("the first client is served");
        Client::connect(&path, TIMEOUT).err().expect("a client beyond the limit was served")
    });
    assert!(matches!(error, ControlError::Full), "{error}");
    assert_eq!(server.budget().hits(Limit::ControlClients), 1);
    drop(server);
    let only = |owner: &Owner| !owner.in_group(7);
    let mut server = Server::bind(&path, Budget::default(), |_| Some(vec![7]), only)
        .expect("the server binds the socket");
    let error = with(&mut server, || {
        Client::connect(&path, TIMEOUT).err().expect("a user who is not admitted was served")
    });
    assert!(matches!(error, ControlError::NotAdmitted), "{error}");
}

/// Each connection has a number of its own. A client that is no longer admitted is disconnected.
#[test]
fn clients_that_are_not_admitted_any_more_are_closed() {
    let place = Fixture::new("anew");
    let mut server = place.serve(Budget::default());
    wirespeed_control::open_to_all(server.path()).expect("the mode is changed");
    let mode = std::fs::metadata(server.path()).expect("the socket exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    let mut numbers = Vec::new();
    let mut streams = [raw(&server), raw(&server)];
    for stream in &mut streams {
        stream.write_all(&hello(frame::VERSION)).expect("room");
        stream.write_all(&[0; 8]).expect("room");
    }
    for _ in 0..3 {
        server.poll(Instant::from_nanos(1), |peer, request, _| {
            numbers.push(peer.connection);
            Reply::Now(request)
        });
    }
    assert!(numbers.len() == 2 && numbers[0] != numbers[1], "{numbers:?}");
    assert!(numbers.iter().all(|&number| server.is_connected(number)));
    server.set_admits(|_| false);
    assert!(server.clients() == 0 && !server.is_connected(numbers[0]));
    let mut said = Vec::new();
    streams[0].read_to_end(&mut said).expect("the stream ends");
    let late = raw(&server);
    server.poll(Instant::from_nanos(2), echo);
    assert_eq!((server.clients(), late.peer_addr().is_ok()), (0, true));
}

#[test]
fn sockets_are_replaced_only_when_nobody_answers() {
    let place = Fixture::new("stale");
    let server = place.serve(Budget::default());
    let path = server.path().to_owned();
    let again = Server::bind(&path, Budget::default(), |_| None, |_| true);
    assert!(matches!(again.err(), Some(ControlError::InUse { .. })));
    assert_eq!(path::running(&place.0).len(), 1);
    drop(server);
    assert!(!path.exists(), "the socket outlived its server");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("free"));
    assert!(path.exists() && path::running(&place.0).is_empty());
    let dead = Client::connect(&path, TIMEOUT).err();
    assert!(matches!(dead, Some(ControlError::Dead { .. })));
    drop(place.serve(Budget::default()));
    let missing = Client::connect(&path, TIMEOUT).err();
    assert!(matches!(missing, Some(ControlError::Missing { .. })));
}

/// A file stays, although a connection to it is refused, as to a socket without a server.
#[test]
fn what_is_no_socket_stays() {
    let place = Fixture::new("file");
    let bind = |path: &Path| Server::bind(path, Budget::default(), |_| None, |_| true).err();
    let in_the_way = |path: &Path, is: &str| {
        for error in [path::vacancy(path).err(), bind(path)] {
            let Some(ControlError::InTheWay { what, .. }) = error else { panic!("{error:?}") };
            assert_eq!(what, is);
        }
        assert!(!path::remove_dead(path));
    };
    let file = place.0.join("notes");
    std::fs::write(&file, "kept").expect("room");
    in_the_way(&file, "a file");
    assert_eq!(std::fs::read_to_string(&file).expect("the file exists"), "kept");
    let link = place.0.join("link");
    std::os::unix::fs::symlink(&file, &link).expect("room");
    in_the_way(&link, "a symbolic link");
    std::fs::create_dir(place.0.join("folder")).expect("room");
    in_the_way(&place.0.join("folder"), "a directory");
    // A free path, a socket without a server, one with a server, and a path without a directory.
    let path = place.0.join("socket");
    path::vacancy(&path).expect("a socket can be made at a free path");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("free"));
    path::vacancy(&path).expect("a socket without a server is no obstacle");
    let server = Server::bind(&path, Budget::default(), |_| None, |_| true)
        .expect("the old socket is replaced");
    assert!(matches!(path::vacancy(&path), Err(ControlError::InUse { .. })));
    drop(server);
    let nowhere = path::vacancy(&place.0.join("no/socket"));
    assert!(matches!(nowhere, Err(ControlError::Directory { .. })), "{nowhere:?}");
}

#[test]
fn whoever_is_refused_and_comes_again_is_slowed() {
    let place = Fixture::new("pace");
    let mut budget = Budget::default();
    budget.set(Limit::ControlUserAccepts, 3);
    let path = place.0.join("1.sock");
    let mut server =
        Server::bind(&path, budget, |_| None, |_| false).expect("the server binds the socket");
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    let welcome = |stream: &mut UnixStream| {
        let mut hello = [0; 12];
        stream.read_exact(&mut hello).expect("the server sends its reason");
        u16::from_be_bytes([hello[10], hello[11]])
    };
    let mut streams: Vec<UnixStream> = (0..4).map(|_| raw(&server)).collect();
    server.poll(at(1), echo);
    // Three connections are refused because the user is not admitted, the fourth because the user
    // connects too often.
    assert_eq!([0, 1, 2, 3].map(|at| welcome(&mut streams[at])), [1, 1, 1, 2]);
    assert_eq!(server.budget().hits(Limit::ControlUserAccepts), 1);
    let mut late = raw(&server);
    late.set_nonblocking(true).expect("the socket is non-blocking");
    assert_eq!((server.descriptors().count(), server.next_deadline()), (0, at(11)));
    server.poll(at(5), echo);
    assert!(late.read(&mut [0; 12]).is_err(), "the server answered during its pause");
    server.poll(at(11), echo);
    assert_eq!(welcome(&mut late), 2);
    assert_eq!(server.poll(at(1_100), echo), 0);
    assert_eq!((server.descriptors().count(), server.next_deadline()), (1, Instant::NEVER));
}

#[test]
fn the_only_directory_takes_the_place_of_all_others() {
    let place = Fixture::new("only");
    let environment = path::Environment {
        runtime: Some("/nonexistent/run".into()),
        only: Some(place.0.clone()),
        temporary: place.0.clone(),
        uid: rustix::process::geteuid().as_raw(),
    };
    let only = place.0.join("wirespeed");
    assert_eq!(environment.prepare().expect("the directory is made"), only);
    assert_eq!(environment.directories(), [only]);
    assert!(environment.directories_of_others().is_empty());
    let missing = path::Environment { only: Some("/nonexistent/only".into()), ..environment };
    let error =
        missing.prepare().expect_err("a directory below a missing one was made").to_string();
    assert!(error.contains("Set WIRESPEED_RUNTIME_DIR"), "{error}");
}

#[test]
fn without_a_run_time_directory_sockets_are_among_temporary_files() {
    let place = Fixture::new("temporary");
    let uid = rustix::process::geteuid().as_raw();
    let of = |runtime: &Path| path::Environment {
        runtime: Some(runtime.as_os_str().to_owned()),
        only: None,
        temporary: place.0.clone(),
        uid,
    };
    let own = place.0.join(format!("wirespeed-{uid}"));
    let missing = of(Path::new("/nonexistent/run"));
    assert_eq!(missing.prepare().expect("the directory is made"), own);
    assert_eq!(std::fs::metadata(&own).expect("made").permissions().mode() & 0o777, 0o700);
    assert!(missing.directories().contains(&own), "tools do not search the directory");
    // A run-time directory is preferred. Sockets made elsewhere before are still found.
    let usual = of(&place.0);
    assert_eq!(usual.prepare().expect("the directory is made"), place.0.join("wirespeed"));
    assert!(usual.directories().contains(&own));
    // The environment names the run-time directory of another user, as after su.
    if uid == 0 {
        let other = place.0.join("other");
        std::fs::create_dir(&other).expect("room");
        std::os::unix::fs::chown(&other, Some(4_242), None).expect("root may");
        assert_eq!(of(&other).prepare().expect("the directory is made"), own);
        let theirs = other.join("wirespeed");
        std::fs::create_dir(&theirs).expect("room");
        std::os::unix::fs::chown(&theirs, Some(4_242), None).expect("root may");
        assert!(
            !of(&other).directories().contains(&theirs),
            "root's tools search another user's directory"
        );
    }
    // Another user may have created the directory first.
    std::fs::remove_dir(&own).expect("it is empty");
    std::os::unix::fs::symlink(place.0.join("wirespeed"), &own).expect("room");
    assert!(missing.prepare().is_err() && !missing.directories().contains(&own));
    std::fs::remove_file(&own).expect("it is ours");
    std::fs::create_dir(&own).expect("room");
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777))
        .expect("our stack connects");
    assert!(missing.prepare().is_err() && !missing.directories().contains(&own));
}

#[test]
fn a_directory_that_others_may_enter_is_refused() {
    let place = Fixture::new("open");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&place.0, mode).expect("it is ours");
    let error = path::prepare(&place.0).expect_err("a directory that others may enter was used");
    assert!(error.to_string().contains("chmod 700"), "{error}");
}
