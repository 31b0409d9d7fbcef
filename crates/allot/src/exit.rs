//! Exit codes: a fixed list that scripts may rely on, and the error that carries one.

use std::fmt;

/// What `allot help exit-codes` prints.
pub(crate) const TABLE: &str = "\
Exit codes of allot:
   0  done; `request --wait`: the cluster is ready
   1  an error, or the time limit of --wait passed; `catalog lint`: there are errors in the files
   2  `request --wait`, `access --wait`: the request was denied
   1  `catalog diff --exit-code`: something differs
   2  `catalog lint`: a file cannot be read, or holds no profile, or the command line is wrong; `catalog diff --exit-code`: it cannot be told
  10  `up`, `controllers`, `store`: another process uses the data folder
  11  `up`, `controllers`, `store`: the data folder holds files that are not Allotment's
  12  `up`, `controllers`, `store`: the data folder was written by a newer version
  13  `up`, `controllers`: the address to listen on is in use
  14  `up`, `controllers`, `store`: the data folder cannot be read or written, or is damaged
  15  `up`, `controllers`: a part of the program failed by a fault of its own, which is in the log; starting it again is safe
  64  the command line is wrong, but of `catalog lint`
 130  stopped by Ctrl-C before it was done
";

/// The codes, by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// An error, or a time limit.
    Failed = 1,
    /// A request was denied; or a check could not do its work.
    Denied = 2,
    /// Another process holds the data folder.
    FolderInUse = 10,
    /// The data folder is somebody else's.
    FolderForeign = 11,
    /// The data folder is of a newer version.
    FolderNewer = 12,
    /// The address is taken.
    AddressInUse = 13,
    /// The data folder cannot be used.
    FolderUnusable = 14,
    /// A part of the program panicked without which the rest cannot go on.
    Broken = 15,
    /// The command line is wrong.
    Usage = 64,
    /// Ctrl-C.
    Interrupted = 130,
}

/// An error of a command: one line for people, and a code for scripts.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: Code,
    /// The error; without a text where the code says it all.
    pub(crate) error: anyhow::Error,
}

impl Failure {
    /// An error with that code.
    pub(crate) fn new(code: Code, message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Failure { code, error: anyhow::Error::msg(message) }
    }

    /// An answer that only the code gives, and that is no error.
    pub(crate) fn silent(code: Code) -> Self {
        Failure { code, error: anyhow::Error::msg("") }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure { code: Code::Failed, error: error.into() }
    }
}

/// What a command ends with.
pub(crate) type Outcome = Result<(), Failure>;
