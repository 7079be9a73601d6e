//! ONC RPC version 2: the headers of calls and replies (RFC 5531 §9).
//!
//! A header is decoded from the front of a record and leaves the decoder where the procedure's
//! arguments or results begin.

use crate::auth::{AuthStat, OpaqueAuth};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, padding};

/// The only version of ONC RPC there is.
pub const RPC_VERSION: u32 = 2;

const CALL: u32 = 0;
const REPLY: u32 = 1;

/// Bytes of a call's header before its credential.
const FIXED_BYTES: usize = 24;
/// Bytes of a credential or verifier before its body: flavor and length.
const AUTH_FIXED_BYTES: usize = 8;

/// The head of a call, up to the procedure's arguments: `call_body` with its xid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// What the reply is matched by.
    pub xid: u32,
    /// The program called, such as 100003 for NFS.
    pub program: u32,
    /// The version of the program that is called.
    pub version: u32,
    /// The procedure within the program.
    pub procedure: u32,
    /// Who the caller says it is.
    pub credential: OpaqueAuth<'a>,
    /// What proves that the caller is who it says; empty with AUTH_SYS.
    pub verifier: OpaqueAuth<'a>,
}

/// A [`CallHeader`] that has let go of its record and travels beside it: credential and verifier are told
/// by where they stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHead {
    /// What the reply is matched by.
    pub xid: u32,
    /// The program called, such as 100003 for NFS.
    pub program: u32,
    /// The version of the program that is called.
    pub version: u32,
    /// The procedure within the program.
    pub procedure: u32,
    credential: AuthPlace,
    verifier: AuthPlace,
}

/// Where in a record the body of a credential or verifier stands, at most 2 * 408 bytes behind the
/// fixed fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AuthPlace {
    flavor: u32,
    at: usize,
    len: usize,
}

/// Why a record is no call that can be dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The record ends within the header of a call. There is no answer to that.
    #[error("not a call: {0}")]
    Malformed(#[from] DecodeError),
    /// The record is a reply. Calls may travel both ways on a connection, so it is for whoever sent the call
    /// that it answers, if anybody did; there is no answer to it.
    #[error("message {xid:#010x} is a reply")]
    Reply {
        /// The xid of the call that it answers.
        xid: u32,
    },
    /// The record is neither a call nor a reply. There is no answer to that.
    #[error("message {xid:#010x} has the type {msg_type}, which is neither call nor reply")]
    NotACall {
        /// The xid that the message begins with.
        xid: u32,
        /// What stands in place of 0, a call, or 1, a reply.
        msg_type: u32,
    },
    /// The record is a call in another version of RPC; the rest was not looked at.
    #[error("call {xid:#010x} is in RPC version {version}; only version 2 is known")]
    RpcVersion {
        /// The xid of the call, for the answer.
        xid: u32,
        /// The version of RPC that it claims to be in.
        version: u32,
    },
    /// The call's credential or verifier is longer than RPC allows.
    #[error("call {xid:#010x}: {error}")]
    Auth {
        /// The xid of the call, for the answer.
        xid: u32,
        /// Whether the credential or the verifier is at fault, as the caller is told.
        stat: AuthStat,
        /// What is wrong with the credential or verifier.
        error: DecodeError,
    },
}

/// The head of a reply, up to the procedure's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// The xid of the call that this answers.
    pub xid: u32,
    /// What became of the call.
    pub body: ReplyBody<'a>,
}

/// What became of a call: `reply_body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyBody<'a> {
    /// The caller was let in.
    Accepted {
        /// What proves the server to the caller.
        verifier: OpaqueAuth<'a>,
        /// What became of the call after the caller was let in.
        stat: AcceptStat,
    },
    /// The caller was not let in.
    Denied(Rejected),
}

