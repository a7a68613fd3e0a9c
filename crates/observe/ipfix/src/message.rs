//! Messages: a header, then sets of records. A message never exceeds its maximum length.
//!
//! Called by: `exporter.rs`. RFC 7011 sections 3.1, 3.3, 3.4, 10.3.3.

use crate::element::Element;
use crate::template::Template;

const VERSION: u16 = 10;
const HEADER_LEN: usize = 16;
const SET_HEADER_LEN: usize = 4;
/// Ids of sets that contain templates. RFC 7011 3.3.2-a: 2 for templates, 3 for options templates.
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    /// The bytes so far: none, or a header whose fields are filled in at the end, and sets.
    bytes: Vec<u8>,
    /// The offset where the open set begins, and the set's id.
    set: Option<(usize, u16)>,
    /// The number of data records in the message. RFC 7011 3.1-b: templates do not count.
    pub(crate) records: u32,
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The length of the message if a record of `len` bytes is added to a set with this id.
    fn len_with(&self, set: u16, len: usize) -> usize {
        let is_open = self.set.is_some_and(|(_, open)| open == set);
        self.bytes.len().max(HEADER_LEN) + if is_open { 0 } else { SET_HEADER_LEN } + len
    }

    /// Does a record of `len` bytes fit into a message of `most` bytes? RFC 7011 10.3.3-a: over UDP
    /// a message is not larger than the path's MTU allows.
    pub(crate) fn fits(&self, set: u16, len: usize, most: usize) -> bool {
        self.len_with(set, len) <= most
    }

    fn begin(&mut self, set: u16) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER_LEN, 0);
        }
        if self.set.is_none_or(|(_, open)| open != set) {
            self.end_set();
            self.set = Some((self.bytes.len(), set));
            self.put(set.into(), 2);
            self.put(0, 2);
        }
    }

    /// Fill in the length of the open set. RFC 7011 3.3.2-b: it includes the set's header.
    fn end_set(&mut self) {
        let Some((at, _)) = self.set.take() else { return };
        let len = (self.bytes.len() - at) as u16;
        if let Some(field) = self.bytes.get_mut(at + 2..at + 4) {
            field.copy_from_slice(&len.to_be_bytes());
        }
    }

    /// Append the low `len` bytes of a number. RFC 7011 6.1.1-a: integers are in network byte
    /// order.
    fn put(&mut self, number: u64, len: usize) {
        self.bytes.extend(number.to_be_bytes().iter().skip(8 - len.min(8)));
    }

    /// Append the record of a template. RFC 7011 3.4.1-b, 3.4.2-a: the id, the number of fields and
    /// the fields in the order of the data; in an options template the scope fields come first.
    pub(crate) fn template(&mut self, template: Template) {
        self.begin(set_of(template));
        let elements = template.elements();
        self.put(template.id().into(), 2);
        self.put(elements.len() as u64, 2);
        if template.scopes() > 0 {
            self.put(template.scopes().into(), 2);
        }
        for Element { id, len } in elements {
            self.put(id.into(), 2);
            self.put(len.into(), 2);
        }
    }

    /// Append a data record with these encoded fields.
    pub(crate) fn record(&mut self, template: Template, fields: &[u8]) {
        self.begin(template.id());
        self.bytes.extend_from_slice(fields);
        self.records += 1;
    }

    /// Return the message, and begin another one. RFC 7011 3.1-a: the header has version, length,
    /// export time, sequence number and domain.
    pub(crate) fn finish(&mut self, time_s: u32, sequence: u32, domain: u32) -> Vec<u8> {
        self.end_set();
        let mut bytes = core::mem::take(&mut self.bytes);
        self.records = 0;
        let len = bytes.len() as u64;
        for (number, size) in [
            (u64::from(VERSION) << 16 | len, 4),
            (u64::from(time_s), 4),
            (u64::from(sequence), 4),
            (u64::from(domain), 4),
        ] {
            self.put(number, size);
        }
        let header = core::mem::take(&mut self.bytes);
        bytes.splice(..HEADER_LEN.min(bytes.len()), header);
        bytes
    }
}

/// The id of the set for the records of templates of this kind.
pub(crate) fn set_of(template: Template) -> u16 {
    if template.scopes() > 0 { OPTIONS_TEMPLATES } else { TEMPLATES }
}

/// The length in bytes of the record of a template.
pub(crate) fn template_len(template: Template) -> usize {
    let scopes = if template.scopes() > 0 { 2 } else { 0 };
    4 + scopes + 4 * template.elements().len()
}
