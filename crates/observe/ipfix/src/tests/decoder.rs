//! A collecting process for tests: it reads messages as RFC 7011 describes them, and shares no code
//! with the encoder.

use std::collections::BTreeMap;

/// The fields of a record by the numbers of their elements.
pub(super) type Record = BTreeMap<u16, Vec<u8>>;

pub(super) struct Collector {
    domain: u32,
    /// For each template id, the element numbers and lengths of its fields.
    templates: BTreeMap<u16, Vec<(u16, u16)>>,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Collector {
    pub(super) fn new(domain: u32) -> Collector {
        Collector { domain, templates: BTreeMap::new() }
    }

    /// The data records of a message whose templates must all be known.
    pub(super) fn message(&mut self, bytes: &[u8]) -> Vec<Record> {
        let (records, unknown) = self.read(bytes);
        assert_eq!(unknown, 0, "sets without a template");
        records
    }

    /// Decode a message; returns how many of its sets have no known template.
    pub(super) fn unknown(&mut self, bytes: &[u8]) -> usize {
        self.read(bytes).1
    }

    fn read(&mut self, bytes: &[u8]) -> (Vec<Record>, usize) {
        assert_eq!(u16_at(bytes, 0), 10, "version");
        assert_eq!(usize::from(u16_at(bytes, 2)), bytes.len(), "length");
        assert_eq!(bytes[12..16], self.domain.to_be_bytes(), "domain");
        let (mut at, mut records, mut unknown) = (16, Vec::new(), 0);
        while at < bytes.len() {
            let (id, len) = (u16_at(bytes, at), usize::from(u16_at(bytes, at + 2)));
            let set = &bytes[at + 4..at + len];
            assert!(!set.is_empty(), "an empty set");
            match id {
                2 => self.templates(set, false),
                3 => self.templates(set, true),
                id => match self.templates.get(&id) {
                    Some(fields) => records.extend(data(set, fields)),
                    None => unknown += 1,
                },
            }
            at += len;
        }
        assert_eq!(at, bytes.len(), "sets fill the message");
        (records, unknown)
    }

    fn templates(&mut self, set: &[u8], has_scopes: bool) {
        let mut at = 0;
        while at < set.len() {
            let (id, count) = (u16_at(set, at), usize::from(u16_at(set, at + 2)));
            assert!(id >= 256 && count > 0, "template {id} of {count} fields");
            at += 4;
            if has_scopes {
                let scopes = usize::from(u16_at(set, at));
                assert!(0 < scopes && scopes <= count, "{scopes} scopes");
                at += 2;
            }
            let field = |field| (u16_at(set, at + 4 * field), u16_at(set, at + 4 * field + 2));
            let fields: Vec<(u16, u16)> = (0..count).map(field).collect();
            at += 4 * count;
            let before = self.templates.insert(id, fields.clone());
            assert!(before.is_none_or(|before| before == fields), "a template changed");
        }
        assert_eq!(at, set.len());
    }
}

fn data(set: &[u8], fields: &[(u16, u16)]) -> Vec<Record> {
    let (mut at, mut records) = (0, Vec::new());
    while at < set.len() {
        let mut record = Record::new();
        for &(id, len) in fields {
            let len = match len {
                0xffff => {
                    at += 1;
                    usize::from(set[at - 1])
                }
                len => usize::from(len),
            };
            record.insert(id, set[at..at + len].to_vec());
            at += len;
        }
        records.push(record);
    }
    records
}
