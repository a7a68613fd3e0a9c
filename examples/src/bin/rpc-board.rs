//! A board for notices: an RPC program of one's own, its server and its client.
//!
//! ```text
//! rpc-board serve --at 127.0.0.1:4000
//! rpc-board pin "back at noon"            over TCP; --udp: over UDP
//! rpc-board read
//! ```
//! `board.rs` does the work.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use tokio::net::{TcpListener, UdpSocket};
use wirespeed_examples::board;

/// A board for notices, over ONC RPC.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Where the board is.
    #[arg(long, global = true, default_value = "127.0.0.1:4000")]
    at: SocketAddr,
    /// Call over UDP.
    #[arg(long, global = true)]
    udp: bool,
}

#[derive(Subcommand)]
enum What {
    /// Be the board.
    Serve,
    /// Pin a notice.
    Pin {
        /// What it says.
        text: String,
        /// Who says it.
        #[arg(long, default_value = "somebody")]
        by: String,
    },
    /// Print all notices.
    Read,
}

#[tokio::main]
async fn main() -> ExitCode {
    wirespeed_examples::outcome(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<()> {
    let at = arguments.at;
    if matches!(arguments.what, What::Serve) {
        let listener =
            TcpListener::bind(at).await.with_context(|| format!("cannot listen at {at}"))?;
        // Port 0 is any: the same for UDP then.
        let at = listener.local_addr()?;
        let socket = UdpSocket::bind(at).await.with_context(|| format!("cannot bind {at}"))?;
        println!("the board is at {at}");
        return Ok(board::serve(listener, socket).await?);
    }
    let client = if arguments.udp { board::over_udp(at).await? } else { board::over_tcp(at)? };
    match arguments.what {
        What::Serve => {}
        What::Pin { text, by } => println!("{} notices", board::pin(&client, &by, &text).await?),
        What::Read => {
            for notice in board::read(&client).await? {
                println!("{}: {}", notice.by.0, notice.text.0);
            }
        }
    }
    Ok(())
}
