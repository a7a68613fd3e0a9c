//! `wirespeed up` in a namespace, and what it says about itself by its metrics. Called by the rows.
//! It ends with its value.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::space::{End, Running, Space, until};
use super::world::World;

/// Where each router serves its metrics: a part of its configuration.
pub(super) const METRICS: &str = "[metrics]\nlisten = \"127.0.0.1:9464\"\n";
const ADDRESS: (&str, u16) = ("127.0.0.1", 9464);
/// How long it may take to begin, or to answer.
const LIMIT: Duration = Duration::from_secs(20);

/// A router of ours.
pub(super) struct Router<'a> {
    space: &'a Space,
    running: Running,
    log: PathBuf,
}

impl<'a> Router<'a> {
    /// Starts it, and waits until it forwards; `name` is that of its files.
    ///
    /// # Errors
    /// It does not start; the error has its words.
    pub(super) fn start(
        world: &World,
        space: &'a Space,
        name: &str,
        config: &str,
    ) -> Result<Router<'a>> {
        let (file, log) = (world.path(format!("{name}.toml")), world.path(format!("{name}.log")));
        std::fs::write(&file, config)?;
        let mut command = space.command(&world.wirespeed);
        command.arg("up").arg(file).env("WIRESPEED_RUNTIME_DIR", world.path("run"));
        let running = Running::start(&mut command, &log, End::Asked)?;
        let mut router = Router { space, running, log };
        let forwards = || {
            let said = router.said();
            ensure!(router.running.is_alive(), "the router has ended");
            Ok(said.contains("forwarding; SIGHUP reads"))
        };
        until("the router forwards", LIMIT, Duration::from_millis(20), forwards)
            .with_context(|| router.said())?;
        Ok(router)
    }

    /// Its log.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The first process.
    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// The process that runs the stack.
    ///
    /// # Errors
    /// The router has ended.
    pub(super) fn worker(&self) -> Result<u32> {
        let id = self.running.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.context("the router has ended")?;
        let first = children.split_whitespace().next().context("the router has no worker")?;
        Ok(first.parse()?)
    }

    /// Runs `work` where [`Metrics::read`] reaches this router.
    ///
    /// # Errors
    /// Those of `work`.
    pub(super) fn beside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.space.within(work).with_context(|| self.said())
    }
}

/// The metrics of a router, as of one moment.
pub(super) struct Metrics(String);

impl Metrics {
    /// Those of the router whose namespace the calling thread is in.
    ///
    /// # Errors
    /// There is none, or it does not answer.
    pub(super) fn read() -> Result<Metrics> {
        let mut stream = TcpStream::connect(ADDRESS).context("the router serves no metrics")?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).context("the router does not answer")?;
        if !text.starts_with("HTTP/1.1 200") {
            bail!("the router refuses: {}", text.lines().next().unwrap_or_default());
        }
        Ok(Metrics(text))
    }

    /// A metric without labels.
    ///
    /// # Errors
    /// There is none of that name.
    pub(super) fn value(&self, name: &str) -> Result<u64> {
        let begin = format!("wirespeed_{name} ");
        let mut lines = self.0.lines();
        let found = lines.find_map(|line| line.strip_prefix(&begin)?.trim().parse().ok());
        found.with_context(|| format!("there is no metric wirespeed_{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# HELP wirespeed_routes Routes.\nwirespeed_routes_refused_total 7\n\
                    wirespeed_routes 12\n";
        let metrics = Metrics(text.to_owned());
        assert_eq!(metrics.value("routes").expect("it is there"), 12);
        assert!(metrics.value("route").is_err());
    }
}
