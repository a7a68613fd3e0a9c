//! Messages: a header, then sets of records. A message never has more bytes than it may have.
//!
//! Called by: `exporter.rs`. RFC 7011 sections 3.1, 3.3, 3.4, 10.3.3.

use crate::element::Element;
use crate::template::Template;

const VERSION: u16 = 10;
pub(crate) const HEADER_LEN: usize = 16;
pub(crate) const SET_HEADER_LEN: usize = 4;
/// Ids of sets of templates. RFC 7011 3.3.2-a.
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;

/// A message in the making.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    /// Empty, or with room for a header.
    bytes: Vec<u8>,
    /// Where the open set begins, and its id.
    set: Option<(usize, u16)>,
    /// Data records in it. RFC 7011 3.1-b.
    pub(crate) records: u32,
    /// There are templates in it.
    pub(crate) has_templates: bool,
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of the message with a record of `len` bytes in a set of this id.
    fn len_with(&self, set: u16, len: usize) -> usize {
        let is_open = self.set.is_some_and(|(_, open)| open == set);
        self.bytes.len().max(HEADER_LEN) + if is_open { 0 } else { SET_HEADER_LEN } + len
    }

    /// Is there room for a record in a message of `most` bytes? RFC 7011 10.3.3-a.
    pub(crate) fn fits(&self, set: u16, len: usize, most: usize) -> bool {
        self.len_with(set, len) <= most
    }

    /// The set with this id is open. RFC 7011 3.3.1-a.
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

    /// Write the length of the open set. RFC 7011 3.3.2-b.
    fn end_set(&mut self) {
        let Some((at, _)) = self.set.take() else { return };
        let len = (self.bytes.len() - at) as u16;
        if let Some(field) = self.bytes.get_mut(at + 2..at + 4) {
            field.copy_from_slice(&len.to_be_bytes());
        }
    }

    /// The low `len` bytes of a number, the highest first. RFC 7011 6.1.1-a.
    fn put(&mut self, number: u64, len: usize) {
        self.bytes.extend(number.to_be_bytes().iter().skip(8 - len.min(8)));
    }

    /// Add the record of a template. RFC 7011 3.4.1-b, 3.4.2-a.
    pub(crate) fn template(&mut self, template: Template) {
        self.begin(set_of(template));
        self.has_templates = true;
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

    /// Add a record whose fields are `fields`.
    pub(crate) fn record(&mut self, template: Template, fields: &[u8]) {
        self.begin(template.id());
        self.bytes.extend_from_slice(fields);
        self.records += 1;
    }

    /// The message, without a header; another one begins.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.end_set();
        (self.records, self.has_templates) = (0, false);
        core::mem::take(&mut self.bytes)
    }
}

/// Write the header of a message. RFC 7011 3.1-a.
pub(crate) fn head(message: &mut [u8], time_s: u32, sequence: u32, domain: u32) {
    let first = u32::from(VERSION) << 16 | message.len() as u32;
    let words = [first, time_s, sequence, domain];
    for (field, word) in message.chunks_exact_mut(4).zip(words) {
        field.copy_from_slice(&word.to_be_bytes());
    }
}

/// The set that a template is in.
pub(crate) fn set_of(template: Template) -> u16 {
    if template.scopes() > 0 { OPTIONS_TEMPLATES } else { TEMPLATES }
}

/// Bytes of the record of a template.
pub(crate) fn template_len(template: Template) -> usize {
    let scopes = if template.scopes() > 0 { 2 } else { 0 };
    4 + scopes + 4 * template.elements().len()
}
