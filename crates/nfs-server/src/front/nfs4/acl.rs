//! ACLs of NFSv4 as POSIX ACLs and back, as Linux's own server maps them (`fs/nfsd/nfs4acl.c`). No I/O.
//!
//! A POSIX ACL becomes entries that say exactly the same, of what its mask leaves. The other way round not everything
//! can be said: whatever is in doubt is not granted, and an entry that no mode can keep is refused.

use std::collections::BTreeMap;

use nfs_io::fs::{Perms, PosixAcl};
use nfs_wire::nfs4::{
    ACE4_ACCESS_ALLOWED_ACE_TYPE, ACE4_ACCESS_DENIED_ACE_TYPE, ACE4_APPEND_DATA, ACE4_DELETE_CHILD,
    ACE4_DIRECTORY_INHERIT_ACE, ACE4_EXECUTE, ACE4_FILE_INHERIT_ACE, ACE4_IDENTIFIER_GROUP,
    ACE4_INHERIT_ONLY_ACE, ACE4_READ_ACL, ACE4_READ_ATTRIBUTES, ACE4_READ_DATA, ACE4_SYNCHRONIZE,
    ACE4_WRITE_ACL, ACE4_WRITE_ATTRIBUTES, ACE4_WRITE_DATA, Nfsace4, Nfsstat4, Utf8str,
};

use crate::host::accounts::Kind;
use crate::limits;
use crate::vfs::Acls;

type Result<T> = core::result::Result<T, Nfsstat4>;

/// An entry of an ACL, as far as a POSIX ACL can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ace {
    /// It allows what its mask has, or else denies it.
    allows: bool,
    /// `ACE4_*_INHERIT*`.
    inheritance: u32,
    /// What is allowed or denied: `ACE4_*`.
    mask: u32,
    who: Who,
}

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Owner,
    OwningGroup,
    Everyone,
    User(u32),
    Group(u32),
}

impl Ace {
    /// The user or group that it is about, if it has a number.
    pub(super) const fn whom(&self) -> Option<(Kind, u32)> {
        match self.who {
            Who::Owner | Who::OwningGroup | Who::Everyone => None,
            Who::User(id) => Some((Kind::User, id)),
            Who::Group(id) => Some((Kind::Group, id)),
        }
    }
}

/// The entries that say what POSIX ACLs say.
pub(super) fn of_posix(acls: &Acls, is_directory: bool) -> Vec<Ace> {
    let mut aces = one_of_posix(&acls.access, 0, is_directory);
    if let Some(default) = &acls.default {
        let inheritance = PASSED_ON | ACE4_INHERIT_ONLY_ACE;
        aces.extend(one_of_posix(default, inheritance, is_directory));
    }
    aces
}

/// The POSIX ACLs that grant what the entries say, or less.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP for entries that deny what nobody can be denied, and for those that pass on from what is no
/// directory.
pub(super) fn to_posix(aces: &[Ace], is_directory: bool) -> Result<Acls> {
    let (mut access, mut default) = (Rights::default(), Rights::default());
    for ace in aces {
        let is_passed_on = ace.inheritance & PASSED_ON != 0;
        if is_passed_on && !is_directory {
            return Err(Nfsstat4::Attrnotsupp);
        }
        // To files or to directories alone nothing passes on: to both then (RFC 8881 §6.2.1.4.1 lets a server).
        if is_passed_on {
            default.add(ace);
        }
        if ace.inheritance & ACE4_INHERIT_ONLY_ACE == 0 {
            access.add(ace);
        }
    }
    let default = if default.speaks_of_nobody() {
        None
    } else {
        default.complete(&access);
        Some(default.to_posix(is_directory)?)
    };
    Ok(Acls {
        access: access.to_posix(is_directory)?,
        default,
    })
}

