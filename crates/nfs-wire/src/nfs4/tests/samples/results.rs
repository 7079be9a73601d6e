//! Results.

use super::Draw;
use crate::Payload;
use crate::nfs4::ops::*;
use crate::nfs4::*;

/// The results of every operation: a success, of those with unions each arm, and a failure.
pub(crate) fn results(d: &mut Draw) -> Vec<ResOp<'static>> {
    let mut all = successes(d);
    all.extend(special_failures(d));
    // What is written for a plain failure must be the failure of that operation's type.
    for opnum in Opnum::ALL {
        let status = loop {
            let status = d.status();
            let has_body = matches!(
                status,
                Nfsstat4::Denied
                    | Nfsstat4::ClidInuse
                    | Nfsstat4::OffloadNoReqs
                    | Nfsstat4::Layouttrylater
                    | Nfsstat4::Toosmall
            );
            if !has_body {
                break status;
            }
        };
        let mut bytes = Vec::new();
        opnum.encode_failure(status, &mut crate::Encoder::new(&mut bytes));
        let result: ResOp<'static> = crate::decode_all(bytes.leak()).unwrap();
        assert_eq!((result.opnum(), result.status()), (*opnum, status));
        all.push(result);
    }
    all
}

fn special_failures(d: &mut Draw) -> Vec<ResOp<'static>> {
    let requirements = CopyRequirements4 {
        consecutive: d.bool(),
        synchronous: d.bool(),
    };
    vec![
        ResOp::Lock(Err(LockFailure::Denied(d.denied()))),
        ResOp::Lockt(Err(LockFailure::Denied(d.denied()))),
        ResOp::Setclientid(Err(SetclientidFailure::ClidInuse(d.netaddr()))),
        ResOp::Copy(Err(CopyFailure::OffloadNoReqs(requirements))),
        ResOp::Layoutget(Err(LayoutgetFailure::TryLater(d.bool()))),
        ResOp::Getdeviceinfo(Err(GetdeviceinfoFailure::TooSmall(d.u32()))),
        ResOp::Setattr(SetattrRes {
            status: d.status(),
            attrsset: d.bitmap(),
        }),
    ]
}

fn successes(d: &mut Draw) -> Vec<ResOp<'static>> {
    let mut all = plain_successes(d);
    all.extend(state_successes(d));
    all.extend(data_successes(d));
    let protections = [
        StateProtect4R::None,
        StateProtect4R::MachCred(d.protect_ops()),
        StateProtect4R::Ssv(SsvProtInfo4 {
            ops: d.protect_ops(),
            hash_alg: d.u32(),
            encr_alg: d.u32(),
            ssv_len: d.u32(),
            window: d.u32(),
            handles: d.list(Draw::gss),
        }),
    ];
    all.extend(protections.map(|state_protect| {
        ResOp::ExchangeId(Ok(ExchangeIdOk {
            clientid: d.client(),
            sequenceid: d.u32(),
            flags: d.u32(),
            state_protect,
            server_owner: ServerOwner4 {
                minor_id: d.u64(),
                major_id: d.opaque(),
            },
            server_scope: d.opaque(),
            server_impl_id: d.option(Draw::impl_id),
        }))
    }));
    for delegation in d.delegations() {
        all.push(ResOp::WantDelegation(Ok(delegation)));
        all.push(ResOp::Open(Ok(OpenOk {
            stateid: d.stateid(),
            cinfo: d.change_info(),
            rflags: d.u32(),
            attrset: d.bitmap(),
            delegation,
        })));
    }
    all
}

