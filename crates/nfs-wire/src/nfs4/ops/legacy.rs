//! What only minor version 0 has: clients without sessions (RFC 7530 §16.18, §16.29, §16.33 to §16.37).

use crate::nfs4::{Clientid4, Netaddr4, Nfsstat4, Opaque4, StateOwner4, Stateid4, Verifier4};
use crate::xdr::define::xdr_struct;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_struct! {
    /// `nfs_client_id4`: the name that a client has for itself, and its present life.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NfsClientId4<'a> {
        /// Another one after each restart of the client.
        pub verifier: Verifier4,
        /// The same after each restart of the client.
        pub id: Opaque4<'a>,
    }
}

xdr_struct! {
    /// `cb_client4`: where a client can be called.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CbClient4<'a> {
        /// The program to call.
        pub cb_program: u32,
        /// The address to call it at.
        pub cb_location: Netaddr4<'a>,
    }
}

xdr_struct! {
    /// `SETCLIENTID4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetclientidArgs<'a> {
        /// Who the client is.
        pub client: NfsClientId4<'a>,
        /// Where it can be called.
        pub callback: CbClient4<'a>,
        /// What a call to it is to have as `callback_ident`.
        pub callback_ident: u32,
    }
}

xdr_struct! {
    /// `SETCLIENTID4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetclientidOk {
        /// What the server calls the client.
        pub clientid: Clientid4,
        /// What the client has to confirm.
        pub setclientid_confirm: Verifier4,
    }
}

/// Why SETCLIENTID failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetclientidFailure<'a> {
    /// The name is in use by a client with this address: NFS4ERR_CLID_INUSE.
    ClidInuse(Netaddr4<'a>),
    /// Any other status but success.
    Other(Nfsstat4),
}

/// `SETCLIENTID4res`.
pub type SetclientidRes<'a> = Result<SetclientidOk, SetclientidFailure<'a>>;

impl<'a> Decode<'a> for SetclientidRes<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match Nfsstat4::decode(d)? {
            Nfsstat4::Ok => Ok(Decode::decode(d)?),
            Nfsstat4::ClidInuse => Err(SetclientidFailure::ClidInuse(Decode::decode(d)?)),
            status => Err(SetclientidFailure::Other(status)),
        })
    }
}

impl Encode for SetclientidRes<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Ok(ok) => {
                Nfsstat4::Ok.encode(e);
                ok.encode(e);
            }
            Err(SetclientidFailure::ClidInuse(address)) => {
                Nfsstat4::ClidInuse.encode(e);
                address.encode(e);
            }
            Err(SetclientidFailure::Other(status)) => status.encode(e),
        }
    }
}

xdr_struct! {
    /// `SETCLIENTID_CONFIRM4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetclientidConfirmArgs {
        /// The client.
        pub clientid: Clientid4,
        /// What SETCLIENTID gave.
        pub setclientid_confirm: Verifier4,
    }
}

xdr_struct! {
    /// `RENEW4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RenewArgs {
        /// The client whose lease is renewed.
        pub clientid: Clientid4,
    }
}

xdr_struct! {
    /// `RELEASE_LOCKOWNER4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReleaseLockownerArgs<'a> {
        /// The owner that will lock nothing more.
        pub lock_owner: StateOwner4<'a>,
    }
}

xdr_struct! {
    /// `OPEN_CONFIRM4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenConfirmArgs {
        /// The open to be confirmed.
        pub open_stateid: Stateid4,
        /// The owner's next seqid.
        pub seqid: u32,
    }
}
