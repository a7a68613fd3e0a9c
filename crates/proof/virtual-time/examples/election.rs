//! Five hosts elect a leader over TCP, while links are cut and hosts crash, in virtual time. The
//! law: no term has two leaders, and after all repairs there is one that everybody follows.
//! `election SEED` runs one world; without a seed, twenty.
//!
//! A node has a term and a vote. A follower that hears no leader becomes a candidate of the next
//! term and asks all others for votes; with three of five votes it leads, and says so every 50 ms.
//! Votes are kept on a disk, which is a value that survives the crash of its host.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::{Net, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use wirespeed_virtual_time::{Host, Loss, Network, Path, World};

const NODES: usize = 5;
const HEARTBEAT: Duration = Duration::from_millis(50);
const ASK: u8 = 0;
const LEAD: u8 = 1;

/// What a node keeps through a crash.
#[derive(Clone, Copy, Default)]
struct Disk {
    term: u32,
    /// The candidate that has the vote of this term.
    vote: Option<u8>,
}

/// The leaders of all terms, for the law.
type Leaders = Arc<Mutex<BTreeMap<u32, u8>>>;

#[derive(Clone)]
struct Node {
    number: u8,
    hosts: Vec<Host>,
    disk: Arc<Mutex<Disk>>,
    /// Changes whenever a leader or a candidate is heard that is worth waiting for.
    heard: Arc<watch::Sender<u32>>,
    leaders: Leaders,
    seed: u64,
}

impl Node {
    fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
        self.disk.lock().expect("no task panics with the lock")
    }

    /// Start the node's tasks on its host.
    fn start(&self) -> io::Result<()> {
        let host = &self.hosts[usize::from(self.number)];
        let listener = TcpListener::bind(&host.net()?, host.at(1))?;
        let node = self.clone();
        host.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let node = node.clone();
                tokio::spawn(timeout(HEARTBEAT * 4, async move { node.answer(stream).await }));
            }
        });
        let (node, net) = (self.clone(), host.net()?);
        host.spawn(async move { node.live(&net).await });
        Ok(())
    }

    /// Answer one message: its kind, the sender's term and number. The answer is our term, and
    /// whether we agree.
    async fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        let (kind, term) = (stream.read_u8().await?, stream.read_u32().await?);
        let from = stream.read_u8().await?;
        let (own, agrees) = {
            let mut disk = self.disk();
            if term > disk.term {
                *disk = Disk { term, vote: None };
            }
            let is_free = disk.vote.is_none_or(|vote| vote == from);
            let agrees = term == disk.term && (kind == LEAD || is_free);
            if agrees && kind == ASK {
                disk.vote = Some(from);
            }
            (disk.term, agrees)
        };
        if agrees {
            self.heard.send_replace(own);
        }
        stream.write_u32(own).await?;
        stream.write_u8(u8::from(agrees)).await
    }

    /// Send one message to each other node; returns how many agree.
    async fn ask_all(&self, net: &Net, kind: u8, term: u32) -> usize {
        let others = (0..NODES).filter(|&other| other != usize::from(self.number));
        let tasks: Vec<_> = others
            .map(|other| {
                let (net, to, from) = (net.clone(), self.hosts[other].at(1), self.number);
                tokio::spawn(timeout(HEARTBEAT * 2, ask(net, to, kind, term, from)))
            })
            .collect();
        let mut agree = 0;
        for task in tasks {
            if let Ok(Ok(Ok((their_term, agrees)))) = task.await {
                agree += usize::from(agrees);
                let mut disk = self.disk();
                if their_term > disk.term {
                    *disk = Disk { term: their_term, vote: None };
                }
            }
        }
        agree
    }

    /// Follow, stand for election, lead, and so on.
    async fn live(&self, net: &Net) {
        let mut heard = self.heard.subscribe();
        for round in 0_u64.. {
            // A time that differs from node to node and from round to round, drawn from the seed.
            let draw = (self.seed ^ (u64::from(self.number) << 32) ^ round)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let patience = HEARTBEAT * 4 + Duration::from_millis((draw >> 40) % 300);
            if timeout(patience, heard.changed()).await.is_ok() {
                continue;
            }
            let term = {
                let mut disk = self.disk();
                *disk = Disk { term: disk.term + 1, vote: Some(self.number) };
                disk.term
            };
            let votes = 1 + self.ask_all(net, ASK, term).await;
            if votes <= NODES / 2 || self.disk().term != term {
                continue;
            }
            let other = self.leaders.lock().expect("no panic").insert(term, self.number);
            assert!(other.is_none_or(|other| other == self.number), "two leaders of term {term}");
            while self.disk().term == term {
                self.ask_all(net, LEAD, term).await;
                sleep(HEARTBEAT).await;
            }
        }
    }
}

async fn ask(
    net: Net,
    to: std::net::SocketAddr,
    kind: u8,
    term: u32,
    from: u8,
) -> io::Result<(u32, bool)> {
    let mut stream = TcpStream::connect(&net, to).await?;
    let [a, b, c, d] = term.to_be_bytes();
    stream.write_all(&[kind, a, b, c, d, from]).await?;
    Ok((stream.read_u32().await?, stream.read_u8().await? == 1))
}

/// One world; returns the number of terms that had a leader.
async fn run(network: Network, seed: u64) -> io::Result<usize> {
    let path = Path {
        delay: Duration::from_millis(3).into(),
        jitter: Duration::from_millis(2).into(),
        loss: Loss::Random(0.01),
        ..Path::default()
    };
    let hosts = network.mesh(&["n0", "n1", "n2", "n3", "n4"], path)?;
    let leaders = Leaders::default();
    let node = |number: u8| Node {
        number,
        hosts: hosts.clone(),
        disk: Arc::default(),
        heard: Arc::new(watch::Sender::new(0)),
        leaders: leaders.clone(),
        seed,
    };
    let nodes: Vec<Node> = (0..NODES as u8).map(node).collect();
    for node in &nodes {
        node.start()?;
    }
    for round in 0..10 {
        sleep(Duration::from_secs(2)).await;
        // The leader is cut off from all others, and another host loses its power.
        let last = leaders.lock().expect("no panic").last_key_value().map(|(_, &number)| number);
        let leader = usize::from(last.unwrap_or_default());
        let other = (leader + 1 + round % (NODES - 1)) % NODES;
        for peer in (0..NODES).filter(|&peer| peer != leader) {
            network.between(&hosts[leader], &hosts[peer])?.partition();
        }
        hosts[other].crash();
        sleep(Duration::from_secs(2)).await;
        for peer in (0..NODES).filter(|&peer| peer != leader) {
            network.between(&hosts[leader], &hosts[peer])?.repair();
        }
        hosts[other].restart()?;
        nodes[other].start()?;
    }
    sleep(Duration::from_secs(5)).await;
    let terms: Vec<u32> = nodes.iter().map(|node| node.disk().term).collect();
    let leaders = leaders.lock().expect("no panic");
    let (&term, _) = leaders.last_key_value().expect("somebody was elected");
    assert!(terms.iter().all(|&own| own == term), "terms {terms:?}, but the leader has {term}");
    Ok(leaders.len())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seed = std::env::args().nth(1).map(|seed| seed.parse()).transpose()?;
    let seeds = seed.map_or(0..20, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let done = World::new(seed).digest(true).run(async |network| run(network, seed).await)?;
        println!(
            "seed {seed}: {} leaders in {:.0?}, digest {:016x}",
            done.output?, done.elapsed, done.digest
        );
    }
    Ok(())
}
