//! Programs made of tokio tasks, on hosts with stacks of their own, over modelled links, in virtual
//! time. The TCP is the real one: handshakes, windows, retransmissions, congestion control. A day
//! takes seconds, and a seed replays it.
//!
//! Called by: tests of network programs. docs/virtual-time.md is the guide.
//!
//! ```
//! # mod wirespeed { pub use {wirespeed_virtual_time as virtual_time, net}; }
//! use std::time::Duration;
//!
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use wirespeed::net::{TcpListener, TcpStream};
//! use wirespeed::virtual_time::{Loss, Path, World};
//!
//! let far = Path { delay: Duration::from_millis(50).into(), ..Path::default() };
//! let bad = Path { loss: Loss::Random(0.02), ..far };
//! let run = World::new(7).run(async |network| {
//!     let (client, server) = network.pair(bad)?;
//!     let listener = TcpListener::bind(&server.net()?, server.at(80))?;
//!     server.spawn(async move {
//!         let (mut stream, _) = listener.accept().await?;
//!         stream.write_all(&[1; 100_000]).await
//!     });
//!     let mut stream = TcpStream::connect(&client.net()?, server.at(80)).await?;
//!     let mut received = Vec::new();
//!     stream.read_to_end(&mut received).await?;
//!     Ok::<_, std::io::Error>(received.len())
//! })?;
//! assert_eq!(run.output?, 100_000);
//! assert!(run.elapsed > Duration::from_millis(200)); // of virtual time
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod host;
mod idle;
mod link;
mod network;
mod pump;
mod record;
mod state;
mod world;

pub use ::link::{Aqm, Counts, Loss, Outage, Settings as Path};
pub use error::{RunError, Stuck};
pub use host::Host;
pub use link::Link;
pub use network::Network;
pub use state::Paths;
pub use world::{Run, World};
