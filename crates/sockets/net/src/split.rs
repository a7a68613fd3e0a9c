//! The two halves of a stream, borrowed or owned: one task can read while another task writes.
//!
//! Called by: programs. Each half dereferences to the stream. Dropping an owned write half shuts
//! down the write direction, as in tokio, unless [`OwnedWriteHalf::forget`] or `reunite` took the
//! half.

use core::ops::Deref;
use std::sync::Arc;

use crate::TcpStream;

/// The reading half, borrowed.
#[derive(Debug)]
pub struct ReadHalf<'a>(pub(crate) &'a TcpStream);

/// The writing half, borrowed.
#[derive(Debug)]
pub struct WriteHalf<'a>(pub(crate) &'a TcpStream);

/// The reading half, owned.
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The writing half, owned.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
    shut_down_on_drop: bool,
}

/// The two halves, which belong to different streams.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl core::fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(
            "these halves are of two streams: reunite two that one call of `into_split` \
                     returned",
        )
    }
}

impl std::error::Error for ReuniteError {}

impl TcpStream {
    /// Split the stream into two halves that borrow it.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf(self), WriteHalf(self))
    }

    /// Split the stream into two halves that own it together.
    ///
    /// ```
    /// # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// # use wirespeed::net::{Net, TcpListener};
    /// use wirespeed::net::TcpStream;
    /// # use wirespeed::pair::{PairConfig, pair};
    /// # let (client, server) = pair(&PairConfig::new([1, 2]));
    /// # let at = std::net::SocketAddr::new(server.addr, 7);
    /// # let (net, _driver) = Net::spawn_thread(client.stack)?;
    /// # let (server, _other) = Net::spawn_thread(server.stack)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let listener = TcpListener::bind(&server, at)?;
    /// let (mut reader, mut writer) = TcpStream::connect(&net, at).await?.into_split();
    /// # let (mut peer, _from) = listener.accept().await?;
    /// let writing = tokio::spawn(async move { writer.write_all(b"a question").await });
    /// # peer.write_all(b"an answer").await?;
    /// # drop(peer.read(&mut [0; 64]).await?);
    /// let mut answer = [0; 9];
    /// reader.read_exact(&mut answer).await?;
    /// assert_eq!(&answer, b"an answer");
    /// # writing.await??;
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let stream = Arc::new(self);
        let reading = OwnedReadHalf(stream.clone());
        (reading, OwnedWriteHalf { stream, shut_down_on_drop: true })
    }
}

impl OwnedReadHalf {
    /// Join the halves to the stream again.
    ///
    /// # Errors
    /// The halves, if they belong to different streams.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        let OwnedReadHalf(stream) = self;
        if !Arc::ptr_eq(&stream, &other.stream) {
            return Err(ReuniteError(OwnedReadHalf(stream), other));
        }
        other.forget();
        // The other half held the only other reference.
        Arc::try_unwrap(stream).map_err(|stream| {
            let other = OwnedWriteHalf { stream: stream.clone(), shut_down_on_drop: true };
            ReuniteError(OwnedReadHalf(stream), other)
        })
    }
}

impl OwnedWriteHalf {
    /// Drop the half without shutting down the write direction.
    pub fn forget(mut self) {
        self.shut_down_on_drop = false;
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shut_down_on_drop {
            // An error means that the connection is over or the driver is gone: then there is no
            // direction left to shut down.
            let _ = self.stream.close_writing();
        }
    }
}

impl Deref for ReadHalf<'_> {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        self.0
    }
}

impl Deref for WriteHalf<'_> {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        self.0
    }
}

impl Deref for OwnedReadHalf {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.0
    }
}

impl Deref for OwnedWriteHalf {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}
