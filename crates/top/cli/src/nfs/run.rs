//! The work of `nfs`: list, print, copy.
//!
//! Called by: `nfs.rs`. Ctrl-C ends it; a file that is being copied is removed then, here and at
//! the server, if that answers in time.

use std::ffi::OsStr;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ::nfs::client::{Copied, Error, Reader, Unfinished, Url, get_tree, put_tree};
use ::nfs::proto::{Kind, Status};
use anyhow::{Context, Result, bail};

use super::args::{Args, How, What};
use super::connect::{From, Remote};
use crate::clock::Interrupt;
use crate::network::Network;
use crate::{Outcome, Usage, names, output};

/// How long a server may take to remove what was not finished, after Ctrl-C.
const REMOVE: Duration = Duration::from_secs(5);

pub(super) fn run(args: &Args, interrupt: &Interrupt) -> Result<Outcome> {
    let how = match &args.what {
        What::Ls { how, .. } | What::Cat { how, .. } | What::Cp { how, .. } => how,
    };
    // The device is opened outside of the runtime: that may take a while.
    let opened = match &how.network.dev {
        Some(_) => match open(args, how, interrupt)? {
            Some(opened) => Some(opened),
            None => return Ok(Outcome::Interrupted),
        },
        None => None,
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().context("cannot start threads")?;
    runtime.block_on(async {
        let (tasks, host) = match opened {
            Some((network, host)) => (Some(network.into_tasks()), Some(host)),
            None => (None, None),
        };
        let from = From { how, net: tasks.as_ref().map(|tasks| tasks.net.clone()), host };
        let pressed = interrupt.pressed()?;
        let random = getrandom::u64().context("the system gives no random numbers")?;
        let unfinished = Unfinished::new(random);
        let ended = tokio::select! {
            done = work(args, from, &unfinished) => {
                if done.is_err() && unfinished.is_there() {
                    left(&unfinished, "it did not remove it");
                }
                done.map(|()| Outcome::Done)
            }
            _ = pressed => {
                remove(&unfinished).await;
                Ok(Outcome::Interrupted)
            }
        };
        if let Some(tasks) = tasks {
            tasks.end().await;
        }
        ended
    })
}

/// A stack on the device, and the address of the server; `None` after Ctrl-C.
fn open(args: &Args, how: &How, interrupt: &Interrupt) -> Result<Option<(Network, IpAddr)>> {
    let server = match &args.what {
        What::Ls { url, .. } | What::Cat { url, .. } => url.host.clone(),
        What::Cp { from, to, .. } => match (url(from)?, url(to)?) {
            (Some(url), None) | (None, Some(url)) => url.host,
            _ => bail!(one_url()),
        },
    };
    let Some(mut network) = Network::open(&how.network, "nfs", interrupt)? else { return Ok(None) };
    let names = (&how.network, &how.names);
    let host = names::resolve(&mut network, names, &server, None, interrupt)?;
    Ok(host.map(|host| (network, host)))
}

/// Remove what a copy has begun at the server, and name it.
async fn remove(unfinished: &Unfinished) {
    if !unfinished.is_there() {
        return;
    }
    let why = match tokio::time::timeout(REMOVE, unfinished.remove()).await {
        Ok(Ok(())) => {
            let name = unfinished.name();
            return output::err(&format!("removed '{name}', what was copied of a file"));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the server did not answer within {} s", REMOVE.as_secs()),
    };
    left(unfinished, &why);
}

/// Say what is left at the server, and why.
fn left(unfinished: &Unfinished, why: &str) {
    let name = unfinished.name();
    output::err(&format!(
        "'{name}', what was copied of a file, is left at the server ({why}): remove it there, as \
         `find DIR -name '.wirespeed-*'` finds it"
    ));
}

async fn work(args: &Args, from: From<'_>, unfinished: &Unfinished) -> Result<()> {
    match &args.what {
        What::Ls { url, long, .. } => ls(from.remote(url).await?, *long).await,
        What::Cat { url, .. } => cat(from.remote(url).await?).await,
        What::Cp { from: source, to, recursive, .. } => {
            let began = Instant::now();
            let copied = match (url(source)?, url(to)?) {
                (Some(url), None) => get(from.remote(&url).await?, Path::new(to), *recursive).await,
                (None, Some(url)) => {
                    let remote = from.remote(&url).await?;
                    put(Path::new(source), remote, *recursive, unfinished).await
                }
                _ => bail!(one_url()),
            };
            output::out(&super::copied(&copied?, began.elapsed()))
        }
    }
}

fn one_url() -> Usage {
    Usage("one of FROM and TO has to be a URL: nfs://HOST/PATH".to_owned())
}

/// A URL, if the text is meant as one.
fn url(text: &str) -> Result<Option<Url>> {
    let is_url = text.starts_with("nfs://");
    Ok(is_url
        .then(|| text.parse().map_err(|error| Usage(format!("{text}: {error}"))))
        .transpose()?)
}

/// The last name of a path; empty for the root.
fn last(path: &[u8]) -> &[u8] {
    path.split(|&byte| byte == b'/').rfind(|name| !name.is_empty()).unwrap_or_default()
}

async fn ls(remote: Remote, long: bool) -> Result<()> {
    let (handle, of) = remote.found().await?;
    if of.kind != Kind::Directory {
        return output::out(&super::line(last(&remote.path), Some(&of), long));
    }
    let mut text = String::new();
    for entry in remote.nfs.list(&handle).await? {
        text += &super::line(&entry.name.0, entry.attributes.as_ref(), long);
    }
    output::out(&text)
}

async fn cat(remote: Remote) -> Result<()> {
    let (handle, of) = remote.found().await?;
    if of.kind != Kind::Regular {
        bail!("that is no regular file: `wirespeed nfs ls -l` shows what it is");
    }
    let mut reader = Reader::new(&remote.nfs, handle, of.size);
    while let Some(chunk) = reader.next().await? {
        if !output::written(std::io::stdout().lock().write_all(chunk.data()))? {
            break;
        }
    }
    Ok(())
}

async fn get(remote: Remote, to: &Path, recursive: bool) -> Result<Copied> {
    let found = remote.found().await?;
    if found.1.kind == Kind::Directory && !recursive {
        bail!("that is a directory: copy it with -r");
    }
    let name = last(&remote.path);
    let into = to.is_dir() && !matches!(name, b"" | b"." | b"..");
    let to = if into { to.join(OsStr::from_bytes(name)) } else { to.to_path_buf() };
    let random = getrandom::u64().context("the system gives no random numbers")?;
    Ok(get_tree(&remote.nfs, found, &to, random).await?)
}

async fn put(
    from: &Path,
    remote: Remote,
    recursive: bool,
    unfinished: &Unfinished,
) -> Result<Copied> {
    let of =
        std::fs::metadata(from).with_context(|| format!("cannot look at '{}'", from.display()))?;
    if of.is_dir() && !recursive {
        bail!("'{}' is a directory: copy it with -r", from.display());
    }
    let (nfs, path) = (&remote.nfs, &remote.path);
    // Into a directory that is there, or to a name in one.
    let name = last(path);
    let (dir, name) = match remote.found().await {
        Ok((dir, of)) if of.kind == Kind::Directory => {
            let own = from.canonicalize().ok();
            let own = own.as_deref().and_then(Path::file_name).context("the source has no name")?;
            (dir, own.as_encoded_bytes().to_vec())
        }
        Ok(_) | Err(Error::Status(Status::NoEntry)) => {
            let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
            let parent = &path[..end - name.len()];
            let parent = nfs.walk(&remote.root, parent).await?;
            (parent.0, name.to_vec())
        }
        Err(error) => return Err(error.into()),
    };
    Ok(put_tree(nfs, from, (dir, &name), unfinished).await?)
}
