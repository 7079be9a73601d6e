//! What is wrong with a configuration, where, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong in a configuration, with the place where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, counted from 1; `None` when it is about the whole file.
    pub line: Option<usize>,
    /// What is wrong; and, after a semicolon, the cure.
    pub message: String,
}

/// Everything that is wrong with one configuration. Never empty.
///
/// Displays as `file:line: what is wrong; the cure`, one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file, or `None` when the configuration came from flags.
    pub file: Option<PathBuf>,
    /// The problems in the order in which they stand in the file.
    pub problems: Vec<Problem>,
}

impl ConfigErrors {
    /// One problem with the whole of `file`.
    pub fn one(file: &Path, message: impl Into<String>) -> Self {
        let problem = Problem {
            line: None,
            message: message.into(),
        };
        Self {
            file: Some(file.to_owned()),
            problems: vec![problem],
        }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            if let Some(file) = &self.file {
                write!(f, "{}:", file.display())?;
                if let Some(line) = problem.line {
                    write!(f, "{line}:")?;
                }
                f.write_str(" ")?;
            }
            f.write_str(&problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
