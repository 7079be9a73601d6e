//! Clients and sessions: EXCHANGE_ID, CREATE_SESSION, SEQUENCE and what belongs to them (RFC 8881 §18.33 to
//! §18.37, §18.46, §18.47, §18.50, §18.51).

use crate::auth::AuthSys;
use crate::nfs4::{
    Bitmap4, Clientid4, GssOpaque, NfsImplId4, Opaque4, Sessionid4, Stateid4, Verifier4,
};
use crate::xdr::define::{xdr_enum, xdr_struct, xdr_union};

xdr_struct! {
    /// `client_owner4`: the name that a client has for itself, and its present life.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ClientOwner4<'a> {
        /// Another one after each restart of the client.
        pub verifier: Verifier4,
        /// The same after each restart of the client.
        pub ownerid: Opaque4<'a>,
    }
}

xdr_struct! {
    /// `server_owner4`: which server this is. Two addresses with the same owner are one server, and sessions
    /// may span both if the minor id is the same as well (RFC 8881 §2.10.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ServerOwner4<'a> {
        /// The same where a session may have connections to both addresses.
        pub minor_id: u64,
        /// The same where a client id is good at both addresses.
        pub major_id: Opaque4<'a>,
    }
}

xdr_struct! {
    /// `state_protect_ops4`: operations that a protection of state is about.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StateProtectOps4 {
        /// Operations that must be protected.
        pub must_enforce: Bitmap4,
        /// Operations that may be protected.
        pub must_allow: Bitmap4,
    }
}

xdr_struct! {
    /// `ssv_sp_parms4`: what a client wants of a secret state verifier.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct SsvSpParms4<'a> {
        /// The operations that it is about.
        pub ops: StateProtectOps4,
        /// Hash algorithms that the client has, as object identifiers.
        pub hash_algs: Vec<GssOpaque<'a>>,
        /// Encryption algorithms that the client has, as object identifiers.
        pub encr_algs: Vec<GssOpaque<'a>>,
        /// How many versions of the secret the server is to keep.
        pub window: u32,
        /// How many GSS handles the client wants.
        pub num_gss_handles: u32,
    }
}

xdr_union! {
    /// `state_protect4_a`: how a client wants its state to be protected.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum StateProtect4A<'a> as "state_protect_how4" {
        /// Not at all: SP4_NONE.
        None = 0,
        /// By its machine's credential: SP4_MACH_CRED.
        MachCred(StateProtectOps4) = 1,
        /// By a secret state verifier: SP4_SSV.
        Ssv(SsvSpParms4<'a>) = 2,
    }
}

xdr_struct! {
    /// `ssv_prot_info4`: what a server gives of a secret state verifier.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct SsvProtInfo4<'a> {
        /// The operations that it is about.
        pub ops: StateProtectOps4,
        /// Which of the client's hash algorithms is used.
        pub hash_alg: u32,
        /// Which of the client's encryption algorithms is used.
        pub encr_alg: u32,
        /// Length of the secret, bytes.
        pub ssv_len: u32,
        /// How many versions of the secret are kept.
        pub window: u32,
        /// GSS handles to begin with.
        pub handles: Vec<GssOpaque<'a>>,
    }
}

xdr_union! {
    /// `state_protect4_r`: how a client's state is protected.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum StateProtect4R<'a> as "state_protect_how4" {
        /// Not at all: SP4_NONE.
        None = 0,
        /// By its machine's credential: SP4_MACH_CRED.
        MachCred(StateProtectOps4) = 1,
        /// By a secret state verifier: SP4_SSV.
        Ssv(SsvProtInfo4<'a>) = 2,
    }
}

xdr_struct! {
    /// `EXCHANGE_ID4args`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ExchangeIdArgs<'a> {
        /// Who the client is.
        pub clientowner: ClientOwner4<'a>,
        /// What the client can do and wants: `EXCHGID4_FLAG_*`.
        pub flags: u32,
        /// How its state is to be protected.
        pub state_protect: StateProtect4A<'a>,
        /// Which program it is, if it says so.
        pub client_impl_id: Option<NfsImplId4<'a>>,
    }
}