/// What became of an accepted call: `accept_stat` with its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptStat {
    /// The procedure was run; its results follow.
    Success,
    /// The program is not served here.
    ProgUnavail,
    /// The program is served, but not in this version.
    ProgMismatch {
        /// The lowest version that the server knows.
        low: u32,
        /// The highest version that the server knows.
        high: u32,
    },
    /// The program has no such procedure.
    ProcUnavail,
    /// The arguments cannot be decoded.
    GarbageArgs,
    /// The server failed in some other way, such as for want of memory.
    SystemErr,
}

/// Why a call was denied: `rejected_reply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The call is in another version of RPC.
    RpcMismatch {
        /// The lowest version that the server knows.
        low: u32,
        /// The highest version that the server knows.
        high: u32,
    },
    /// The caller's credential or verifier was refused.
    AuthError(AuthStat),
}

impl<'a> CallHeader<'a> {
    /// Reads a header from the front of a record.
    ///
    /// # Errors
    /// [`CallError`], which carries the xid wherever there is something to answer.
    pub fn decode(d: &mut Decoder<'a>) -> Result<Self, CallError> {
        let xid = d.u32("xid")?;
        match d.u32("msg_type")? {
            CALL => {}
            REPLY => return Err(CallError::Reply { xid }),
            msg_type => return Err(CallError::NotACall { xid, msg_type }),
        }
        // What follows the version is another version's business, so it may even be missing.
        match d.u32("rpcvers")? {
            RPC_VERSION => {}
            version => return Err(CallError::RpcVersion { xid, version }),
        }
        Ok(Self {
            xid,
            program: d.u32("prog")?,
            version: d.u32("vers")?,
            procedure: d.u32("proc")?,
            credential: auth(d, xid, AuthStat::BadCred)?,
            verifier: auth(d, xid, AuthStat::BadVerf)?,
        })
    }

    /// This header without its borrow of the record: the credential and verifier are kept as places in the
    /// record.
    #[must_use]
    pub const fn detach(&self) -> CallHead {
        let credential = AuthPlace {
            flavor: self.credential.flavor,
            at: FIXED_BYTES + AUTH_FIXED_BYTES,
            len: self.credential.body.len(),
        };
        let verifier = AuthPlace {
            flavor: self.verifier.flavor,
            at: credential.at + credential.len + padding(credential.len) + AUTH_FIXED_BYTES,
            len: self.verifier.body.len(),
        };
        CallHead {
            xid: self.xid,
            program: self.program,
            version: self.version,
            procedure: self.procedure,
            credential,
            verifier,
        }
    }
}

impl CallHead {
    /// The header again, without decoding it. `record` is the record it was decoded from, or as much of it
    /// from its front on as the header has.
    #[must_use]
    pub fn attach<'a>(&self, record: &'a [u8]) -> CallHeader<'a> {
        let auth = |place: AuthPlace| OpaqueAuth {
            flavor: place.flavor,
            body: record
                .get(place.at..place.at + place.len)
                .unwrap_or_default(),
        };
        CallHeader {
            xid: self.xid,
            program: self.program,
            version: self.version,
            procedure: self.procedure,
            credential: auth(self.credential),
            verifier: auth(self.verifier),
        }
    }
}

fn auth<'a>(d: &mut Decoder<'a>, xid: u32, stat: AuthStat) -> Result<OpaqueAuth<'a>, CallError> {
    OpaqueAuth::decode(d).map_err(|error| match error {
        DecodeError::TooLong { .. } => CallError::Auth { xid, stat, error },
        DecodeError::Missing { .. }
        | DecodeError::BadValue { .. }
        | DecodeError::Trailing { .. } => CallError::Malformed(error),
    })
}

impl Encode for CallHeader<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(self.xid);
        e.u32(CALL);
        e.u32(RPC_VERSION);
        e.u32(self.program);
        e.u32(self.version);
        e.u32(self.procedure);
        self.credential.encode(e);
        self.verifier.encode(e);
    }
}

