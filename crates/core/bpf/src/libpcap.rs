//! libpcap, loaded at run time: it compiles filter text to instructions, and its interpreter is the
//! reference for ours.
//!
//! Called by: programs that take filter text from a user; tests and benches. libpcap is not needed
//! at build time. The functions and structures are those of pcap/pcap.h and pcap/bpf.h, which have
//! not changed since version 1.0.

#![allow(unsafe_code, reason = "functions of C")]

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::fmt;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use libloading::Library;

use crate::insn::Insn;
use crate::packet::Packet;
use crate::validate::INSNS_MAX;

/// The message of libpcap's parser for any syntax error.
const SYNTAX_ERROR: &str = "syntax error";

/// A word that is an error at any place in a filter, and that libpcap reports as soon as it reads
/// it: the word looks like an Ethernet address but is not one.
const WRONG: &str = "1:1:";

/// Link types (`DLT_` of pcap/dlt.h).
pub mod linktype {
    /// Ethernet.
    pub const ETHERNET: i32 = 1;
    /// Bare IP, version 4 or 6 (`DLT_RAW`).
    pub const RAW_IP: i32 = 12;
}

/// File names of the library, with the version, as distributions install them.
const NAMES: [&str; 2] = ["libpcap.so.0.8", "libpcap.so.1"];

/// `struct bpf_program`.
#[repr(C)]
struct RawProgram {
    len: c_uint,
    insns: *mut Insn,
}

/// `struct pcap_pkthdr`: a time, bytes captured, bytes on the wire.
#[repr(C)]
struct RawHeader {
    time: RawTime,
    captured: u32,
    wire: u32,
}

/// `struct timeval`, which filters ignore.
#[repr(C)]
#[derive(Default)]
struct RawTime {
    seconds: core::ffi::c_long,
    microseconds: core::ffi::c_long,
}

/// `char errbuf[PCAP_ERRBUF_SIZE]`.
type ErrorText = [c_char; 256];

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Close = unsafe extern "C" fn(*mut c_void);
type Compile =
    unsafe extern "C" fn(*mut c_void, *mut RawProgram, *const c_char, c_int, u32) -> c_int;
type Message = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Free = unsafe extern "C" fn(*mut RawProgram);
type Offline = unsafe extern "C" fn(*const RawProgram, *const RawHeader, *const u8) -> c_int;
type Interpret = unsafe extern "C" fn(*const Insn, *const u8, c_uint, c_uint) -> c_uint;
type Image = unsafe extern "C" fn(*const Insn, c_int) -> *const c_char;
type OpenFile = unsafe extern "C" fn(*mut c_void, *mut c_char) -> *mut c_void;
type FileInMemory = unsafe extern "C" fn(*const u8, usize, *const c_char) -> *mut c_void;
type LookUp = unsafe extern "C" fn(*const c_char, *mut u32, *mut u32, *mut c_char) -> c_int;
type Version = unsafe extern "C" fn() -> *const c_char;

/// Held during calls that use global state of the library.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The loaded library, with the functions of it that are used here.
#[derive(Debug)]
pub struct Libpcap {
    open_dead: OpenDead,
    close: Close,
    compile: Compile,
    message: Message,
    free: Free,
    offline: Offline,
    interpret: Interpret,
    image: Image,
    version: Version,
    open_file: OpenFile,
    file_in_memory: FileInMemory,
    look_up: LookUp,
    /// The last field, so that it is dropped after the function pointers.
    _library: Library,
}

/// Which packets filter text is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The link type, as `DLT_`.
    pub linktype: i32,
    /// How many bytes of a matching packet the filter keeps.
    pub snaplen: u32,
    /// The netmask of the interface, which `ip broadcast` needs, in this machine's byte order.
    pub netmask: Option<u32>,
    /// The capturing machine has the other byte order than this one, so fields of link headers that
    /// are in machine order are swapped.
    pub is_swapped: bool,
}

impl Source {
    /// Packets captured on this machine, with no particular interface.
    pub fn new(linktype: i32, snaplen: u32) -> Source {
        Source { linktype, snaplen, netmask: None, is_swapped: false }
    }
}

