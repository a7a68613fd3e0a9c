//! Calls of the connection's user between the segments.

use super::Traffic;

impl Traffic {
    pub(super) fn user(&mut self) {
        let Some(peer) = self.peer.as_mut().filter(|p| p.held) else {
            return self.pass_time();
        };
        let handle = peer.handle;
        match self.rng.below(40) {
            0 => self.twins.call("shutdown write", |s| s.tcp_shutdown_write(handle)),
            1 => self.twins.call("shutdown read", |s| s.tcp_shutdown_read(handle)),
            2 => {
                peer.held = false;
                self.twins.call("close", |s| s.tcp_close(handle));
            }
            3 => {
                peer.held = false;
                self.read(usize::MAX);
                self.write(50_000);
                // Nothing is unread and much is unsent: the connection goes on without its user.
                self.twins.call("write and close", |s| s.tcp_close(handle));
            }
            4 if self.rng.one_in(3) => {
                peer.held = false;
                self.twins.call("abort", |s| s.tcp_abort(handle));
            }
            5..25 => {
                let most = self.rng.pick(&[10, 500, 3_000, 30_000]);
                let len = self.rng.below(most) as usize + 1;
                self.write(len);
            }
            _ => {
                let most = self.rng.pick(&[10, 2_000, 70_000]);
                self.read(most);
            }
        }
    }

    fn write(&mut self, len: usize) {
        let Some(handle) = self.peer.as_ref().map(|p| p.handle) else { return };
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let _ = self.twins.call(&format!("write {len}"), |s| s.tcp_write(handle, &data));
    }

    fn read(&mut self, most: usize) {
        let Some(handle) = self.peer.as_ref().map(|p| p.handle) else { return };
        let most = most.min(600_000);
        let _ = self.twins.call(&format!("read {most}"), |s| {
            let mut into = vec![0; most];
            let read = s.tcp_read(handle, &mut into);
            into.truncate(*read.as_ref().unwrap_or(&0));
            (read, into)
        });
    }
}
