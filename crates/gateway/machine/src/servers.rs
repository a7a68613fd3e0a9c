//! The host's name servers: those of /etc/resolv.conf, and news of other ones.
//!
//! Called by: `running.rs` and tools, whose thread waits for changes of the file (inotify(7)) and
//! writes a line of JSON to a pipe; `turns.rs` reads it, perhaps in a process that can open no
//! file.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

/// The file, which may be a link to a file in another folder.
const FILE: &str = "/etc/resolv.conf";
/// Each process that follows the file takes one of few instances of inotify.
const CANNOT: &str = "changes of /etc/resolv.conf cannot be followed: raise the sysctl \
                      fs.inotify.max_user_instances (and max_user_watches), or name the servers";
/// Bytes of a line; longer ones are not ours.
const LINE_MAX: usize = 4_096;

/// A name server at this address, at the port of RFC 1035 section 4.2.
pub fn name_server(ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, 53)
}

/// The servers that the file names now.
pub(super) fn of_host() -> Vec<SocketAddr> {
    parse(&fs::read_to_string(FILE).unwrap_or_default())
}

fn parse(resolv_conf: &str) -> Vec<SocketAddr> {
    let lines = resolv_conf.lines().filter_map(|line| line.strip_prefix("nameserver"));
    let servers = lines.filter_map(|rest| rest.trim().parse::<IpAddr>().ok());
    servers.map(name_server).collect()
}

/// News of the servers.
#[derive(Debug)]
pub struct Followed {
    /// A line of JSON comes whenever the servers are others.
    pub news: OwnedFd,
    /// It ends once nobody has the other end of `news`.
    pub thread: JoinHandle<()>,
}

/// Begin to follow the servers.
///
/// # Errors
/// The system has no inotify, no pipe or no thread for us.
pub fn follow() -> Result<Followed> {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let news = inotify::init(flags).context(CANNOT)?;
    let target = fs::canonicalize(FILE).unwrap_or_else(|_| FILE.into());
    for folder in [Path::new(FILE).parent(), target.parent()].into_iter().flatten() {
        let what = inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE;
        inotify::add_watch(&news, folder, what).context(CANNOT)?;
    }
    follow_file(&news);
    let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
    let (reader, writer) = rustix::pipe::pipe_with(flags).context("no pipe can be made")?;
    let thread = std::thread::Builder::new()
        .name("resolv.conf".to_owned())
        .spawn(move || report(&news, File::from(writer)))
        .context("no thread can be started")?;
    Ok(Followed { news: reader, thread })
}

/// The file itself may be mounted over one of another folder. If there is none, its folder reports
/// the one to come.
fn follow_file(news: &OwnedFd) {
    let _ = inotify::add_watch(news, FILE, inotify::WatchFlags::CLOSE_WRITE);
}

fn report(news: &OwnedFd, mut to: File) {
    let mut known = of_host();
    let mut buffer = [MaybeUninit::uninit(); 4_096];
    let mut events = inotify::Reader::new(news, &mut buffer);
    while has_changed(news, &to) {
        while events.next().is_ok() {}
        // The watch of a file ends with the file.
        follow_file(news);
        let now = of_host();
        // An empty list is a file that is being written.
        if now == known || now.is_empty() {
            continue;
        }
        let Ok(mut line) = serde_json::to_vec(&now) else { continue };
        line.push(b'\n');
        // A pipe that is full has news already: the next change comes again.
        match to.write_all(&line) {
            Err(why) if why.kind() != std::io::ErrorKind::WouldBlock => return,
            Err(_) => {}
            Ok(()) => known = now,
        }
    }
}

/// Wait for a change of the file; false once nobody reads.
fn has_changed(news: &OwnedFd, to: &File) -> bool {
    loop {
        // A pipe without a reader is an error, which poll(2) always reports.
        let mut asked = [PollFd::new(news, PollFlags::IN), PollFd::new(to, PollFlags::empty())];
        match poll(&mut asked, None) {
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) if !asked[1].revents().is_empty() => return false,
            Ok(_) => return true,
        }
    }
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Servers {
    from: File,
    line: Vec<u8>,
}

impl Servers {
    pub(super) fn new(fd: OwnedFd) -> Servers {
        Servers { from: File::from(fd), line: Vec::new() }
    }

    /// The newest servers, if there is news.
    pub(super) fn take_news(&mut self) -> Option<Vec<SocketAddr>> {
        let (mut bytes, mut newest) = ([0; LINE_MAX], None);
        while let Ok(count @ 1..) = self.from.read(&mut bytes) {
            self.line.extend_from_slice(&bytes[..count]);
            while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                newest = serde_json::from_slice(&line).ok().or(newest);
            }
            if self.line.len() > LINE_MAX {
                self.line.clear();
            }
        }
        newest
    }
}

impl AsFd for Servers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_those_of_the_file() {
        let file = "# comment\nnameserver 192.0.2.1\nsearch example.org\nnameserver ::1\n";
        let expected = ["192.0.2.1:53", "[::1]:53"].map(|text| text.parse().expect("an address"));
        assert_eq!(parse(file), expected);
    }

    #[test]
    fn the_thread_ends_when_nobody_reads() {
        let Followed { news, thread } = follow().expect("inotify");
        assert!(!thread.is_finished());
        drop(news);
        thread.join().expect("it ends");
    }

    #[test]
    fn the_newest_line_counts() {
        let flags = rustix::pipe::PipeFlags::NONBLOCK;
        let (reader, writer) = rustix::pipe::pipe_with(flags).expect("a pipe");
        let (mut servers, mut writer) = (Servers::new(reader), File::from(writer));
        assert_eq!(servers.take_news(), None);
        writer.write_all(b"[\"192.0.2.1:53\"]\n[\"192.0.2.2:53\"]\n[\"192.").expect("room");
        let newest = vec!["192.0.2.2:53".parse().expect("an address")];
        assert_eq!(servers.take_news(), Some(newest));
        writer.write_all(b"0.2.3:53\"]\n").expect("room");
        let newest = vec!["192.0.2.3:53".parse().expect("an address")];
        assert_eq!(servers.take_news(), Some(newest));
    }
}