/// Takes a client's entries, at most [`limits::ACES_MAX`].
///
/// # Errors
/// NFS4ERR_FBIG for more, what `id` says of the user or group of this name, NFS4ERR_ATTRNOTSUPP for entries of types and with flags that a
/// POSIX ACL has not.
pub(super) fn decode(
    aces: &[Nfsace4<'_>],
    mut id: impl FnMut(Kind, &[u8]) -> Result<u32>,
) -> Result<Vec<Ace>> {
    if aces.len() > limits::ACES_MAX {
        return Err(Nfsstat4::Fbig);
    }
    aces.iter().map(|ace| decode_one(ace, &mut id)).collect()
}

/// Users and groups that entries are about, as a client names them.
pub(super) fn whom<'a>(aces: &'a [Nfsace4<'a>]) -> impl Iterator<Item = (Kind, &'a [u8])> {
    let others = aces.iter().filter(|ace| !SPECIAL.contains(&ace.who.0));
    others.map(|ace| (kind_of(ace.flag), ace.who.0))
}

const fn kind_of(flag: u32) -> Kind {
    if flag & ACE4_IDENTIFIER_GROUP != 0 {
        Kind::Group
    } else {
        Kind::User
    }
}

fn decode_one(ace: &Nfsace4<'_>, id: &mut impl FnMut(Kind, &[u8]) -> Result<u32>) -> Result<Ace> {
    let allows = match ace.acetype {
        ACE4_ACCESS_ALLOWED_ACE_TYPE => true,
        ACE4_ACCESS_DENIED_ACE_TYPE => false,
        _ => return Err(Nfsstat4::Attrnotsupp),
    };
    let inheritance = ace.flag & !ACE4_IDENTIFIER_GROUP;
    // What passes on only, and to nobody, says nothing (RFC 8881 §6.2.1.4.1).
    let is_known = inheritance & !(PASSED_ON | ACE4_INHERIT_ONLY_ACE) == 0;
    if !is_known || inheritance == ACE4_INHERIT_ONLY_ACE {
        return Err(Nfsstat4::Attrnotsupp);
    }
    let who = match ace.who.0 {
        OWNER => Who::Owner,
        GROUP => Who::OwningGroup,
        EVERYONE => Who::Everyone,
        name => match kind_of(ace.flag) {
            Kind::Group => Who::Group(id(Kind::Group, name)?),
            Kind::User => Who::User(id(Kind::User, name)?),
        },
    };
    Ok(Ace {
        allows,
        inheritance,
        mask: ace.access_mask,
        who,
    })
}

/// Entries with the names that they are sent with.
pub(super) struct Named(Vec<(Ace, String)>);

impl Named {
    pub(super) fn new(aces: Vec<Ace>, mut name: impl FnMut(Kind, u32) -> String) -> Self {
        let named = aces.into_iter().map(|ace| {
            let name = ace.whom().map(|(kind, id)| name(kind, id));
            (ace, name.unwrap_or_default())
        });
        Self(named.collect())
    }

    pub(super) fn encode(&self) -> Vec<Nfsace4<'_>> {
        let encoded = self.0.iter().map(|(ace, name)| {
            let (who, flag) = match ace.who {
                Who::Owner => (OWNER, 0),
                // As Linux's server tells it, without ACE4_IDENTIFIER_GROUP.
                Who::OwningGroup => (GROUP, 0),
                Who::Everyone => (EVERYONE, 0),
                Who::User(_) => (name.as_bytes(), 0),
                Who::Group(_) => (name.as_bytes(), ACE4_IDENTIFIER_GROUP),
            };
            Nfsace4 {
                acetype: if ace.allows {
                    ACE4_ACCESS_ALLOWED_ACE_TYPE
                } else {
                    ACE4_ACCESS_DENIED_ACE_TYPE
                },
                flag: ace.inheritance | flag,
                access_mask: ace.mask,
                who: Utf8str(who),
            }
        });
        encoded.collect()
    }
}

const OWNER: &[u8] = b"OWNER@";
const GROUP: &[u8] = b"GROUP@";
const EVERYONE: &[u8] = b"EVERYONE@";
/// Who is nobody by name.
const SPECIAL: [&[u8]; 3] = [OWNER, GROUP, EVERYONE];

/// What is made in a directory begins with the entry.
const PASSED_ON: u32 = ACE4_FILE_INHERIT_ACE | ACE4_DIRECTORY_INHERIT_ACE;

/// What writing is, to the bit: an ACL of NFSv4 tells more kinds of it apart than a mode.
const fn writing(is_directory: bool) -> u32 {
    let writing = ACE4_WRITE_DATA | ACE4_APPEND_DATA;
    if is_directory {
        writing | ACE4_DELETE_CHILD
    } else {
        writing
    }
}
/// What everybody may do with everything, whatever its mode says.
const ALWAYS: u32 = ACE4_READ_ATTRIBUTES | ACE4_READ_ACL | ACE4_SYNCHRONIZE;
/// What an owner may do, whatever the mode says.
const ALWAYS_OWNER: u32 = ACE4_WRITE_ATTRIBUTES | ACE4_WRITE_ACL;
/// What of that an entry must not deny.
const NEVER_DENIED: u32 = ACE4_READ_ATTRIBUTES | ACE4_READ_ACL;

