//! A whole message as a peer sends it: a call with its credential and arguments, or a reply.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::auth::AuthSys;
use nfs_wire::rpc::{CallError, CallHeader, ReplyHeader};
use nfs_wire::{Decoder, mount3, nfs3, nfs4, portmap, rpcbind};
use penstock_fuzz::{nfs3_args, nfs4_compound, round_trip_of};

fuzz_target!(|data: &[u8]| {
    round_trip_of!(data, ReplyHeader<'_>);
    round_trip_of!(data, |d| CallHeader::decode(d).map_err(in_message));
    let mut d = Decoder::new(data);
    match CallHeader::decode(&mut d) {
        Ok(call) => {
            round_trip_of!(call.credential.body, AuthSys<'_>);
            arguments(&call, d.rest());
        }
        Err(error) => {
            let xid = error.reply().map(|reply| reply.xid.to_be_bytes());
            assert!(xid.is_none_or(|xid| data.starts_with(&xid)));
        }
    }
});

fn arguments(call: &CallHeader<'_>, bytes: &[u8]) {
    match (call.program, call.version) {
        (nfs3::PROGRAM, nfs3::VERSION) => {
            if let Ok(procedure) = nfs3::Procedure::try_from(call.procedure) {
                nfs3_args(procedure, bytes);
            }
        }
        (nfs4::PROGRAM, nfs4::VERSION) => nfs4_compound(nfs4::MinorVersion::V2, bytes),
        (mount3::PROGRAM, mount3::VERSION) => {
            if let Ok(procedure) = mount3::Procedure::try_from(call.procedure) {
                round_trip_of!(bytes, |d| mount3::Call::decode(procedure, d));
            }
        }
        (portmap::PROGRAM, portmap::VERSION) => {
            if let Ok(procedure) = portmap::Procedure::try_from(call.procedure) {
                round_trip_of!(bytes, |d| portmap::Call::decode(procedure, d));
            }
        }
        (rpcbind::PROGRAM, rpcbind::VERSION_3 | rpcbind::VERSION_4) => {
            if let Ok(procedure) = rpcbind::Procedure::try_from(call.procedure) {
                round_trip_of!(bytes, |d| rpcbind::Call::decode(procedure, d));
            }
        }
        _ => {}
    }
}

fn in_message(error: CallError) -> nfs_wire::DecodeError {
    match error {
        CallError::Malformed(error) | CallError::Auth { error, .. } => error,
        CallError::Reply { .. } => nfs_wire::DecodeError::BadValue {
            field: "msg_type",
            value: 1,
        },
        CallError::NotACall {
            msg_type: value, ..
        } => nfs_wire::DecodeError::BadValue {
            field: "msg_type",
            value,
        },
        CallError::RpcVersion { version: value, .. } => nfs_wire::DecodeError::BadValue {
            field: "rpcvers",
            value,
        },
    }
}
