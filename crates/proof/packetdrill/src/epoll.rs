//! Epoll instances over a script's sockets: level-triggered, edge-triggered and one-shot.
//!
//! Called by: `entry/watch.rs`. `ready.rs` computes the events. A socket has a new edge if its
//! event count has changed since the instance last reported it.

use std::os::fd::RawFd;

use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLHUP, EPOLLONESHOT,
};
use rustix::io::Errno;

use super::file::{Epoll, File, Interest};
use super::world::State;
use super::{Call, ready};

/// Maximum sockets that one instance watches.
const WATCHED_MAX: usize = 4096;

fn instance(state: &mut State, epfd: RawFd) -> Call<&mut Epoll> {
    match state.files.get_mut(&epfd) {
        Some(File::Epoll(epoll)) => Ok(epoll),
        Some(File::Socket(_)) => Err(Errno::INVAL),
        None => Err(Errno::BADF),
    }
}

/// `epoll_ctl`. `wanted` contains the events, and the user data to report with them.
pub(super) fn control(
    state: &mut State,
    epfd: RawFd,
    op: i32,
    fd: RawFd,
    wanted: Option<(u32, u64)>,
) -> Call<()> {
    state.socket(fd)?;
    let epoll = instance(state, epfd)?;
    if op == EPOLL_CTL_DEL {
        return epoll.watched.remove(&fd).map(drop).ok_or(Errno::NOENT);
    }
    let (events, data) = wanted.ok_or(Errno::FAULT)?;
    let interest = Interest { events, data, seen: None };
    match (op, epoll.watched.contains_key(&fd)) {
        (EPOLL_CTL_ADD, true) => Err(Errno::EXIST),
        (EPOLL_CTL_ADD, false) if epoll.watched.len() >= WATCHED_MAX => Err(Errno::NOSPC),
        (EPOLL_CTL_ADD, false) | (EPOLL_CTL_MOD, true) => {
            epoll.watched.insert(fd, interest);
            Ok(())
        }
        (EPOLL_CTL_MOD, false) => Err(Errno::NOENT),
        _ => Err(Errno::INVAL),
    }
}

/// One attempt of `epoll_wait`: (events, data) of at most `most` ready sockets, or `AGAIN`.
pub(super) fn wait(state: &mut State, epfd: RawFd, most: usize) -> Call<Vec<(u32, u64)>> {
    let watched: Vec<_> = instance(state, epfd)?.watched.clone().into_iter().collect();
    let mut found = Vec::new();
    for (fd, mut interest) in watched {
        if found.len() == most {
            break;
        }
        ready::look(state, fd);
        let edges = state.socket(fd).map_or(0, |socket| socket.edges);
        let flags = (EPOLLET | EPOLLONESHOT) as u32;
        let asked = (interest.events & !flags) | (EPOLLERR | EPOLLHUP) as u32;
        let holds = u32::from(ready::events(state, fd) as u16) & asked;
        let is_news = interest.events & EPOLLET as u32 == 0 || interest.seen != Some(edges);
        if holds == 0 || !is_news || interest.events & !flags == 0 {
            continue;
        }
        found.push((holds, interest.data));
        interest.seen = Some(edges);
        if interest.events & EPOLLONESHOT as u32 != 0 {
            interest.events &= flags;
        }
        instance(state, epfd)?.watched.insert(fd, interest);
    }
    if found.is_empty() { Err(Errno::AGAIN) } else { Ok(found) }
}