impl CallError {
    /// What a server answers, if anything: without a call there is nobody who waits for a reply.
    #[must_use]
    pub fn reply(&self) -> Option<ReplyHeader<'static>> {
        match *self {
            Self::Malformed(_) | Self::Reply { .. } | Self::NotACall { .. } => None,
            Self::RpcVersion { xid, .. } => {
                let rejected = Rejected::RpcMismatch {
                    low: RPC_VERSION,
                    high: RPC_VERSION,
                };
                Some(ReplyHeader::denied(xid, rejected))
            }
            Self::Auth { xid, stat, .. } => {
                Some(ReplyHeader::denied(xid, Rejected::AuthError(stat)))
            }
        }
    }
}

impl ReplyHeader<'static> {
    /// An accepted call with the verifier of AUTH_NONE and AUTH_SYS.
    #[must_use]
    pub const fn accepted(xid: u32, stat: AcceptStat) -> Self {
        Self {
            xid,
            body: ReplyBody::Accepted {
                verifier: OpaqueAuth::NONE,
                stat,
            },
        }
    }

    /// The reply to a call that was denied.
    #[must_use]
    pub const fn denied(xid: u32, rejected: Rejected) -> Self {
        Self {
            xid,
            body: ReplyBody::Denied(rejected),
        }
    }
}

impl<'a> Decode<'a> for ReplyHeader<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let xid = d.u32("xid")?;
        match d.u32("msg_type")? {
            REPLY => Ok(Self {
                xid,
                body: ReplyBody::decode(d)?,
            }),
            value => Err(DecodeError::BadValue {
                field: "msg_type",
                value,
            }),
        }
    }
}

impl Encode for ReplyHeader<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(self.xid);
        e.u32(REPLY);
        self.body.encode(e);
    }
}

impl<'a> Decode<'a> for ReplyBody<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        match d.u32("reply_stat")? {
            0 => Ok(Self::Accepted {
                verifier: OpaqueAuth::decode(d)?,
                stat: AcceptStat::decode(d)?,
            }),
            1 => Ok(Self::Denied(Rejected::decode(d)?)),
            value => Err(DecodeError::BadValue {
                field: "reply_stat",
                value,
            }),
        }
    }
}

impl Encode for ReplyBody<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Self::Accepted { verifier, stat } => {
                e.u32(0);
                verifier.encode(e);
                stat.encode(e);
            }
            Self::Denied(rejected) => {
                e.u32(1);
                rejected.encode(e);
            }
        }
    }
}

impl Decode<'_> for AcceptStat {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match d.u32("accept_stat")? {
            0 => Self::Success,
            1 => Self::ProgUnavail,
            2 => Self::ProgMismatch {
                low: d.u32("mismatch_info.low")?,
                high: d.u32("mismatch_info.high")?,
            },
            3 => Self::ProcUnavail,
            4 => Self::GarbageArgs,
            5 => Self::SystemErr,
            value => {
                return Err(DecodeError::BadValue {
                    field: "accept_stat",
                    value,
                });
            }
        })
    }
}

impl Encode for AcceptStat {
    fn encode(&self, e: &mut Encoder<'_>) {
        match *self {
            Self::Success => e.u32(0),
            Self::ProgUnavail => e.u32(1),
            Self::ProgMismatch { low, high } => {
                e.u32(2);
                e.u32(low);
                e.u32(high);
            }
            Self::ProcUnavail => e.u32(3),
            Self::GarbageArgs => e.u32(4),
            Self::SystemErr => e.u32(5),
        }
    }
}

impl Decode<'_> for Rejected {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.u32("reject_stat")? {
            0 => Ok(Self::RpcMismatch {
                low: d.u32("mismatch_info.low")?,
                high: d.u32("mismatch_info.high")?,
            }),
            1 => Ok(Self::AuthError(AuthStat::decode(d)?)),
            value => Err(DecodeError::BadValue {
                field: "reject_stat",
                value,
            }),
        }
    }
}

impl Encode for Rejected {
    fn encode(&self, e: &mut Encoder<'_>) {
        match *self {
            Self::RpcMismatch { low, high } => {
                e.u32(0);
                e.u32(low);
                e.u32(high);
            }
            Self::AuthError(stat) => {
                e.u32(1);
                stat.encode(e);
            }
        }
    }
}

#[cfg(test)]
mod tests;