xdr_struct! {
    /// `EXCHANGE_ID4resok`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ExchangeIdOk<'a> {
        /// What the server calls the client.
        pub clientid: Clientid4,
        /// The sequence id of the client's next CREATE_SESSION.
        pub sequenceid: u32,
        /// What the server can do, and its role: `EXCHGID4_FLAG_*`.
        pub flags: u32,
        /// How the client's state is protected.
        pub state_protect: StateProtect4R<'a>,
        /// Which server it is.
        pub server_owner: ServerOwner4<'a>,
        /// Servers of one scope know each other's handles and states after a move.
        pub server_scope: Opaque4<'a>,
        /// Which program it is, if it says so.
        pub server_impl_id: Option<NfsImplId4<'a>>,
    }
}

/// The client follows referrals; the server has them.
pub const EXCHGID4_FLAG_SUPP_MOVED_REFER: u32 = 0x0000_0001;
/// The client follows file systems that move; the server moves them.
pub const EXCHGID4_FLAG_SUPP_MOVED_MIGR: u32 = 0x0000_0002;
/// Copies between servers are fenced (RFC 7862 §14.1.3).
pub const EXCHGID4_FLAG_SUPP_FENCE_OPS: u32 = 0x0000_0004;
/// Stateids are good for the principal only that got them.
pub const EXCHGID4_FLAG_BIND_PRINC_STATEID: u32 = 0x0000_0100;
/// The server is an ordinary one, without pNFS.
pub const EXCHGID4_FLAG_USE_NON_PNFS: u32 = 0x0001_0000;
/// The server is a metadata server of pNFS.
pub const EXCHGID4_FLAG_USE_PNFS_MDS: u32 = 0x0002_0000;
/// The server is a data server of pNFS.
pub const EXCHGID4_FLAG_USE_PNFS_DS: u32 = 0x0004_0000;
/// The bits that say which role it is.
pub const EXCHGID4_FLAG_MASK_PNFS: u32 = 0x0007_0000;
/// The client's record is to be updated, and must be there.
pub const EXCHGID4_FLAG_UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
/// The client's record has been confirmed.
pub const EXCHGID4_FLAG_CONFIRMED_R: u32 = 0x8000_0000;
/// The flags that a client may send.
pub const EXCHGID4_FLAG_MASK_A: u32 = 0x4007_0103;

xdr_struct! {
    /// `channel_attrs4`: the limits of one direction of a session. Sizes are of whole messages, RPC header
    /// included.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ChannelAttrs4 {
        /// Bytes of padding before the data of a WRITE.
        pub headerpadsize: u32,
        /// The longest request, bytes.
        pub maxrequestsize: u32,
        /// The longest reply, bytes.
        pub maxresponsesize: u32,
        /// The longest reply that is kept for a repetition, bytes.
        pub maxresponsesize_cached: u32,
        /// The most operations of a COMPOUND, SEQUENCE included.
        pub maxoperations: u32,
        /// The most requests under way: slots.
        pub maxrequests: u32,
        /// For RDMA: how many reads the requester takes at once.
        pub rdma_ird: Option<u32>,
    }
}

xdr_struct! {
    /// `gss_cb_handles4`: GSS contexts for calls to a client.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GssCbHandles4<'a> {
        /// `rpc_gss_svc_t`: nothing, integrity or privacy.
        pub service: u32,
        /// The server's handle of the context.
        pub handle_from_server: GssOpaque<'a>,
        /// The client's handle of the context.
        pub handle_from_client: GssOpaque<'a>,
    }
}