const fn mask_of(perms: Perms, is_directory: bool) -> u32 {
    let mut mask = 0;
    if perms.has(Perms::READ) {
        mask |= ACE4_READ_DATA;
    }
    if perms.has(Perms::WRITE) {
        mask |= writing(is_directory);
    }
    if perms.has(Perms::EXECUTE) {
        mask |= ACE4_EXECUTE;
    }
    mask
}

/// What a mask lets do as a whole: of writing only all kinds together are the mode's.
const fn perms_of(mask: u32, is_directory: bool) -> Perms {
    let mut perms = Perms::NONE;
    if mask & ACE4_READ_DATA != 0 {
        perms = perms.or(Perms::READ);
    }
    if mask & writing(is_directory) == writing(is_directory) {
        perms = perms.or(Perms::WRITE);
    }
    if mask & ACE4_EXECUTE != 0 {
        perms = perms.or(Perms::EXECUTE);
    }
    perms
}

/// Whoever a POSIX ACL has an entry about gets nothing by a later entry, but by NFSv4's rules would: it is denied before
/// that. Groups are the exception: who is in several has what any of them has, so they are denied things behind the last
/// of them.
fn one_of_posix(acl: &PosixAcl, inheritance: u32, is_directory: bool) -> Vec<Ace> {
    let left = |perms: Perms| perms.and(acl.mask.unwrap_or(Perms::ALL));
    let all = |entries: &[(u32, Perms)]| {
        let perms = entries.iter().map(|(_, perms)| *perms);
        left(perms.fold(Perms::NONE, Perms::or))
    };
    let behind_users = left(acl.group).or(all(&acl.groups)).or(acl.other);
    let behind_owner = behind_users.or(all(&acl.users));
    let groups = core::iter::once((Who::OwningGroup, acl.group));
    let named = |(id, perms): &(u32, Perms)| (Who::Group(*id), *perms);
    let groups = groups.chain(acl.groups.iter().map(named));

    let mut list = List {
        aces: Vec::new(),
        inheritance,
        is_directory,
    };
    list.deny(Who::Owner, behind_owner.and(acl.owner.not()));
    list.allow(Who::Owner, acl.owner, ALWAYS | ALWAYS_OWNER);
    for (id, perms) in &acl.users {
        let perms = left(*perms);
        list.deny(Who::User(*id), behind_users.and(perms.not()));
        list.allow(Who::User(*id), perms, ALWAYS);
    }
    for (who, perms) in groups.clone() {
        list.allow(who, left(perms), ALWAYS);
    }
    for (who, perms) in groups {
        list.deny(who, acl.other.and(left(perms).not()));
    }
    list.allow(Who::Everyone, acl.other, ALWAYS);
    list.aces
}

/// Entries on their way into an ACL.
struct List {
    aces: Vec<Ace>,
    inheritance: u32,
    is_directory: bool,
}

impl List {
    fn allow(&mut self, who: Who, perms: Perms, always: u32) {
        let mask = mask_of(perms, self.is_directory) | always;
        self.push(true, who, mask);
    }

    fn deny(&mut self, who: Who, perms: Perms) {
        if perms != Perms::NONE {
            self.push(false, who, mask_of(perms, self.is_directory));
        }
    }

    fn push(&mut self, allows: bool, who: Who, mask: u32) {
        self.aces.push(Ace {
            allows,
            inheritance: self.inheritance,
            mask,
            who,
        });
    }
}

/// What entries have said of somebody until now: the first one that speaks of a bit decides.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    allowed: u32,
    denied: u32,
}

impl Said {
    const fn allow(&mut self, mask: u32) {
        self.allowed |= mask & !self.denied;
    }

    const fn deny(&mut self, mask: u32) {
        self.denied |= mask & !self.allowed;
    }
}

/// What entries have said until now of everybody whom a POSIX ACL tells apart.
#[derive(Debug, Default)]
struct Rights {
    owner: Said,
    group: Said,
    /// Who is nobody else: only what is said of everybody is about them.
    other: Said,
    users: BTreeMap<u32, Said>,
    groups: BTreeMap<u32, Said>,
    /// What somebody who was not named yet may be: with what is denied to any group, whose member it may be.
    unnamed: Said,
    speaks_of_owner: bool,
    speaks_of_group: bool,
    speaks_of_everyone: bool,
}