/// Why filter text cannot be compiled.
#[derive(Debug)]
pub enum LibpcapError {
    /// The library is not installed, or lacks a function.
    Missing(String),
    /// libpcap refuses the text.
    Refused {
        /// The filter text.
        text: String,
        /// libpcap's message.
        message: String,
        /// The byte of the text where the wrong word begins: the word that the message quotes, or
        /// for a syntax error the word at which the parser stops; the end of the text, if more must
        /// follow. Words end at spaces and parentheses. `None` if the message quotes no word.
        position: Option<usize>,
    },
    /// The text contains a NUL, or libpcap is out of memory.
    Unusable(&'static str),
}

impl fmt::Display for LibpcapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LibpcapError::Missing(why) => write!(
                f,
                "filter text needs libpcap, which cannot be loaded ({why}); install it (Debian \
                 package libpcap0.8), or give the filter as instructions"
            ),
            LibpcapError::Refused { text, message, position } => {
                write!(f, "the filter '{text}' does not compile: {message}")?;
                position.map_or(Ok(()), |at| write!(f, ", at byte {at}"))
            }
            LibpcapError::Unusable(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for LibpcapError {}

impl Libpcap {
    /// Load the library.
    ///
    /// # Errors
    /// The library is not installed, or lacks a function.
    pub fn load() -> Result<Libpcap, LibpcapError> {
        let mut why = String::new();
        for name in NAMES {
            // SAFETY: loading runs the library's initialisers; those of libpcap only register.
            match unsafe { Library::new(name) } {
                Ok(library) => {
                    return Libpcap::with(library)
                        .map_err(|e| LibpcapError::Missing(e.to_string()));
                }
                Err(e) if why.is_empty() => why = e.to_string(),
                Err(_) => {}
            }
        }
        Err(LibpcapError::Missing(why))
    }

    fn with(library: Library) -> Result<Libpcap, libloading::Error> {
        // SAFETY: each name is a function of the type beside it in every libpcap since 1.0, and
        // the library stays loaded as long as the pointers, which `Libpcap` keeps to itself.
        unsafe {
            Ok(Libpcap {
                open_dead: *library.get::<OpenDead>(b"pcap_open_dead\0")?,
                close: *library.get::<Close>(b"pcap_close\0")?,
                compile: *library.get::<Compile>(b"pcap_compile\0")?,
                message: *library.get::<Message>(b"pcap_geterr\0")?,
                free: *library.get::<Free>(b"pcap_freecode\0")?,
                offline: *library.get::<Offline>(b"pcap_offline_filter\0")?,
                interpret: *library.get::<Interpret>(b"bpf_filter\0")?,
                image: *library.get::<Image>(b"bpf_image\0")?,
                version: *library.get::<Version>(b"pcap_lib_version\0")?,
                open_file: *library.get::<OpenFile>(b"pcap_fopen_offline\0")?,
                // `fmemopen` is in the C library, which libpcap is linked with.
                file_in_memory: *library.get::<FileInMemory>(b"fmemopen\0")?,
                look_up: *library.get::<LookUp>(b"pcap_lookupnet\0")?,
                _library: library,
            })
        }
    }

    /// The library's name and version.
    pub fn version(&self) -> String {
        // SAFETY: the function returns a string that is never freed.
        unsafe { string((self.version)()) }
    }

    /// Compile filter text in tcpdump's language (pcap-filter(7)) to optimised instructions. A
    /// match keeps `snaplen` bytes. This may resolve host names, which may take a while.
    ///
    /// # Errors
    /// The text does not compile: libpcap's message, and where the wrong word is.
    pub fn compile(
        &self,
        text: &str,
        linktype: i32,
        snaplen: u32,
    ) -> Result<Vec<Insn>, LibpcapError> {
        self.compile_for(text, &Source::new(linktype, snaplen))
    }

    /// [`Libpcap::compile`], for packets of the given source.
    ///
    /// # Errors
    /// The text does not compile: libpcap's message, and where the wrong word is.
    pub fn compile_for(&self, text: &str, source: &Source) -> Result<Vec<Insn>, LibpcapError> {
        let message = match self.attempt(text, source)? {
            Ok(insns) => return Ok(insns),
            Err(message) => message,
        };
        let position = if message.contains(SYNTAX_ERROR) {
            self.stopped_at(text, source)
        } else {
            quoted(text, &message)
        };
        Err(LibpcapError::Refused { text: text.to_owned(), message, position })
    }

    /// Find the word at which the parser stops, because the message of a syntax error does not name
    /// it. The parser reads word by word and reports a word that is wrong in itself before any
    /// syntax error. So the rest of the text is replaced by such a word: if libpcap reports that
    /// word, the text before it is valid.
    fn stopped_at(&self, text: &str, source: &Source) -> Option<usize> {
        let comes_to = |&at: &usize| {
            let (before, _) = text.split_at(at);
            let tried = self.attempt(&format!("{before} {WRONG}"), source);
            matches!(tried, Ok(Err(message)) if !message.contains(SYNTAX_ERROR))
        };
        let begins = begins_of_words(text);
        let passed = begins.partition_point(comes_to);
        begins.get(passed.checked_sub(1)?).copied()
    }

    /// Compile the text with libpcap; returns the instructions, or libpcap's message.
    fn attempt(
        &self,
        text: &str,
        source: &Source,
    ) -> Result<Result<Vec<Insn>, String>, LibpcapError> {
        let c_text = CString::new(text)
            .map_err(|_| LibpcapError::Unusable("the filter holds a NUL; leave it out"))?;
        let head = head_of_file(source);
        // The value by which libpcap means an unknown netmask.
        let netmask = source.netmask.unwrap_or(u32::MAX);
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `handle` is used only if it is not null, and closed once; `raw` is freed once, if
        // compiling filled it in; `c_text` outlives the call, and `head` the handle; the message is
        // copied before the handle that owns it is closed.
        unsafe {
            let handle = self.open(source, &head);
            if handle.is_null() {
                return Err(LibpcapError::Unusable("libpcap has no memory for a filter"));
            }
            let mut raw = RawProgram { len: 0, insns: core::ptr::null_mut() };
            // The argument 1 asks for optimised code.
            let code = (self.compile)(handle, &mut raw, c_text.as_ptr(), 1, netmask);
            let result = if code == 0 {
                let insns = copied(&raw);
                (self.free)(&mut raw);
                Ok(insns)
            } else {
                Err(string((self.message)(handle)))
            };
            (self.close)(handle);
            Ok(result)
        }
    }

    /// A libpcap handle for a source; null if there is no memory. The handle reads a file that
    /// holds only a file header. For packets of a file, libpcap takes link headers in the file's
    /// byte order, which may have the numbers of other systems, and refuses a filter that asks for
    /// something that files do not record. That makes no difference for Ethernet and bare IP:
    /// there, the code that runs the filter supplies what the filter asks for.
    ///
    /// # Safety
    /// `head` outlives the handle.
    unsafe fn open(&self, source: &Source, head: &[u8; 24]) -> *mut c_void {
        let snaplen = c_int::try_from(source.snaplen).unwrap_or(c_int::MAX);
        // SAFETY: the file is read only, and has as many bytes as `fmemopen` is told; libpcap takes
        // it over, or, if it has no memory, leaves a file without packets open; the error's text
        // has the room that libpcap expects.
        unsafe {
            if [linktype::ETHERNET, linktype::RAW_IP].contains(&source.linktype) {
                return (self.open_dead)(source.linktype, snaplen);
            }
            let file = (self.file_in_memory)(head.as_ptr(), head.len(), c"r".as_ptr());
            if file.is_null() {
                return file;
            }
            let mut error: ErrorText = [0; 256];
            (self.open_file)(file, error.as_mut_ptr())
        }
    }

    /// The netmask of the first IPv4 network of an interface of this machine; `None` if the
    /// interface has none.
    pub fn netmask(&self, interface: &str) -> Option<u32> {
        let name = CString::new(interface).ok()?;
        let (mut net, mut mask, mut error): (u32, u32, ErrorText) = (0, 0, [0; 256]);
        // SAFETY: the name outlives the call, and each place has the size that libpcap expects.
        let code =
            unsafe { (self.look_up)(name.as_ptr(), &mut net, &mut mask, error.as_mut_ptr()) };
        // Both values are in network byte order; for an interface without an address they are zero.
        (code == 0 && mask != 0).then_some(u32::from_be(mask))
    }

    /// Run libpcap's interpreter on a packet in one piece, as the reference for our interpreter.
    pub fn offline_filter(&self, program: &crate::Program, packet: &[u8], wire_len: u32) -> u32 {
        let raw = RawProgram {
            len: program.insns().len() as c_uint,
            insns: program.insns().as_ptr().cast_mut(),
        };
        let captured = packet.len() as u32;
        let header = RawHeader { time: RawTime::default(), captured, wire: wire_len };
        // SAFETY: the program was validated, so the interpreter stays inside it and ends; it reads
        // at most `captured` bytes of the packet, and writes nothing.
        unsafe { (self.offline)(&raw, &header, packet.as_ptr()) as u32 }
    }

    /// Run `bpf_filter`, which [`Libpcap::offline_filter`] calls, on a packet's head: for
    /// benchmarks.
    #[inline]
    pub fn interpret(&self, program: &crate::Program, packet: &Packet<'_>) -> u32 {
        let (insns, bytes) = (program.insns().as_ptr(), packet.head);
        // SAFETY: as above.
        unsafe { (self.interpret)(insns, bytes.as_ptr(), packet.wire_len, bytes.len() as c_uint) }
    }

    /// The text of an instruction in the format of `tcpdump -d`.
    pub fn image(&self, insn: Insn, number: usize) -> String {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the function reads one instruction, and returns a static string that is valid
        // until the next call; the string is copied before that, under the lock.
        unsafe { string((self.image)(&insn, number as c_int)) }
    }
}

/// The header of a pcap file without packets, in the source's byte order.
fn head_of_file(source: &Source) -> [u8; 24] {
    // A few link types have other numbers in files.
    let linktype = match source.linktype {
        11 => 100,
        15 => 102,
        16 => 103,
        19 => 106,
        number => u32::try_from(number).unwrap_or(u32::MAX),
    };
    let turned = |word: u32| if source.is_swapped { word.swap_bytes() } else { word };
    let half = |half: u16| if source.is_swapped { half.swap_bytes() } else { half };
    let mut head = [0; 24];
    let bytes = turned(0xa1b2_c3d4).to_ne_bytes().into_iter();
    let bytes = bytes.chain([2, 4].into_iter().flat_map(|version| half(version).to_ne_bytes()));
    let words = [0, 0, source.snaplen, linktype];
    let bytes = bytes.chain(words.into_iter().flat_map(|word| turned(word).to_ne_bytes()));
    head.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    head
}

/// Copy the instructions of a program that libpcap made.
///
/// # Safety
/// `raw` has been filled in and not been freed.
unsafe fn copied(raw: &RawProgram) -> Vec<Insn> {
    let len = (raw.len as usize).min(INSNS_MAX + 1);
    if raw.insns.is_null() {
        return Vec::new();
    }
    // SAFETY: by this function's contract, `raw.insns` points to `raw.len` instructions.
    unsafe { core::slice::from_raw_parts(raw.insns, len) }.to_vec()
}

/// Copy a C string; empty for null.
///
/// # Safety
/// `text` is null, or ends in a NUL and is valid until this function returns.
unsafe fn string(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as this function's contract requires.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The offset in `text` of the word that libpcap's message quotes, preferably where it is a whole
/// word.
fn quoted(text: &str, message: &str) -> Option<usize> {
    let mut parts = message.split(['\'', '"']);
    let word = parts.nth(1).filter(|word| !word.is_empty())?;
    let is_apart = |&(at, _): &(usize, &str)| {
        let (before, behind) = (text.get(..at), text.get(at + word.len()..));
        let touches = [
            before.and_then(|before| before.chars().next_back()),
            behind.and_then(|behind| behind.chars().next()),
        ];
        !touches.into_iter().flatten().any(char::is_alphanumeric)
    };
    let apart = text.match_indices(word).find(is_apart).map(|(at, _)| at);
    apart.or_else(|| text.find(word))
}

/// The offsets where the words of a filter begin, and the end of the text. Spaces and parentheses
/// end any token of libpcap; which other characters end one depends on the token.
fn begins_of_words(text: &str) -> Vec<usize> {
    const PARENTHESES: [char; 2] = ['(', ')'];
    let mut begins = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let is_apart = PARENTHESES.contains(&c) || PARENTHESES.contains(&before);
        if !c.is_ascii_whitespace() && (before.is_ascii_whitespace() || is_apart) {
            begins.push(at);
        }
        before = c;
    }
    begins.push(text.len());
    begins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_found_where_it_stands_by_itself() {
        for (text, message, expected) in [
            ("tcp and port p", "unknown port 'p'", Some(13)),
            ("host ab and port b", "unknown port 'b'", Some(17)),
            ("(port b)", "unknown port 'b'", Some(6)),
            // The quoted text is nowhere a whole word: then the first place that contains it is
            // returned.
            ("udp or tcp", "what is 'p'?", Some(2)),
            ("udp", "what is 'x'?", None),
            ("udp", "what is ''?", None),
            ("udp", "no word of it", None),
        ] {
            assert_eq!(quoted(text, message), expected, "'{text}': {message}");
        }
    }

    #[test]
    fn words_begin_behind_spaces_and_at_parentheses() {
        assert_eq!(begins_of_words("tcp (udp  or) x"), [0, 4, 5, 10, 12, 14, 15]);
        assert_eq!(begins_of_words(" ip\t\u{e9} "), [1, 4, 7]);
        assert_eq!(begins_of_words(""), [0]);
    }
}