fn plain_successes(d: &mut Draw) -> Vec<ResOp<'static>> {
    let secinfo = SecinfoOk {
        mechanisms: vec![
            Secinfo4::Flavor(1),
            Secinfo4::Gss(RpcsecGssInfo {
                oid: d.gss(),
                qop: d.u32(),
                service: d.u32(),
            }),
        ],
    };
    let readdir = ReaddirOk {
        cookieverf: d.verifier(),
        entries: d.list(|d| Entry4 {
            cookie: d.u64(),
            name: d.name(),
            attrs: d.fattr(),
        }),
        eof: d.bool(),
    };
    let renamed = RenameOk {
        source_cinfo: d.change_info(),
        target_cinfo: d.change_info(),
    };
    vec![
        ResOp::Access(Ok(AccessOk {
            supported: d.u32(),
            access: d.u32(),
        })),
        ResOp::Create(Ok(CreateOk {
            cinfo: d.change_info(),
            attrset: d.bitmap(),
        })),
        ResOp::Delegpurge(Ok(())),
        ResOp::Delegreturn(Ok(())),
        ResOp::Getattr(Ok(GetattrOk {
            obj_attributes: d.fattr(),
        })),
        ResOp::Getfh(Ok(GetfhOk { object: d.handle() })),
        ResOp::Link(Ok(d.change_info())),
        ResOp::Lookup(Ok(())),
        ResOp::Lookupp(Ok(())),
        ResOp::Nverify(Ok(())),
        ResOp::Verify(Ok(())),
        ResOp::Openattr(Ok(())),
        ResOp::Putfh(Ok(())),
        ResOp::Putpubfh(Ok(())),
        ResOp::Putrootfh(Ok(())),
        ResOp::Readdir(Ok(readdir)),
        ResOp::Readlink(Ok(ReadlinkOk {
            link: Linktext4(d.bytes(50)),
        })),
        ResOp::Remove(Ok(d.change_info())),
        ResOp::Rename(Ok(renamed)),
        ResOp::Restorefh(Ok(())),
        ResOp::Savefh(Ok(())),
        ResOp::Secinfo(Ok(secinfo.clone())),
        ResOp::SecinfoNoName(Ok(secinfo)),
        ResOp::Setattr(SetattrRes {
            status: Nfsstat4::Ok,
            attrsset: d.bitmap(),
        }),
        ResOp::Getxattr(Ok(Xattrvalue4(d.bytes(60)))),
        ResOp::Setxattr(Ok(d.change_info())),
        ResOp::Listxattrs(Ok(ListxattrsOk {
            cookie: d.u64(),
            names: d.list(Draw::name),
            eof: d.bool(),
        })),
        ResOp::Removexattr(Ok(d.change_info())),
        ResOp::Illegal(Ok(())),
    ]
}

fn state_successes(d: &mut Draw) -> Vec<ResOp<'static>> {
    let dir_delegation = GetDirDelegationOk {
        cookieverf: d.verifier(),
        stateid: d.stateid(),
        notification: d.bitmap(),
        child_attributes: d.bitmap(),
        dir_attributes: d.bitmap(),
    };
    vec![
        ResOp::Close(Ok(d.stateid())),
        ResOp::Lock(Ok(d.stateid())),
        ResOp::Lockt(Ok(())),
        ResOp::Locku(Ok(d.stateid())),
        ResOp::OpenConfirm(Ok(d.stateid())),
        ResOp::OpenDowngrade(Ok(d.stateid())),
        ResOp::Renew(Ok(())),
        ResOp::Setclientid(Ok(SetclientidOk {
            clientid: d.client(),
            setclientid_confirm: d.verifier(),
        })),
        ResOp::SetclientidConfirm(Ok(())),
        ResOp::ReleaseLockowner(Ok(())),
        ResOp::BackchannelCtl(Ok(())),
        ResOp::BindConnToSession(Ok(BindConnToSessionOk {
            sessid: d.session(),
            dir: [
                ChannelDirFromServer4::Fore,
                ChannelDirFromServer4::Back,
                ChannelDirFromServer4::Both,
            ][d.below(3)],
            use_conn_in_rdma_mode: d.bool(),
        })),
        ResOp::CreateSession(Ok(CreateSessionOk {
            sessionid: d.session(),
            sequence: d.u32(),
            flags: d.u32(),
            fore_chan_attrs: d.channel(),
            back_chan_attrs: d.channel(),
        })),
        ResOp::DestroySession(Ok(())),
        ResOp::FreeStateid(Ok(())),
        ResOp::GetDirDelegation(Ok(GetDirDelegationRes::Ok(dir_delegation))),
        ResOp::GetDirDelegation(Ok(GetDirDelegationRes::Unavail(d.bool()))),
        ResOp::Sequence(Ok(SequenceOk {
            sessionid: d.session(),
            sequenceid: d.u32(),
            slotid: d.u32(),
            highest_slotid: d.u32(),
            target_highest_slotid: d.u32(),
            status_flags: d.u32(),
        })),
        ResOp::SetSsv(Ok(SetSsvOk { digest: d.gss() })),
        ResOp::TestStateid(Ok(TestStateidOk {
            status_codes: d.list(Draw::status),
        })),
        ResOp::DestroyClientid(Ok(())),
        ResOp::ReclaimComplete(Ok(())),
    ]
}