impl Rights {
    fn add(&mut self, ace: &Ace) {
        let mask = ace.mask;
        match (ace.who, ace.allows) {
            (Who::Owner, true) => self.owner.allow(mask),
            (Who::Owner, false) => self.owner.deny(mask),
            (Who::User(id), true) => self.user(id).allow(mask),
            (Who::User(id), false) => {
                let user = self.user(id);
                user.deny(mask);
                // That may be the owner.
                let denied = user.denied;
                self.owner.deny(denied);
            }
            (Who::OwningGroup, true) => self.group.allow(mask),
            (Who::OwningGroup, false) => {
                self.group.deny(mask);
                self.deny_members(self.group.denied);
            }
            (Who::Group(id), true) => self.named_group(id).allow(mask),
            (Who::Group(id), false) => {
                let group = self.named_group(id);
                group.deny(mask);
                let denied = group.denied;
                self.group.deny(denied);
                self.deny_members(denied);
            }
            (Who::Everyone, true) => {
                self.other.allow(mask);
                self.group.allow(mask);
                self.each_who_may_be_member(|said| said.allow(mask));
            }
            (Who::Everyone, false) => {
                self.other.deny(mask);
                self.group.deny(mask);
                self.deny_members(mask);
            }
        }
        match ace.who {
            Who::Owner => self.speaks_of_owner = true,
            Who::OwningGroup => self.speaks_of_group = true,
            Who::Everyone => self.speaks_of_everyone = true,
            Who::User(_) | Who::Group(_) => {}
        }
    }

    fn user(&mut self, id: u32) -> &mut Said {
        self.users.entry(id).or_insert(self.unnamed)
    }

    fn named_group(&mut self, id: u32) -> &mut Said {
        self.groups.entry(id).or_insert(self.unnamed)
    }

    /// Anybody may be in a group that is denied something.
    fn deny_members(&mut self, mask: u32) {
        self.each_who_may_be_member(|said| said.deny(mask));
    }

    fn each_who_may_be_member(&mut self, mut does: impl FnMut(&mut Said)) {
        does(&mut self.owner);
        does(&mut self.unnamed);
        self.users.values_mut().for_each(&mut does);
        self.groups.values_mut().for_each(&mut does);
    }

    fn speaks_of_nobody(&self) -> bool {
        let speaks = self.speaks_of_owner || self.speaks_of_group || self.speaks_of_everyone;
        !speaks && self.users.is_empty() && self.groups.is_empty()
    }

    /// Fills a default ACL up, of which an object's own ACL is the other part: of whom the entries that pass on say nothing,
    /// what is made there gives what the directory itself does, as setfacl(1) and Linux's server fill up. Without it an
    /// entry for one user more would leave the owner with nothing. Where they speak of everybody, nothing is left to fill
    /// up: Linux's server would give the owner there even what they deny.
    fn complete(&mut self, access: &Self) {
        if self.speaks_of_everyone {
            return;
        }
        if !self.speaks_of_owner {
            self.owner.allow(access.owner.allowed);
        }
        if !self.speaks_of_group {
            self.group.allow(access.group.allowed);
        }
        self.other.allow(access.other.allowed);
    }

    /// # Errors
    /// NFS4ERR_ATTRNOTSUPP where somebody is denied what nobody can be.
    fn to_posix(&self, is_directory: bool) -> Result<PosixAcl> {
        let perms = |said: Said, never_denied: u32| {
            let is_kept = said.denied & never_denied == 0;
            let perms = perms_of(said.allowed, is_directory);
            is_kept.then_some(perms).ok_or(Nfsstat4::Attrnotsupp)
        };
        let named = |named: &BTreeMap<u32, Said>| {
            let named = named.iter();
            let named = named.map(|(id, said)| Ok((*id, perms(*said, NEVER_DENIED)?)));
            named.collect::<Result<Vec<_>>>()
        };
        let mut acl = PosixAcl {
            owner: perms(self.owner, NEVER_DENIED | ALWAYS_OWNER)?,
            users: named(&self.users)?,
            group: perms(self.group, NEVER_DENIED)?,
            groups: named(&self.groups)?,
            mask: None,
            other: perms(self.other, NEVER_DENIED)?,
        };
        let all = acl.users.iter().chain(&acl.groups);
        let all = all.fold(acl.group, |all, (_, perms)| all.or(*perms));
        let names_somebody = !acl.users.is_empty() || !acl.groups.is_empty();
        acl.mask = names_somebody.then_some(all);
        Ok(acl)
    }
}

#[cfg(test)]
mod tests;
