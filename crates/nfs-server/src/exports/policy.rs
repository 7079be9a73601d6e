//! How one READ or WRITE is to be moved: which mode, how stable at least, and why.
//!
//! An [`IoPolicy`] belongs to an export. It is a value: it never changes, touches no file and knows no clock;
//! a live change puts another one in its place ([`LivePolicy`]) and calls under way finish with the one that
//! they asked. The text of a policy (words, the kernel's numbers, `--rule`) is read and written in
//! `words.rs`, name patterns in `pattern.rs`. Nothing here panics on an operator's or a client's input.

mod live;
mod open;
mod pattern;
mod words;

use std::net::IpAddr;

use ipnet::IpNet;
pub use nfs_io::Mode;
pub use nfs_io::auto::Hint;

pub use live::LivePolicy;
pub use open::{OpenAs, OpenCondition, OpenShare};
pub use pattern::NamePattern;
pub use words::{
    IoChange, ON_OFF, WriteMode, parse_mode, parse_read_ahead, parse_rule, show_size, show_way,
};
pub(crate) use words::{RuleParts, check_read_ahead, floor_of};

use crate::limits;

/// The operation that a mode is decided for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Io {
    /// READ: from a file to a client.
    Read,
    /// WRITE: from a client to a file.
    Write,
}

impl Io {
    /// The words of the configuration, of counters and of traces.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("read", Self::Read), ("write", Self::Write)];

    /// Both operations, in the order in which the tables of figures show them.
    pub(crate) const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The operation's word among [`Io::WORDS`].
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// How the mode of a READ or WRITE is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// It is this one.
    Fixed(Mode),
    /// It is chosen for each file and direction, from what its calls have in common ([`nfs_io::auto`]).
    Auto,
}

impl From<Mode> for Way {
    fn from(mode: Mode) -> Self {
        Self::Fixed(mode)
    }
}

impl Way {
    /// The mode in force where nobody chooses one.
    const fn unchosen(self) -> Mode {
        match self {
            Self::Fixed(mode) => mode,
            Self::Auto => Mode::Buffered,
        }
    }
}

/// Whether the modes that are chosen from what is seen are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AutoUse {
    /// They are, for calls of [`Way::Auto`].
    #[default]
    On,
    /// They are chosen for all calls, told, counted, and not taken: a fixed mode stays in force, and calls of
    /// [`Way::Auto`] are buffered.
    DryRun,
}

impl AutoUse {
    /// The words of the configuration.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("on", Self::On), ("dry-run", Self::DryRun)];
}

/// How stable the data of a WRITE is when it is answered: what a client asks for (`stable_how` of
/// RFC 1813 §3.3.7) and what the server says that it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    /// The data may be lost until a COMMIT is answered.
    Unstable,
    /// The data, and what is needed to read it back, is on stable storage.
    DataSync,
    /// The data and all attributes are on stable storage.
    FileSync,
}

/// The least that a WRITE is, whatever the client asks: a client's UNSTABLE is raised to this, and the
/// reply says what was done (RFC 1813 §3.3.7 lets a server do more than it was asked).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StableFloor {
    /// A WRITE is as stable as its client asks, and no more.
    #[default]
    Asked,
    /// DATA_SYNC: the data, and what is needed to read it back, is on stable storage. The kernel's WRITE
    /// mode 3, with direct.
    DataSync,
    /// FILE_SYNC: all attributes too. The kernel's WRITE mode 4, with direct.
    FileSync,
}

impl StableFloor {
    /// The words that the configuration has for the values.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("asked", Self::Asked),
        ("data-sync", Self::DataSync),
        ("file-sync", Self::FileSync),
    ];

    /// What a WRITE that asks for `asked` promises.
    pub(crate) fn raise(self, asked: Stability) -> Stability {
        match (self, asked) {
            (_, Stability::FileSync) | (Self::FileSync, _) => Stability::FileSync,
            (_, Stability::DataSync) | (Self::DataSync, _) => Stability::DataSync,
            (Self::Asked, Stability::Unstable) => Stability::Unstable,
        }
    }
}