xdr_union! {
    /// `callback_sec_parms4`: how a server is to identify itself when it calls the client.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CallbackSecParms4<'a> as "cb_secflavor" {
        /// Not at all: AUTH_NONE.
        None = 0,
        /// As this user: AUTH_SYS.
        Sys(AuthSys<'a>) = 1,
        /// By these contexts: RPCSEC_GSS.
        Gss(GssCbHandles4<'a>) = 6,
    }
}

xdr_struct! {
    /// `CREATE_SESSION4args`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CreateSessionArgs<'a> {
        /// The client, as EXCHANGE_ID gave it.
        pub clientid: Clientid4,
        /// The sequence id that EXCHANGE_ID gave, and one more with each further session.
        pub sequence: u32,
        /// `CREATE_SESSION4_FLAG_*`.
        pub flags: u32,
        /// The limits wanted for calls to the server.
        pub fore_chan_attrs: ChannelAttrs4,
        /// The limits wanted for calls to the client.
        pub back_chan_attrs: ChannelAttrs4,
        /// The program that the server is to call.
        pub cb_program: u32,
        /// How the server is to identify itself there, in order of preference.
        pub sec_parms: Vec<CallbackSecParms4<'a>>,
    }
}

xdr_struct! {
    /// `CREATE_SESSION4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CreateSessionOk {
        /// What the server calls the session.
        pub sessionid: Sessionid4,
        /// The sequence id of the call.
        pub sequence: u32,
        /// Those of the flags asked for that are granted.
        pub flags: u32,
        /// The limits of calls to the server.
        pub fore_chan_attrs: ChannelAttrs4,
        /// The limits of calls to the client.
        pub back_chan_attrs: ChannelAttrs4,
    }
}

/// The session's replies outlive a restart of the server.
pub const CREATE_SESSION4_FLAG_PERSIST: u32 = 0x1;
/// The connection is used for calls to the client as well.
pub const CREATE_SESSION4_FLAG_CONN_BACK_CHAN: u32 = 0x2;
/// The connection steps up to RDMA.
pub const CREATE_SESSION4_FLAG_CONN_RDMA: u32 = 0x4;

xdr_struct! {
    /// `DESTROY_SESSION4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DestroySessionArgs {
        /// The session to be ended.
        pub sessionid: Sessionid4,
    }
}

xdr_struct! {
    /// `DESTROY_CLIENTID4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DestroyClientidArgs {
        /// The client to be forgotten.
        pub clientid: Clientid4,
    }
}

xdr_struct! {
    /// `SEQUENCE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SequenceArgs {
        /// The session of the request.
        pub sessionid: Sessionid4,
        /// Counts the slot's requests, from 1 on.
        pub sequenceid: u32,
        /// The slot that the request is in.
        pub slotid: u32,
        /// The highest slot that has a request under way.
        pub highest_slotid: u32,
        /// The reply is to be kept for a repetition.
        pub cachethis: bool,
    }
}

xdr_struct! {
    /// `SEQUENCE4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SequenceOk {
        /// The session of the request.
        pub sessionid: Sessionid4,
        /// The request's number within its slot.
        pub sequenceid: u32,
        /// The slot that the request is in.
        pub slotid: u32,
        /// The highest slot that the server takes at present.
        pub highest_slotid: u32,
        /// The highest slot that the server would have the client use.
        pub target_highest_slotid: u32,
        /// What the client should look after: `SEQ4_STATUS_*`.
        pub status_flags: u32,
    }
}

