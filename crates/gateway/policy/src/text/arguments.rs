//! Rules of the command line: `--allow X`, `--deny X`, where X is
//! `NAME|ADDRESS|NETWORK|GROUP[:PORT[/PROTOCOL]]`.
//!
//! Called by: `text`. They come before the rules of the file. Several ports are separated by
//! commas; an IPv6 address with a port is in brackets.

use filter::text::parts::{self, Sets};

use super::words;
use crate::rules::{Action, Rule, Sni};

/// Something that is wrong in an argument, and its column, from 1.
pub(super) type Wrong = (u32, String);

/// Read the argument of an option; `number` counts options, from 1.
pub(super) fn rule(
    number: u32,
    action: Action,
    text: &str,
    sets: &mut Sets,
) -> Result<Rule, Vec<Wrong>> {
    let (host, ports, begin) = split(text).map_err(|wrong| vec![wrong])?;
    let column = |at: usize| text.get(..at).map_or(1, |before| before.chars().count() as u32 + 1);
    let (mut wrong, mut services, mut at) = (Vec::new(), Vec::new(), begin);
    for one in ports.into_iter().flat_map(|ports| ports.split(',')) {
        match words::services(one) {
            Ok(found) => services.extend(found),
            Err(why) => wrong.push((column(at), why)),
        }
        at += one.len() + 1;
    }
    let target = words::target(host, sets).map_err(|why| wrong.insert(0, (1, why))).ok();
    if let Some(why) = target.as_ref().and_then(|target| words::misfit(action, target)) {
        wrong.push((1, why));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    Ok(Rule {
        line: number,
        is_argument: true,
        action,
        targets: target.into_iter().collect(),
        services,
        sni: Sni::default(),
        via: None,
    })
}

/// The destination, the ports, and where these begin.
fn split(text: &str) -> Result<(&str, Option<&str>, usize), Wrong> {
    if let Some(inside) = text.strip_prefix('[') {
        let Some((host, rest)) = inside.split_once(']') else {
            return Err((1, "a `]` is missing: write `[ADDRESS]:PORT`".to_owned()));
        };
        return match rest.strip_prefix(':') {
            Some(ports) => Ok((host, Some(ports), host.len() + 3)),
            None if rest.is_empty() => Ok((host, None, 0)),
            None => Err((host.chars().count() as u32 + 3, "write `[ADDRESS]:PORT`".to_owned())),
        };
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or(rest);
        let why = "is a URL, and rules are about names and ports: write";
        return Err((1, format!("`{scheme}://` {why} `{host}:443`")));
    }
    if parts::network(text).is_ok() {
        return Ok((text, None, 0));
    }
    match text.split_once(':') {
        Some((host, ports)) if !ports.contains(':') => Ok((host, Some(ports), host.len() + 1)),
        _ => Ok((text, None, 0)),
    }
}
