//! Credentials and verifiers of ONC RPC: the envelope, and AUTH_SYS within it (RFC 5531 §8.2, §9,
//! appendix A).

use crate::limits::{AUTH_BODY_BYTES_MAX, AUTH_SYS_GIDS_MAX, MACHINE_NAME_BYTES_MAX};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, decode_all};

/// The flavor of a caller who does not say who it is (RFC 5531 §10.1).
pub const AUTH_NONE: u32 = 0;
/// The flavor of numeric user and group ids, taken at their word (RFC 5531 appendix A).
pub const AUTH_SYS: u32 = 1;
/// The flavor of a server's shorthand for an earlier credential (RFC 5531 appendix A).
pub const AUTH_SHORT: u32 = 2;
/// The flavor of GSS security contexts, Kerberos among them (RFC 2203).
pub const RPCSEC_GSS: u32 = 6;

/// A credential or a verifier: `opaque_auth` of RFC 5531 §8.2, whose body only its flavor explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpaqueAuth<'a> {
    /// What the body means. Any number decodes: an unknown one is for the server to refuse.
    pub flavor: u32,
    /// At most [`AUTH_BODY_BYTES_MAX`] bytes.
    pub body: &'a [u8],
}

/// The body of an AUTH_SYS credential: `authsys_parms` of RFC 5531 appendix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthSys<'a> {
    /// A number of the caller's own choice.
    pub stamp: u32,
    /// What the caller calls its machine, at most [`MACHINE_NAME_BYTES_MAX`] bytes.
    pub machine_name: &'a [u8],
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
    /// The supplementary groups.
    pub gids: GidList,
}

/// Up to [`AUTH_SYS_GIDS_MAX`] group ids, held without an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct GidList {
    // What lies beyond `len` is zero, so that the derived comparison sees only the list.
    gids: [u32; AUTH_SYS_GIDS_MAX],
    len: usize,
}

/// Why a credential or verifier was refused: `auth_stat` of RFC 5531 §9. Its AUTH_OK is left out, as
/// it cannot be the reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum AuthStat {
    /// The credential is malformed.
    BadCred = 1,
    /// The client must begin a new session.
    RejectedCred = 2,
    /// The verifier is malformed.
    BadVerf = 3,
    /// The verifier expired or was replayed.
    RejectedVerf = 4,
    /// The flavor is too weak for this.
    TooWeak = 5,
    /// The response's verifier is bogus; for local use by a client.
    InvalidResp = 6,
    /// For an unknown reason.
    Failed = 7,
    /// A Kerberos error of another kind.
    KerbGeneric = 8,
    /// The credential's time is over.
    TimeExpire = 9,
    /// Something is wrong with the ticket file.
    TktFile = 10,
    /// The authenticator cannot be decoded.
    Decode = 11,
    /// The ticket is for another network address.
    NetAddr = 12,
    /// No credentials for this user (RFC 2203).
    RpcsecGssCredProblem = 13,
    /// The security context is unknown or over (RFC 2203).
    RpcsecGssCtxProblem = 14,
}

impl<'a> OpaqueAuth<'a> {
    /// AUTH_NONE, whose body is empty: also the verifier of every AUTH_SYS call and reply.
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth {
        flavor: AUTH_NONE,
        body: &[],
    };

    /// Reads the body as AUTH_SYS; the caller has looked at the flavor.
    ///
    /// # Errors
    /// When it is not exactly one `authsys_parms`. The answer to that is [`AuthStat::BadCred`].
    pub fn auth_sys(&self) -> Result<AuthSys<'a>, DecodeError> {
        decode_all(self.body)
    }
}

impl<'a> Decode<'a> for OpaqueAuth<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            flavor: d.u32("auth flavor")?,
            body: d.opaque(AUTH_BODY_BYTES_MAX, "auth body")?,
        })
    }
}

impl Encode for OpaqueAuth<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(self.flavor);
        e.opaque(self.body);
    }
}

impl<'a> Decode<'a> for AuthSys<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stamp: d.u32("stamp")?,
            machine_name: d.opaque(MACHINE_NAME_BYTES_MAX, "machinename")?,
            uid: d.u32("uid")?,
            gid: d.u32("gid")?,
            gids: GidList::decode(d)?,
        })
    }
}

impl Encode for AuthSys<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(self.stamp);
        e.opaque(self.machine_name);
        e.u32(self.uid);
        e.u32(self.gid);
        self.gids.encode(e);
    }
}

impl GidList {
    /// No groups.
    pub const EMPTY: Self = Self {
        gids: [0; AUTH_SYS_GIDS_MAX],
        len: 0,
    };

    /// All of `gids`, or `None` when they are more than [`AUTH_SYS_GIDS_MAX`].
    #[must_use]
    pub fn new(gids: &[u32]) -> Option<Self> {
        (gids.len() <= AUTH_SYS_GIDS_MAX).then(|| Self::first_of(gids))
    }

    /// The first [`AUTH_SYS_GIDS_MAX`] of `gids`: what a client can say of a user in more groups.
    #[must_use]
    pub fn first_of(gids: &[u32]) -> Self {
        let mut list = Self::EMPTY;
        for (slot, gid) in list.gids.iter_mut().zip(gids) {
            *slot = *gid;
            list.len += 1;
        }
        list
    }

    /// The groups, in the order of the wire.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        self.gids.get(..self.len).unwrap_or(&self.gids)
    }
}

impl Default for GidList {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl core::fmt::Debug for GidList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl Decode<'_> for GidList {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let len = d.len(AUTH_SYS_GIDS_MAX, "gids")?;
        let mut list = Self { len, ..Self::EMPTY };
        for slot in list.gids.iter_mut().take(len) {
            *slot = d.u32("gids")?;
        }
        Ok(list)
    }
}

impl Encode for GidList {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.len(self.len);
        for gid in self.as_slice() {
            e.u32(*gid);
        }
    }
}

impl Decode<'_> for AuthStat {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match d.u32("auth_stat")? {
            1 => Self::BadCred,
            2 => Self::RejectedCred,
            3 => Self::BadVerf,
            4 => Self::RejectedVerf,
            5 => Self::TooWeak,
            6 => Self::InvalidResp,
            7 => Self::Failed,
            8 => Self::KerbGeneric,
            9 => Self::TimeExpire,
            10 => Self::TktFile,
            11 => Self::Decode,
            12 => Self::NetAddr,
            13 => Self::RpcsecGssCredProblem,
            14 => Self::RpcsecGssCtxProblem,
            value => {
                return Err(DecodeError::BadValue {
                    field: "auth_stat",
                    value,
                });
            }
        })
    }
}

impl Encode for AuthStat {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(*self as u32);
    }
}
