//! How a file is open to whoever calls, and what a rule asks of that.

use super::Hint;

/// What an OPEN asks for, or denies to others: `share_access` and `share_deny` of RFC 8881 §18.16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OpenShare {
    /// Nothing. Of access: the caller has no open, as ever with NFSv3.
    #[default]
    None,
    /// Reading, and nothing else.
    Read,
    /// Writing, and nothing else.
    Write,
    /// Reading and writing.
    Both,
}

impl OpenShare {
    /// The words of questions.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("none", Self::None),
        ("read", Self::Read),
        ("write", Self::Write),
        ("both", Self::Both),
    ];
}

/// How the file is open to whoever calls: all default where the call goes by no open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpenAs {
    /// What it is open for.
    pub access: OpenShare,
    /// What others must not do meanwhile.
    pub deny: OpenShare,
    /// What the client said of its calls to come (IO_ADVISE, RFC 7862 §15.5).
    pub hint: Hint,
}

/// What a rule asks of an open's access, or of what it denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenCondition {
    /// Something, whatever it is.
    Any,
    /// Exactly this.
    Is(OpenShare),
}

impl OpenCondition {
    /// The words of rules.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("none", Self::Is(OpenShare::None)),
        ("any", Self::Any),
        ("read", Self::Is(OpenShare::Read)),
        ("write", Self::Is(OpenShare::Write)),
        ("both", Self::Is(OpenShare::Both)),
    ];

    /// Whether this share is what is asked for.
    #[must_use]
    pub fn holds(self, share: OpenShare) -> bool {
        match self {
            Self::Any => share != OpenShare::None,
            Self::Is(asked) => share == asked,
        }
    }

    /// Whether every share that `other` asks for is what this asks for, too.
    pub(super) fn covers(self, other: Self) -> bool {
        self == other || matches!(other, Self::Is(share) if self.holds(share))
    }
}
