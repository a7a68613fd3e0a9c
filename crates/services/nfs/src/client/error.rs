//! [`Error`]: why there are no results, in words for users.
//!
//! Called by: all files of the client.

use rpc::client::CallError;
use rpc::xdr::DecodeError;

use crate::proto::Status;

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No reply, or one that says that the call could not be carried out.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server's status.
    #[error("{} ({})", meaning(.0), .0.name())]
    Status(Status),
    /// The results are something else.
    #[error("the server's results are not of the expected type")]
    Garbage(#[from] DecodeError),
    /// What was written may be lost.
    #[error("the server is started anew time and again: copy the file when it stays")]
    Restarted,
    /// More than a client takes.
    #[error("the directory has too many entries: list a directory below it")]
    TooManyEntries,
    /// A name that would lead elsewhere.
    #[error("the server has a name that is no name of a file here: '{0}'; it is not copied")]
    BadName(String),
    /// Deeper than anybody needs.
    #[error("the directories are too deep: copy a directory below")]
    TooDeep,
    /// A file or directory here.
    #[error("{0}")]
    Local(String, #[source] std::io::Error),
    /// Neither a file, nor a directory, nor a symbolic link.
    #[error("'{0}' is neither a file nor a directory nor a symbolic link: copy others by name")]
    Special(String),
    /// A symbolic link is where a directory is to be.
    #[error("'{0}' is a symbolic link here and a directory there: remove it first")]
    LinkInTheWay(String),
}

/// What a status means for the user.
fn meaning(status: &Status) -> &'static str {
    match status {
        Status::Ok => "it was done",
        Status::NotOwner => "only the owner may do that: look at the owner of the file",
        Status::NoEntry => "there is no such file or directory: look at its spelling",
        Status::Io => "the server's disk failed: look at its log",
        Status::NoDevice | Status::NotThisDevice => "the device of the file is not there",
        Status::Access => "the server allows it not: look at the rights of the file",
        Status::Exists => "there is a file of that name already: remove it, or take another name",
        Status::CrossDevice => "the two are on different file systems of the server: copy instead",
        Status::NotDirectory => "a directory is wanted, and it is none",
        Status::IsDirectory => "a file is wanted, and it is a directory: use -r for directories",
        Status::Invalid => "the server takes that for no sense: is it a regular file?",
        Status::TooBig => "the file would be larger than the server allows",
        Status::NoSpace => "the server's disk is full: make room there",
        Status::ReadOnly => "the server allows reading alone",
        Status::TooManyLinks => "the file has too many names",
        Status::NameTooLong => "the name is too long: take a shorter one",
        Status::NotEmpty => "the directory is not empty",
        Status::Quota => "the quota on the server is used up: make room there",
        Status::Stale => "the file is gone from the server: try again",
        Status::Remote => "the file is on another server",
        Status::BadHandle => "the server does not know the file's handle: try again",
        Status::NotSync => "somebody else has changed the file: try again",
        Status::BadCookie => "somebody else has changed the directory: try again",
        Status::NotSupported => "the server cannot do that",
        Status::TooSmall => "the server wants to answer with more than was allowed",
        Status::ServerFault => "the server failed: look at its log",
        Status::BadType => "the server has no files of that kind",
        Status::Jukebox => "the server is busy: try again later",
    }
}