fn data_successes(d: &mut Draw) -> Vec<ResOp<'static>> {
    let contents = vec![
        ReadPlusContent::Data(Data4 {
            offset: d.u64(),
            data: Payload::Here(d.bytes(30)),
        }),
        ReadPlusContent::Hole(DataInfo4 {
            offset: d.u64(),
            length: d.u64(),
        }),
    ];
    let layout = Layout4 {
        offset: d.u64(),
        length: d.u64(),
        iomode: d.iomode(),
        layout_type: d.u32(),
        body: d.body(),
    };
    vec![
        ResOp::Read(Ok(ReadOk {
            eof: d.bool(),
            data: Payload::Here(d.bytes(70)),
        })),
        ResOp::ReadPlus(Ok(ReadPlusOk {
            eof: d.bool(),
            contents,
        })),
        ResOp::Write(Ok(WriteOk {
            count: d.u32(),
            committed: d.stable(),
            writeverf: d.verifier(),
        })),
        ResOp::Commit(Ok(CommitOk {
            writeverf: d.verifier(),
        })),
        ResOp::Allocate(Ok(())),
        ResOp::Deallocate(Ok(())),
        ResOp::Seek(Ok(SeekOk {
            eof: d.bool(),
            offset: d.u64(),
        })),
        ResOp::IoAdvise(Ok(IoAdviseOk { hints: d.bitmap() })),
        ResOp::WriteSame(Ok(d.write_response())),
        ResOp::Copy(Ok(CopyOk {
            response: d.write_response(),
            requirements: CopyRequirements4 {
                consecutive: d.bool(),
                synchronous: d.bool(),
            },
        })),
        ResOp::CopyNotify(Ok(CopyNotifyOk {
            lease_time: d.time(),
            stateid: d.stateid(),
            source_server: d.list(Draw::netloc),
        })),
        ResOp::OffloadCancel(Ok(())),
        ResOp::OffloadStatus(Ok(OffloadStatusOk {
            count: d.u64(),
            complete: d.option(Draw::status),
        })),
        ResOp::Clone(Ok(())),
        ResOp::Layoutget(Ok(LayoutgetOk {
            return_on_close: d.bool(),
            stateid: d.stateid(),
            layouts: vec![layout],
        })),
        ResOp::Layoutcommit(Ok(LayoutcommitOk {
            newsize: d.option(Draw::u64),
        })),
        ResOp::Layoutreturn(Ok(d.option(Draw::stateid))),
        ResOp::Getdeviceinfo(Ok(GetdeviceinfoOk {
            device_addr: d.layout_content(),
            notification: d.bitmap(),
        })),
        ResOp::Getdevicelist(Ok(GetdevicelistOk {
            cookie: d.u64(),
            cookieverf: d.verifier(),
            deviceid_list: d.list(Draw::device),
            eof: d.bool(),
        })),
        ResOp::Layouterror(Ok(())),
        ResOp::Layoutstats(Ok(())),
    ]
}
