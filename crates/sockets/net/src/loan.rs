//! Loaned buffers: a program reads received bytes in the buffer that received them, and writes
//! bytes into the buffer from which they are sent. The cluster passes from the stack to the program
//! or back; its bytes are not copied.
//!
//! Called by: programs. A loan may move to any thread and be dropped there. Until then it counts
//! against the stack's limit `mbuf_bytes`, so do not keep loans for long.

use core::ops::{Deref, DerefMut};
use core::task::Poll;
use std::io;

use mbuf::Mbuf;

use crate::inner::Inner;
use crate::wait::wait;
use crate::{TcpStream, error};

/// Received bytes, in the buffer that received them.
pub struct Received(Mbuf);

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Received {
    pub(crate) fn new(mbuf: Mbuf) -> Received {
        Received(mbuf)
    }

    /// Remove the first `n` bytes.
    pub fn advance(&mut self, n: usize) {
        self.0.trim_front(n.min(self.0.len()));
    }
}

/// An empty buffer of the stack, to fill and pass to [`TcpStream::send_loan`].
pub struct Loan(stack::Loan);

impl Loan {
    /// How many bytes may still be added.
    pub fn room(&self) -> usize {
        self.0.room()
    }

    /// Append as much of `data` as fits; one pass copies the bytes and sums them for the checksum.
    /// Returns the number of bytes appended.
    pub fn append(&mut self, data: &[u8]) -> usize {
        self.0.append(data)
    }

    /// Let `fill` write into the free part of the buffer; `fill` returns the number of bytes that
    /// it wrote.
    pub fn fill(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        self.0.fill(fill)
    }
}

impl Deref for Loan {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl TcpStream {
    /// Wait for data, and take the oldest received buffer; `None` is the end of the stream.
    ///
    /// # Errors
    /// The error with which the connection ended.
    pub async fn read_loan(&self) -> io::Result<Option<Received>> {
        let handle = self.handle();
        let look = move |inner: &mut Inner| inner.poll_read_mbuf(handle);
        let m = wait(self.net().shared(), self.read_readiness(), look).await?;
        Ok(m.map(Received))
    }

    /// [`TcpStream::read_loan`] without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or the error with which the connection ended.
    pub fn try_read_loan(&self) -> io::Result<Option<Received>> {
        match self.now(|inner| inner.poll_read_mbuf(self.handle()))? {
            Poll::Ready(m) => Ok(m?.map(Received)),
            Poll::Pending => Err(error::would_block()),
        }
    }

    /// An empty buffer, as long as one segment (or super-segment) of this connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] at the limit `mbuf_bytes`; [`io::ErrorKind::NotConnected`] if
    /// the connection is gone.
    pub fn loan(&self) -> io::Result<Loan> {
        let loaned = self.now(|inner| match inner.stack.tcp_info(self.handle()) {
            None => Err(error::not_connected()),
            Some(_) => Ok(inner.stack.tcp_loan(self.handle())),
        })??;
        let loan = loaned.ok_or_else(|| {
            let text = "no buffer is free: raise the limit `mbuf_bytes`, or hold fewer loans";
            io::Error::new(io::ErrorKind::OutOfMemory, text)
        })?;
        Ok(Loan(loan))
    }

    /// Send all of a filled buffer; the call waits for room in the send buffer. If the future is
    /// dropped before it is ready, the loan is dropped, and its bytes are not sent.
    ///
    /// ```
    /// # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
    /// # use wirespeed::net::{Net, TcpListener, TcpStream};
    /// # use wirespeed::pair::{PairConfig, pair};
    /// # let (client, server) = pair(&PairConfig::new([1, 2]));
    /// # let at = std::net::SocketAddr::new(server.addr, 7);
    /// # let (net, _driver) = Net::spawn_thread(client.stack)?;
    /// # let (server, _other) = Net::spawn_thread(server.stack)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let listener = TcpListener::bind(&server, at)?;
    /// # let stream = TcpStream::connect(&net, at).await?;
    /// # let (peer, _from) = listener.accept().await?;
    /// let mut loan = stream.loan()?;
    /// loan.append(b"no copy after this one");
    /// stream.send_loan(loan).await?;
    /// let received = peer.read_loan().await?.expect("the stream goes on");
    /// assert_eq!(&received[..], b"no copy after this one");
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`], or the error with which the connection ended.
    pub async fn send_loan(&self, loan: Loan) -> io::Result<()> {
        let handle = self.handle();
        let mut waiting = Some(loan.0);
        let look = move |inner: &mut Inner| {
            let Some(loan) = waiting.take() else { return Poll::Ready(Ok(())) };
            match inner.stack.tcp_write_loan(handle, loan) {
                Ok(()) => Poll::Ready(Ok(())),
                Err((why, loan)) => {
                    waiting = Some(loan);
                    inner.no_room(handle, why).map_ok(|_| ())
                }
            }
        };
        wait(self.net().shared(), self.write_readiness(), look).await
    }
}
