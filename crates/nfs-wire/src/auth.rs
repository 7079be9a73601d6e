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
    /// What the flavor says it is, at most [`AUTH_BODY_BYTES_MAX`] bytes.
    pub body: &'a [u8],
}

/// The body of an AUTH_SYS credential: `authsys_parms` of RFC 5531 appendix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthSys<'a> {
    /// A number of the caller's own choice.
    pub stamp: u32,
    /// What the caller calls its machine, at most [`MACHINE_NAME_BYTES_MAX`] bytes.
    pub machine_name: &'a [u8],
    /// The caller's effective user id, as its machine knows it.
    pub uid: u32,
    /// The caller's effective group id, as its machine knows it.
    pub gid: u32,
    /// The caller's supplementary groups, of which the wire has room for 16.
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
    /// The credential is malformed: AUTH_BADCRED.
    BadCred = 1,
    /// The client must begin a new session.
    RejectedCred = 2,
    /// The verifier is malformed: AUTH_BADVERF.
    BadVerf = 3,
    /// The verifier expired or was replayed.
    RejectedVerf = 4,
    /// The flavor is too weak for this.
    TooWeak = 5,
    /// The response's verifier is bogus; for local use by a client.
    InvalidResp = 6,
    /// The call was refused for a reason that is not told: AUTH_FAILED.
    Failed = 7,
    /// A Kerberos error of another kind.
    KerbGeneric = 8,
    /// The time for which the credential was good is over.
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
    /// The list without any group in it.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode_to_vec;
    use crate::test_support::{bytes, check_message, hex};

    proptest! {
        #[test]
        fn opaque_auth_round_trips(flavor: u32, body in bytes(AUTH_BODY_BYTES_MAX)) {
            check_message(&OpaqueAuth { flavor, body });
        }

        #[test]
        fn auth_sys_round_trips(
            stamp: u32,
            machine_name in bytes(MACHINE_NAME_BYTES_MAX),
            uid: u32,
            gid: u32,
            gids in proptest::collection::vec(any::<u32>(), 0..=AUTH_SYS_GIDS_MAX),
        ) {
            let gids = GidList::new(&gids).unwrap();
            check_message(&AuthSys { stamp, machine_name, uid, gid, gids });
        }

        #[test]
        fn gid_list_holds_what_it_was_given(
            gids in proptest::collection::vec(any::<u32>(), 0..40),
        ) {
            let kept = gids.len().min(AUTH_SYS_GIDS_MAX);
            let list = GidList::first_of(&gids);
            prop_assert_eq!(list.as_slice(), &gids[..kept]);
            prop_assert_eq!(GidList::new(&gids).is_some(), kept == gids.len());
        }
    }

    #[test]
    fn auth_sys_matches_the_rfc() {
        let bytes = hex("00000007 00000003 61626300 000003e8 00000064 00000002 00000004 0000001b");
        let expected = AuthSys {
            stamp: 7,
            machine_name: b"abc",
            uid: 1000,
            gid: 100,
            gids: GidList::new(&[4, 27]).unwrap(),
        };
        assert_eq!(decode_all::<AuthSys<'_>>(&bytes), Ok(expected));
        assert_eq!(encode_to_vec(&expected), bytes);
        let credential = OpaqueAuth {
            flavor: AUTH_SYS,
            body: &bytes,
        };
        assert_eq!(credential.auth_sys(), Ok(expected));
    }

    #[test]
    fn auth_body_of_401_bytes_is_too_long() {
        let mut bytes = hex("00000001 00000191");
        bytes.resize(8 + 404, 0);
        assert_eq!(
            decode_all::<OpaqueAuth<'_>>(&bytes),
            Err(DecodeError::TooLong {
                field: "auth body",
                len: 401,
                max: 400
            })
        );
    }

    #[test]
    fn seventeen_gids_are_too_many() {
        let mut bytes = hex("00000000 00000000 00000000 00000000 00000011");
        bytes.resize(bytes.len() + 17 * 4, 0);
        assert_eq!(
            decode_all::<AuthSys<'_>>(&bytes),
            Err(DecodeError::TooLong {
                field: "gids",
                len: 17,
                max: 16
            })
        );
    }

    #[test]
    fn machine_name_of_256_bytes_is_too_long() {
        let mut bytes = hex("00000000 00000100");
        bytes.resize(8 + 256 + 12, 0);
        assert!(matches!(
            decode_all::<AuthSys<'_>>(&bytes),
            Err(DecodeError::TooLong {
                field: "machinename",
                ..
            })
        ));
    }

    #[test]
    fn credential_with_bytes_left_over_is_bad() {
        let body = hex("00000000 00000000 00000000 00000000 00000000 00000000");
        let credential = OpaqueAuth {
            flavor: AUTH_SYS,
            body: &body,
        };
        assert_eq!(
            credential.auth_sys(),
            Err(DecodeError::Trailing { left: 4 })
        );
    }

    #[test]
    fn auth_stat_is_1_to_14() {
        for value in 0..20_u32 {
            let bytes = value.to_be_bytes();
            let decoded = decode_all::<AuthStat>(&bytes);
            assert_eq!(decoded.is_ok(), (1..=14).contains(&value), "{value}");
            if let Ok(stat) = decoded {
                assert_eq!(encode_to_vec(&stat), bytes);
                check_message(&stat);
            }
        }
    }
}