/// How an export's READs and WRITEs are moved: rules, and what holds where none matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoPolicy {
    /// The way of READs that no rule matches.
    pub read: Way,
    /// The way of WRITEs that no rule matches.
    pub write: Way,
    /// Whether modes that are chosen from what is seen are taken, or only told.
    pub auto: AutoUse,
    /// What is known of the calls beforehand, for [`Way::Auto`], where the rule that matches says nothing else.
    pub hint: Hint,
    /// The least stability of every WRITE, whichever rule matches it.
    pub stable: StableFloor,
    /// Most bytes that are read ahead of one sequential stream of direct READs, where the rule that matches says
    /// nothing else; 0 for none. At most [`limits::READ_AHEAD_BYTES_MAX`].
    pub read_ahead: u64,
    /// Whether the ends of UNSTABLE direct WRITEs that fill no whole block are held in memory until a neighbour
    /// completes the block. Of no meaning in other modes.
    pub staging: bool,
    /// Space is taken ahead of a stream of UNSTABLE WRITEs that extends a file, where the rule that matches says
    /// nothing else.
    pub reserve: bool,
    /// WRITEs that come out of order wait a moment for those before them, where the rule that matches says nothing
    /// else.
    pub order: bool,
    /// Large buffered READs are sent from the page cache without a copy, where the rule that matches says nothing
    /// else. Of no meaning in other modes.
    pub splice: bool,
    /// The rules in the order in which they are tried; the first that matches decides. At most
    /// [`limits::IO_RULES_PER_EXPORT_MAX`].
    pub rules: Vec<Rule>,
}

impl Default for IoPolicy {
    /// In the mode that suits each file's calls, as stable as asked. What is chosen to be read direct is read ahead, and
    /// what is read buffered is not copied.
    fn default() -> Self {
        Self {
            read: Way::Auto,
            write: Way::Auto,
            auto: AutoUse::On,
            hint: Hint::Normal,
            stable: StableFloor::Asked,
            read_ahead: limits::READ_AHEAD_BYTES_DEFAULT,
            staging: false,
            reserve: false,
            order: false,
            splice: false,
            rules: Vec::new(),
        }
    }
}

/// One rule: calls that meet every condition are moved in the mode of `way`. A condition left out is met by all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// READs or WRITEs; both if left out.
    pub op: Option<Io>,
    /// Least bytes asked for: READ's count, the length of WRITE's data.
    pub min_bytes: u64,
    /// Most bytes asked for, this many included; `u64::MAX` is no bound.
    pub max_bytes: u64,
    /// Networks of the client's address, in IPv4 form where it has one. Empty: all.
    pub clients: Vec<IpNet>,
    /// The name by which the file was last found. A file of which no name is known matches no pattern, not
    /// even `*`.
    pub name: Option<NamePattern>,
    /// What the file is open for to whoever calls (NFSv4's `share_access`).
    pub open: Option<OpenCondition>,
    /// What that open denies to others (`share_deny`).
    pub deny: Option<OpenCondition>,
    /// How the mode of the calls that match is found.
    pub way: Way,
    /// What is known of them beforehand, where it is not what the policy says.
    pub hint: Option<Hint>,
    /// What is read ahead of direct READs that match, where it is not what the policy says.
    pub read_ahead: Option<u64>,
    /// The least stability of the WRITEs it matches, where it is more than the policy's own (the kernel's
    /// WRITE modes 3 and 4 as a rule's mode).
    pub stable: StableFloor,
    /// Whether the WRITEs it matches are staged; `None` leaves that to the policy's own.
    pub staging: Option<bool>,
    /// Whether space is taken ahead of the WRITEs it matches, where it is not what the policy says.
    pub reserve: Option<bool>,
    /// Whether the WRITEs it matches wait for those before them, where it is not what the policy says.
    pub order: Option<bool>,
    /// Whether the buffered READs it matches are sent without a copy, where it is not what the policy says.
    pub splice: Option<bool>,
}

/// A READ or WRITE as the rules of a policy see it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Which of the two it is.
    pub io: Io,
    /// How many bytes it asks for, before the end of the file is known.
    pub bytes: u64,
    /// The client's address.
    pub client: IpAddr,
    /// The name by which the file was last found; `None` where none is known, or no rule asks for one.
    pub name: Option<&'a [u8]>,
    /// How the file is open to the caller.
    pub open: OpenAs,
}

