//! Errnos and outcomes in words.

use crate::Errno;
use crate::probe::directory::Outcome;

/// The name an operator finds in manual pages, else what the C library says.
pub fn errno(errno: Errno) -> String {
    let name = match errno {
        Errno::ACCESS => "EACCES",
        Errno::AGAIN => "EAGAIN",
        Errno::INVAL => "EINVAL",
        Errno::IO => "EIO",
        Errno::NOENT => "ENOENT",
        Errno::NOSPC => "ENOSPC",
        Errno::NOSYS => "ENOSYS",
        Errno::NOTBLK => "ENOTBLK",
        Errno::NXIO => "ENXIO",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::PERM => "EPERM",
        Errno::STALE => "ESTALE",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// One word or two for what a trial came to; stable, since JSON has it as well.
pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Uncached => "uncached",
        Outcome::PassedThrough => "passed-through",
        Outcome::Cached { .. } => "cached",
        Outcome::NotMeasured => "not-measured",
        Outcome::Refused(_) => "refused",
        Outcome::Short => "short",
        Outcome::WrongBytes => "wrong-bytes",
    }
}

/// A few words on where the bytes of a trial went.
pub fn went(outcome: Outcome) -> String {
    match outcome {
        Outcome::Uncached => "past the page cache".to_owned(),
        Outcome::PassedThrough => "through the page cache, gone when done".to_owned(),
        Outcome::Cached { .. } => "silently through the page cache".to_owned(),
        Outcome::NotMeasured => "done, where it went cannot be seen".to_owned(),
        Outcome::Refused(error) => format!("refused ({})", errno(error)),
        Outcome::Short => "cut short".to_owned(),
        Outcome::WrongBytes => "WRONG BYTES".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_errors() {
        assert_eq!(errno(Errno::OPNOTSUPP), "EOPNOTSUPP");
        assert!(!errno(Errno::XDEV).is_empty());
        assert_eq!(went(Outcome::Refused(Errno::INVAL)), "refused (EINVAL)");
    }
}