/// The client cannot be called.
pub const SEQ4_STATUS_CB_PATH_DOWN: u32 = 0x0001;
/// GSS contexts for calls to the client are about to expire.
pub const SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING: u32 = 0x0002;
/// GSS contexts for calls to the client have expired.
pub const SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED: u32 = 0x0004;
/// The lease ran out, and all state is gone.
pub const SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED: u32 = 0x0008;
/// The lease ran out, and some state is gone.
pub const SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED: u32 = 0x0010;
/// The server's administrator took state away.
pub const SEQ4_STATUS_ADMIN_STATE_REVOKED: u32 = 0x0020;
/// Delegations or layouts were revoked.
pub const SEQ4_STATUS_RECALLABLE_STATE_REVOKED: u32 = 0x0040;
/// A file system with state has moved.
pub const SEQ4_STATUS_LEASE_MOVED: u32 = 0x0080;
/// The server has restarted: state is to be reclaimed.
pub const SEQ4_STATUS_RESTART_RECLAIM_NEEDED: u32 = 0x0100;
/// The session has no connection on which the client can be called.
pub const SEQ4_STATUS_CB_PATH_DOWN_SESSION: u32 = 0x0200;
/// A call to the client went wrong, and the session cannot be used for more.
pub const SEQ4_STATUS_BACKCHANNEL_FAULT: u32 = 0x0400;
/// A device id has another meaning, and the client was not told.
pub const SEQ4_STATUS_DEVID_CHANGED: u32 = 0x0800;
/// A device id is gone, and the client was not told.
pub const SEQ4_STATUS_DEVID_DELETED: u32 = 0x1000;

xdr_enum! {
    /// `channel_dir_from_client4`: for which calls a connection is to be used.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ChannelDirFromClient4 as "channel_dir_from_client4" {
        /// Calls to the server: CDFC4_FORE.
        Fore = 1,
        /// Calls to the client: CDFC4_BACK.
        Back = 2,
        /// Calls to the server, and if possible both: CDFC4_FORE_OR_BOTH.
        ForeOrBoth = 3,
        /// Calls to the client, and if possible both: CDFC4_BACK_OR_BOTH.
        BackOrBoth = 7,
    }
}

xdr_enum! {
    /// `channel_dir_from_server4`: for which calls a connection is used.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ChannelDirFromServer4 as "channel_dir_from_server4" {
        /// Calls to the server: CDFS4_FORE.
        Fore = 1,
        /// Calls to the client: CDFS4_BACK.
        Back = 2,
        /// Calls both ways: CDFS4_BOTH.
        Both = 3,
    }
}

xdr_struct! {
    /// `BIND_CONN_TO_SESSION4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BindConnToSessionArgs {
        /// The session to bind the connection to.
        pub sessid: Sessionid4,
        /// For which calls.
        pub dir: ChannelDirFromClient4,
        /// The connection is to step up to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }
}

xdr_struct! {
    /// `BIND_CONN_TO_SESSION4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BindConnToSessionOk {
        /// The session that the connection is bound to.
        pub sessid: Sessionid4,
        /// For which calls.
        pub dir: ChannelDirFromServer4,
        /// The connection steps up to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }
}

xdr_struct! {
    /// `BACKCHANNEL_CTL4args`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BackchannelCtlArgs<'a> {
        /// The program that the server is to call from now on.
        pub cb_program: u32,
        /// How the server is to identify itself there.
        pub sec_parms: Vec<CallbackSecParms4<'a>>,
    }
}

xdr_struct! {
    /// `SET_SSV4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetSsvArgs<'a> {
        /// What is added to the secret.
        pub ssv: GssOpaque<'a>,
        /// The digest of the call's SEQUENCE.
        pub digest: GssOpaque<'a>,
    }
}

xdr_struct! {
    /// `SET_SSV4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetSsvOk<'a> {
        /// The digest of the reply's SEQUENCE.
        pub digest: GssOpaque<'a>,
    }
}

xdr_struct! {
    /// `FREE_STATEID4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FreeStateidArgs {
        /// The state that the server may forget.
        pub stateid: Stateid4,
    }
}

xdr_struct! {
    /// `TEST_STATEID4args`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TestStateidArgs {
        /// The states that are asked about.
        pub stateids: Vec<Stateid4>,
    }
}

xdr_struct! {
    /// `TEST_STATEID4resok`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TestStateidOk {
        /// What a use of each would be answered with, in the order of the stateids.
        pub status_codes: Vec<crate::nfs4::Nfsstat4>,
    }
}

xdr_struct! {
    /// `RECLAIM_COMPLETE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReclaimCompleteArgs {
        /// Only what is on the current handle's file system was reclaimed, because it has moved.
        pub one_fs: bool,
    }
}
