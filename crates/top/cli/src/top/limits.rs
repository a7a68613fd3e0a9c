//! The limits of the connections that matter most: a thread looks at them four times a second.
//!
//! Called by: `besides.rs`, for `explain`'s sentence of each. Screens may be minutes apart, and a
//! verdict needs looks of the last seconds.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use explain::{Looked, Recent, Words};

use crate::running::{Contact, Refused, has_ended, typed};
use wirespeed::control::protocol::Question;

/// The most connections that are looked at.
pub(super) const AT_A_TIME: usize = 8;

/// Time between two looks.
const APART: Duration = Duration::from_millis(250);

/// A connection of a program: its stack, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id {
    pub(super) stack: usize,
    pub(super) number: u64,
}

/// The thread, which ends with this.
pub(super) struct Limits {
    wanted: Sender<Vec<Id>>,
    found: Arc<Mutex<HashMap<Id, Words>>>,
}

impl Limits {
    /// Look at connections of the program with this control socket, once some are wanted.
    ///
    /// # Errors
    /// The program does not answer, or there can be no thread.
    pub(super) fn begin(path: PathBuf) -> Result<Limits> {
        let mut contact = Contact::open(path)?;
        let (wanted, asked) = channel();
        let found = Arc::new(Mutex::new(HashMap::new()));
        let into = found.clone();
        let thread = std::thread::Builder::new().name("limits".to_owned());
        thread.spawn(move || look(&mut contact, &asked, &into))?;
        Ok(Limits { wanted, found })
    }

    /// The limits that are known; from now on `wanted` are looked at, the first [`AT_A_TIME`] of
    /// them.
    pub(super) fn of(&mut self, mut wanted: Vec<Id>) -> HashMap<Id, Words> {
        wanted.truncate(AT_A_TIME);
        // A thread that has ended knows nothing more: the program is gone.
        let _ = self.wanted.send(wanted);
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Look until nobody asks any more or the program has ended.
fn look(contact: &mut Contact, asked: &Receiver<Vec<Id>>, into: &Mutex<HashMap<Id, Words>>) {
    let (mut wanted, mut recent) = (Vec::new(), Recent::default());
    loop {
        match asked.recv_timeout(APART) {
            Ok(others) => wanted = others,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        match round(contact, &mut wanted, &mut recent) {
            Ok(found) => *into.lock().unwrap_or_else(PoisonError::into_inner) = found,
            Err(error) if has_ended(&error) => return,
            Err(_) => {}
        }
        recent.forget();
    }
}

/// Look at each once.
fn round(
    contact: &mut Contact,
    wanted: &mut [Id],
    recent: &mut Recent<Id>,
) -> Result<HashMap<Id, Words>> {
    wanted.sort_unstable();
    let mut found = HashMap::new();
    for of_stack in wanted.chunk_by(|one, other| one.stack == other.stack) {
        let stack = of_stack[0].stack;
        let numbers = of_stack.iter().map(|id| id.number).collect();
        let rows: Vec<Looked> = match contact.ask(&Question::Connections { stack, numbers }) {
            Ok(answer) => typed(answer.body)?,
            Err(error) if error.is::<Refused>() => continue,
            Err(error) => return Err(error),
        };
        for Looked { connection, look } in rows {
            let id = Id { stack, number: connection.number };
            if let Some(words) = recent.take(id, look) {
                found.insert(id, words);
            }
        }
    }
    Ok(found)
}
