//! The user's side of a ladder: calls of the stack, and checks of the connection's and the stack's
//! state.

use super::*;

impl Ladder {
    // The user.

    pub(super) fn listen(&mut self) {
        let config =
            ListenConfig { backlog: self.setup.backlog, tcp: self.setup.tcp, ..Default::default() };
        let local = SocketAddr::new(self.end.addr, LISTEN_PORT);
        self.listener = Some(self.end.stack.tcp_listen(local, config).expect("free"));
        self.wire.ports = (PEER_PORT, LISTEN_PORT);
    }

    /// The peer opens the connection in three lines: SYN, SYN-ACK, ACK.
    #[track_caller]
    pub(super) fn handshake(&mut self) {
        self.send(self.setup.syn.clone());
        self.expect(syn_ack());
        self.pass(self.setup.rtt);
        self.send(seg().seq(1).ack(1));
        self.nothing();
    }

    #[track_caller]
    pub(super) fn accept(&mut self) {
        let listener = self.listener.expect("listening");
        self.handle = self.end.stack.tcp_accept(listener);
        if self.handle.is_none() {
            self.fail("nothing to accept");
        }
        self.poll();
    }

    /// The user opens a connection; the script must answer the SYN.
    pub(super) fn connect(&mut self) {
        let remote = SocketAddr::new(self.wire.addr, LISTEN_PORT);
        let (config, now) = (self.setup.tcp, self.now);
        let handle = self.end.stack.tcp_connect(remote, None, &config, Owner::program(), now);
        let handle = handle.expect("routed");
        self.handle = Some(handle);
        let (local, _) = self.end.stack.tcp_addresses(handle).expect("there");
        self.wire.ports = (LISTEN_PORT, local.port());
        self.collect();
    }

    pub(super) fn h(&self) -> TcpHandle {
        self.handle.expect("a connection")
    }

    #[track_caller]
    pub(super) fn write(&mut self, len: usize) {
        let data = wire_end::stream(self.written, len);
        let taken = self.end.stack.tcp_write(self.h(), &data);
        assert_eq!(taken, Ok(len));
        self.written += len;
        self.collect();
    }

    /// Write through a loaned buffer, which is sent as one segment.
    pub(super) fn write_loaned(&mut self, len: usize) {
        let (mut m, _) = self.end.stack.tcp_alloc(self.h()).expect("buffers");
        assert_eq!(m.append(&wire_end::stream(self.written, len)), len);
        self.end.stack.tcp_write_mbuf(self.h(), m).map_err(|(e, _)| e).expect("room");
        self.written += len;
        self.collect();
    }

    #[track_caller]
    pub(super) fn read(&mut self, len: usize) {
        let mut into = vec![0; len];
        let n = self.end.stack.tcp_read(self.h(), &mut into);
        assert_eq!(n, Ok(len));
        assert!(into == wire_end::stream(self.read, len), "the stream differs from what was sent");
        self.read += len;
        self.collect();
    }

    pub(super) fn read_result(&mut self) -> Result<usize, CallError> {
        let result = self.end.stack.tcp_read(self.h(), &mut [0]);
        self.collect();
        result
    }

    pub(super) fn write_result(&mut self) -> Result<usize, CallError> {
        let result = self.end.stack.tcp_write(self.h(), &[0]);
        self.collect();
        result
    }

    pub(super) fn shutdown(&mut self) {
        self.end.stack.tcp_shutdown_write(self.h());
        self.collect();
    }

    pub(super) fn close(&mut self) {
        self.end.stack.tcp_close(self.h());
        self.collect();
    }

    pub(super) fn abort(&mut self) {
        self.end.stack.tcp_abort(self.h());
        self.collect();
    }

    // State of the connection and the stack.

    #[track_caller]
    pub(super) fn info(&self) -> Info {
        self.end.stack.tcp_info(self.h()).expect("a connection")
    }

    #[track_caller]
    pub(super) fn state(&mut self, wanted: State) {
        let state = self.info().state;
        if state != wanted {
            self.fail(&format!("expected {}, is in {}", wanted.name(), state.name()));
        }
    }

    /// Asserts that no connection, TIME-WAIT record or buffer is left.
    #[track_caller]
    pub(super) fn all_gone(&mut self) {
        assert_eq!(self.end.stack.connection_count(), 0);
        assert_eq!(self.end.stack.time_wait_count(), 0);
        self.wire.pool.flush();
        assert_eq!(self.end.stack.pool().outstanding(), 0);
    }

    pub(super) fn drops(&self, reason: DropReason) -> u64 {
        self.end.stack.drops().of(reason)
    }

    pub(super) fn hits(&self, limit: Limit) -> u64 {
        self.end.stack.budget().hits(limit)
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.end.stack.counters().of(counter)
    }
}