/// What a policy decided for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How its bytes are to be moved, where that is possible. Of [`Way::Auto`] `buffered`, until the file's own
    /// choice is put here.
    pub mode: Mode,
    /// How the mode is found.
    pub way: Way,
    /// Whether a mode that is chosen from what is seen is taken.
    pub auto: AutoUse,
    /// What is known of such calls beforehand, for [`Way::Auto`].
    pub hint: Hint,
    /// The least stability; of no meaning for a READ.
    pub stable: StableFloor,
    /// Most bytes that are read ahead of a sequential stream of such READs, if they are direct; 0 for none.
    pub read_ahead: u64,
    /// The ends of a direct WRITE may be held; of no meaning for a READ.
    pub staging: bool,
    /// Space is taken ahead of a stream of such WRITEs; of no meaning for a READ.
    pub reserve: bool,
    /// Such WRITEs wait a moment for those before them; of no meaning for a READ.
    pub order: bool,
    /// Such READs are sent from the page cache without a copy, if they are large and buffered; of no meaning for a
    /// WRITE.
    pub splice: bool,
    /// The rule or setting that made this choice.
    pub because: Because,
}

/// The rule or setting by which a policy made its choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// The rule at this index of [`IoPolicy::rules`].
    Rule(usize),
    /// The policy's `read` or `write`: no rule matched.
    Setting,
}

/// The first condition of a rule that a call does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The rule is for the other operation.
    Op,
    /// The call has fewer or more bytes than the rule asks for.
    Size,
    /// The rule's networks do not hold the client's address.
    Client,
    /// The rule's pattern does not match the file's name.
    Name,
    /// The rule asks for a name, and none is known of the file.
    NameUnknown,
    /// The file is open in another way to the caller, or not at all, or is open.
    Open,
}

impl Choice {
    /// Whether a mode is chosen from what is seen of the file, to be taken or only told.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.way == Way::Auto || self.auto == AutoUse::DryRun
    }

    /// Whether the mode that is chosen so is taken.
    #[must_use]
    pub fn takes_verdict(&self) -> bool {
        self.way == Way::Auto && self.auto == AutoUse::On
    }
}

impl IoPolicy {
    /// How a call is to be moved.
    #[must_use]
    pub fn choose(&self, asked: &Asked<'_>) -> Choice {
        let asked = Asked {
            client: asked.client.to_canonical(),
            ..*asked
        };
        let matches = |rule: &Rule| rule.mismatch(&asked).is_none();
        let found = self
            .rules
            .iter()
            .enumerate()
            .find(|(_, rule)| matches(rule));
        let (way, stable, because) = match (found, asked.io) {
            (Some((index, rule)), _) => (rule.way, rule.stable, Because::Rule(index)),
            (None, Io::Read) => (self.read, self.stable, Because::Setting),
            (None, Io::Write) => (self.write, self.stable, Because::Setting),
        };
        let read_ahead = found.and_then(|(_, rule)| rule.read_ahead);
        let staging = found.and_then(|(_, rule)| rule.staging);
        let reserve = found.and_then(|(_, rule)| rule.reserve);
        let order = found.and_then(|(_, rule)| rule.order);
        let splice = found.and_then(|(_, rule)| rule.splice);
        // What the client says of its own file is nearer to it than what the whole export says.
        let advised = Some(asked.open.hint).filter(|&hint| hint != Hint::Normal);
        let hint = found.and_then(|(_, rule)| rule.hint).or(advised);
        Choice {
            mode: way.unchosen(),
            way,
            auto: self.auto,
            hint: hint.unwrap_or(self.hint),
            stable: stable.max(self.stable),
            read_ahead: read_ahead.unwrap_or(self.read_ahead),
            staging: staging.unwrap_or(self.staging),
            reserve: reserve.unwrap_or(self.reserve),
            order: order.unwrap_or(self.order),
            splice: splice.unwrap_or(self.splice),
            because,
        }
    }

    /// Does any rule ask for a file's name? If not, nobody need remember names.
    #[must_use]
    pub fn uses_names(&self) -> bool {
        self.rules.iter().any(|rule| rule.name.is_some())
    }

