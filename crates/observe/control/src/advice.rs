//! Advice against the common causes of a file that cannot be written or read, for the end of a
//! message.
//!
//! Called by: tools, and gateways, whose users name files.

use std::io::{Error, ErrorKind};

/// What to do about a failed write; empty if the error says it all.
pub fn to_write(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull => " (make room on the disk: `df -h`)",
        ErrorKind::QuotaExceeded => " (make room under your quota: `quota`)",
        ErrorKind::BrokenPipe => " (the program that read it has ended; see its messages)",
        ErrorKind::NotFound => " (make the folder first: `mkdir -p`)",
        ErrorKind::PermissionDenied => " (choose a folder that you may write to)",
        ErrorKind::IsADirectory => " (this is a folder: name a file in it)",
        ErrorKind::ReadOnlyFilesystem => " (the file system is read-only: choose another)",
        _ => "",
    }
}

/// The same for a file that cannot be read.
pub fn to_read(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => " (see what there is: `ls`)",
        ErrorKind::PermissionDenied => " (read it as a user who may, such as root: `sudo`)",
        ErrorKind::IsADirectory => " (this is a folder: name a file in it)",
        _ => "",
    }
}