    /// Does any rule ask how a file is open? If not, nobody need look.
    #[must_use]
    pub fn uses_opens(&self) -> bool {
        let asks = |rule: &Rule| rule.open.is_some() || rule.deny.is_some();
        self.rules.iter().any(asks)
    }

    /// Rules that can never match, as (index, why, a sentence without its subject): because earlier ones
    /// take all of their calls one by one, or because no call is so large. Several earlier ones that only
    /// together leave nothing are not seen.
    #[must_use]
    pub fn idle_rules(&self) -> Vec<(usize, String)> {
        let idle = |(index, rule): (usize, &Rule)| {
            let most = u64::from(limits::IO_BYTES_MAX);
            if rule.min_bytes > most {
                let (min, most) = (show_size(rule.min_bytes), show_size(most));
                return Some((
                    index,
                    format!("can never match: no READ or WRITE has {min}, {most} is the most"),
                ));
            }
            let earlier = self.rules.get(..index).unwrap_or_default();
            let cover = |io| earlier.iter().position(|earlier| earlier.covers(rule, io));
            let ops = [Io::Read, Io::Write].into_iter();
            let covers: Option<Vec<usize>> = ops.filter(|io| rule.is_for(*io)).map(cover).collect();
            let covered = covers?.into_iter().max()?;
            let number = covered + 1;
            let why = format!(
                "can never match: rule {number} before it takes all its calls; put it before rule \
                 {number} or remove it"
            );
            Some((index, why))
        };
        self.rules.iter().enumerate().filter_map(idle).collect()
    }
}

impl Rule {
    /// A rule that every call matches: it has no conditions.
    #[must_use]
    pub const fn all(way: Way) -> Self {
        Self {
            op: None,
            min_bytes: 0,
            max_bytes: u64::MAX,
            clients: Vec::new(),
            name: None,
            open: None,
            deny: None,
            way,
            hint: None,
            read_ahead: None,
            stable: StableFloor::Asked,
            staging: None,
            reserve: None,
            order: None,
            splice: None,
        }
    }

    /// Why a call does not match; `None` if it does. The client's address is in its IPv4 form, where it has one.
    #[must_use]
    pub fn mismatch(&self, asked: &Asked<'_>) -> Option<Mismatch> {
        let listed = |net: &IpNet| net.contains(&asked.client);
        let holds = |condition: Option<OpenCondition>, share| {
            condition.is_none_or(|condition| condition.holds(share))
        };
        if !self.is_for(asked.io) {
            Some(Mismatch::Op)
        } else if asked.bytes < self.min_bytes || asked.bytes > self.max_bytes {
            Some(Mismatch::Size)
        } else if !self.clients.is_empty() && !self.clients.iter().any(listed) {
            Some(Mismatch::Client)
        } else if !holds(self.open, asked.open.access) || !holds(self.deny, asked.open.deny) {
            Some(Mismatch::Open)
        } else {
            match (&self.name, asked.name) {
                (None, _) => None,
                (Some(_), None) => Some(Mismatch::NameUnknown),
                (Some(pattern), Some(name)) if pattern.matches(name) => None,
                (Some(_), Some(_)) => Some(Mismatch::Name),
            }
        }
    }

    fn is_for(&self, io: Io) -> bool {
        self.op.is_none_or(|op| op == io)
    }

    /// Does this match every call of kind `io` that `later` matches, as far as is plain to see?
    fn covers(&self, later: &Self, io: Io) -> bool {
        let net_is_within = |net: &IpNet| self.clients.iter().any(|mine| mine.contains(net));
        let clients = self.clients.is_empty()
            || (!later.clients.is_empty() && later.clients.iter().all(net_is_within));
        let name = match (&self.name, &later.name) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(theirs)) => mine.covers(theirs),
        };
        let open = |mine: Option<OpenCondition>, theirs: Option<OpenCondition>| {
            mine.is_none_or(|mine| theirs.is_some_and(|theirs| mine.covers(theirs)))
        };
        self.is_for(io)
            && open(self.open, later.open)
            && open(self.deny, later.deny)
            && self.min_bytes <= later.min_bytes
            && self.max_bytes >= later.max_bytes
            && clients
            && name
    }
}

#[cfg(test)]
mod tests;
