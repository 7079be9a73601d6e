//! Arguments.

use super::Draw;
use crate::Payload;
use crate::nfs4::ops::*;
use crate::nfs4::*;

/// The arguments of every operation, and of those with unions each arm.
pub(crate) fn args(draw: &mut Draw) -> Vec<ArgOp<'static>> {
    let mut all = objects_args(draw);
    all.extend(open_args(draw));
    all.extend(lock_args(draw));
    all.extend(session_args(draw));
    all.extend(legacy_args(draw));
    all.extend(data_args(draw));
    all.extend(layout_args(draw));
    all
}

fn objects_args(d: &mut Draw) -> Vec<ArgOp<'static>> {
    let device = Specdata4 {
        major: d.u32(),
        minor: d.u32(),
    };
    let types = [
        Createtype4::Lnk(Linktext4(d.bytes(30))),
        Createtype4::Blk(device),
        Createtype4::Chr(device),
        Createtype4::Sock,
        Createtype4::Fifo,
        Createtype4::Dir,
        Createtype4::Other(1),
        Createtype4::Other(77),
    ];
    let mut all: Vec<_> = types
        .map(|objtype| {
            ArgOp::Create(CreateArgs {
                objtype,
                objname: d.name(),
                createattrs: d.fattr(),
            })
        })
        .into();
    all.extend([
        ArgOp::Access(AccessArgs { access: d.u32() }),
        ArgOp::Getattr(GetattrArgs {
            attr_request: d.bitmap(),
        }),
        ArgOp::Getfh(()),
        ArgOp::Link(LinkArgs { newname: d.name() }),
        ArgOp::Lookup(LookupArgs { objname: d.name() }),
        ArgOp::Lookupp(()),
        ArgOp::Nverify(VerifyArgs {
            obj_attributes: d.fattr(),
        }),
        ArgOp::Verify(VerifyArgs {
            obj_attributes: d.fattr(),
        }),
        ArgOp::Openattr(OpenattrArgs {
            createdir: d.bool(),
        }),
        ArgOp::Putfh(PutfhArgs { object: d.handle() }),
        ArgOp::Putpubfh(()),
        ArgOp::Putrootfh(()),
        ArgOp::Readdir(ReaddirArgs {
            cookie: d.u64(),
            cookieverf: d.verifier(),
            dircount: d.u32(),
            maxcount: d.u32(),
            attr_request: d.bitmap(),
        }),
        ArgOp::Readlink(()),
        ArgOp::Remove(RemoveArgs { target: d.name() }),
        ArgOp::Rename(RenameArgs {
            oldname: d.name(),
            newname: d.name(),
        }),
        ArgOp::Restorefh(()),
        ArgOp::Savefh(()),
        ArgOp::Secinfo(SecinfoArgs { name: d.name() }),
        ArgOp::SecinfoNoName(SecinfoNoNameArgs {
            style: if d.bool() {
                SecinfoStyle4::Parent
            } else {
                SecinfoStyle4::CurrentFh
            },
        }),
        ArgOp::Setattr(SetattrArgs {
            stateid: d.stateid(),
            obj_attributes: d.fattr(),
        }),
        ArgOp::Illegal(()),
    ]);
    all
}

fn open_args(d: &mut Draw) -> Vec<ArgOp<'static>> {
    let both = CreateVerfAttr {
        verf: d.verifier(),
        attrs: d.fattr(),
    };
    let ways = [
        Openflag4::Nocreate,
        Openflag4::Create(Createhow4::Unchecked(d.fattr())),
        Openflag4::Create(Createhow4::Guarded(d.fattr())),
        Openflag4::Create(Createhow4::Exclusive(d.verifier())),
        Openflag4::Create(Createhow4::Exclusive41(both)),
    ];
    let claims = [
        OpenClaim4::Null(d.name()),
        OpenClaim4::Previous(d.delegation_type()),
        OpenClaim4::DelegateCur(OpenClaimDelegateCur4 {
            delegate_stateid: d.stateid(),
            file: d.name(),
        }),
        OpenClaim4::DelegatePrev(d.name()),
        OpenClaim4::Fh,
        OpenClaim4::DelegCurFh(d.stateid()),
        OpenClaim4::DelegPrevFh,
    ];
    let mut all = Vec::new();
    for (index, claim) in claims.into_iter().enumerate() {
        all.push(ArgOp::Open(OpenArgs {
            seqid: d.u32(),
            share_access: d.u32(),
            share_deny: d.u32(),
            owner: d.owner(),
            openhow: ways[index % ways.len()],
            claim,
        }));
    }
    let wants = [
        DelegClaim4::Previous(d.delegation_type()),
        DelegClaim4::Fh,
        DelegClaim4::DelegPrevFh,
    ];
    all.extend(wants.map(|claim| {
        ArgOp::WantDelegation(WantDelegationArgs {
            want: d.u32(),
            claim,
        })
    }));
    all.extend([
        ArgOp::Close(CloseArgs {
            seqid: d.u32(),
            open_stateid: d.stateid(),
        }),
        ArgOp::OpenDowngrade(OpenDowngradeArgs {
            open_stateid: d.stateid(),
            seqid: d.u32(),
            share_access: d.u32(),
            share_deny: d.u32(),
        }),
        ArgOp::Delegpurge(DelegpurgeArgs {
            clientid: d.client(),
        }),
        ArgOp::Delegreturn(DelegreturnArgs {
            deleg_stateid: d.stateid(),
        }),
        ArgOp::GetDirDelegation(GetDirDelegationArgs {
            signal_deleg_avail: d.bool(),
            notification_types: d.bitmap(),
            child_attr_delay: d.time(),
            dir_attr_delay: d.time(),
            child_attributes: d.bitmap(),
            dir_attributes: d.bitmap(),
        }),
    ]);
    all
}

fn lock_args(d: &mut Draw) -> Vec<ArgOp<'static>> {
    let lockers = [
        Locker4::Exists(ExistLockOwner4 {
            lock_stateid: d.stateid(),
            lock_seqid: d.u32(),
        }),
        Locker4::New(OpenToLockOwner4 {
            open_seqid: d.u32(),
            open_stateid: d.stateid(),
            lock_seqid: d.u32(),
            lock_owner: d.owner(),
        }),
    ];
    let mut all: Vec<_> = lockers
        .map(|locker| {
            ArgOp::Lock(LockArgs {
                locktype: d.lock_type(),
                reclaim: d.bool(),
                offset: d.u64(),
                length: d.u64(),
                locker,
            })
        })
        .into();
    all.extend([
        ArgOp::Lockt(LocktArgs {
            locktype: d.lock_type(),
            offset: d.u64(),
            length: d.u64(),
            owner: d.owner(),
        }),
        ArgOp::Locku(LockuArgs {
            locktype: d.lock_type(),
            seqid: d.u32(),
            lock_stateid: d.stateid(),
            offset: d.u64(),
            length: d.u64(),
        }),
    ]);
    all
}

fn session_args(d: &mut Draw) -> Vec<ArgOp<'static>> {
    let ssv = SsvSpParms4 {
        ops: d.protect_ops(),
        hash_algs: d.list(Draw::gss),
        encr_algs: d.list(Draw::gss),
        window: d.u32(),
        num_gss_handles: d.u32(),
    };
    let ways = [
        StateProtect4A::None,
        StateProtect4A::MachCred(d.protect_ops()),
        StateProtect4A::Ssv(ssv),
    ];
    let mut all: Vec<_> = ways
        .map(|state_protect| {
            ArgOp::ExchangeId(ExchangeIdArgs {
                clientowner: ClientOwner4 {
                    verifier: d.verifier(),
                    ownerid: d.opaque(),
                },
                flags: d.u32(),
                state_protect,
                client_impl_id: d.option(Draw::impl_id),
            })
        })
        .into();
    all.extend([
        ArgOp::CreateSession(CreateSessionArgs {
            clientid: d.client(),
            sequence: d.u32(),
            flags: d.u32(),
            fore_chan_attrs: d.channel(),
            back_chan_attrs: d.channel(),
            cb_program: d.u32(),
            sec_parms: (0..6).map(|_| d.sec_parms()).collect(),
        }),
        ArgOp::DestroySession(DestroySessionArgs {
            sessionid: d.session(),
        }),
        ArgOp::DestroyClientid(DestroyClientidArgs {
            clientid: d.client(),
        }),
        ArgOp::Sequence(SequenceArgs {
            sessionid: d.session(),
            sequenceid: d.u32(),
            slotid: d.u32(),
            highest_slotid: d.u32(),
            cachethis: d.bool(),
        }),
        ArgOp::BindConnToSession(BindConnToSessionArgs {
            sessid: d.session(),
            dir: [
                ChannelDirFromClient4::Fore,
                ChannelDirFromClient4::Back,
                ChannelDirFromClient4::ForeOrBoth,
                ChannelDirFromClient4::BackOrBoth,
            ][d.below(4)],
            use_conn_in_rdma_mode: d.bool(),
        }),
        ArgOp::BackchannelCtl(BackchannelCtlArgs {
            cb_program: d.u32(),
            sec_parms: d.list(Draw::sec_parms),
        }),
        ArgOp::SetSsv(SetSsvArgs {
            ssv: d.gss(),
            digest: d.gss(),
        }),
        ArgOp::FreeStateid(FreeStateidArgs {
            stateid: d.stateid(),
        }),
        ArgOp::TestStateid(TestStateidArgs {
            stateids: d.list(Draw::stateid),
        }),
        ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: d.bool() }),
    ]);
    all
}

fn legacy_args(d: &mut Draw) -> Vec<ArgOp<'static>> {
    vec![
        ArgOp::OpenConfirm(OpenConfirmArgs {
            open_stateid: d.stateid(),
            seqid: d.u32(),
        }),
        ArgOp::Renew(RenewArgs {
            clientid: d.client(),
        }),
        ArgOp::Setclientid(SetclientidArgs {
            client: NfsClientId4 {
                verifier: d.verifier(),
                id: d.opaque(),
            },
            callback: CbClient4 {
                cb_program: d.u32(),
                cb_location: d.netaddr(),
            },
            callback_ident: d.u32(),
        }),
        ArgOp::SetclientidConfirm(SetclientidConfirmArgs {
            clientid: d.client(),
            setclientid_confirm: d.verifier(),
        }),
        ArgOp::ReleaseLockowner(ReleaseLockownerArgs {
            lock_owner: d.owner(),
        }),
    ]
}

fn data_args(d: &mut Draw) -> Vec<ArgOp<'static>> {
    let read = ReadArgs {
        stateid: d.stateid(),
        offset: d.u64(),
        count: d.u32(),
    };
    let allocate = AllocateArgs {
        stateid: d.stateid(),
        offset: d.u64(),
        length: d.u64(),
    };
    let offload = OffloadArgs {
        stateid: d.stateid(),
    };
    vec![
        ArgOp::Read(read),
        ArgOp::ReadPlus(read),
        ArgOp::Write(WriteArgs {
            stateid: d.stateid(),
            offset: d.u64(),
            stable: d.stable(),
            data: Payload::Here(d.bytes(70)),
        }),
        ArgOp::Commit(CommitArgs {
            offset: d.u64(),
            count: d.u32(),
        }),
        ArgOp::Allocate(allocate),
        ArgOp::Deallocate(allocate),
        ArgOp::Seek(SeekArgs {
            stateid: d.stateid(),
            offset: d.u64(),
            what: [Ok(DataContent4::Data), Ok(DataContent4::Hole), Err(9)][d.below(3)],
        }),
        ArgOp::IoAdvise(IoAdviseArgs {
            stateid: d.stateid(),
            offset: d.u64(),
            count: d.u64(),
            hints: d.bitmap(),
        }),
        ArgOp::WriteSame(WriteSameArgs {
            stateid: d.stateid(),
            stable: d.stable(),
            adb: AppDataBlock4 {
                offset: d.u64(),
                block_size: d.u64(),
                block_count: d.u64(),
                reloff_blocknum: d.u64(),
                block_num: d.u32(),
                reloff_pattern: d.u64(),
                pattern: d.gss(),
            },
        }),
        ArgOp::Copy(CopyArgs {
            src_stateid: d.stateid(),
            dst_stateid: d.stateid(),
            src_offset: d.u64(),
            dst_offset: d.u64(),
            count: d.u64(),
            consecutive: d.bool(),
            synchronous: d.bool(),
            source_server: d.list(Draw::netloc),
        }),
        ArgOp::CopyNotify(CopyNotifyArgs {
            src_stateid: d.stateid(),
            destination_server: d.netloc(),
        }),
        ArgOp::OffloadCancel(offload),
        ArgOp::OffloadStatus(offload),
        ArgOp::Clone(CloneArgs {
            src_stateid: d.stateid(),
            dst_stateid: d.stateid(),
            src_offset: d.u64(),
            dst_offset: d.u64(),
            count: d.u64(),
        }),
        ArgOp::Getxattr(XattrNameArgs { name: d.name() }),
        ArgOp::Setxattr(SetxattrArgs {
            option: [
                SetxattrOption4::Either,
                SetxattrOption4::Create,
                SetxattrOption4::Replace,
            ][d.below(3)],
            key: d.name(),
            value: Xattrvalue4(d.bytes(50)),
        }),
        ArgOp::Listxattrs(ListxattrsArgs {
            cookie: d.u64(),
            maxcount: d.u32(),
        }),
        ArgOp::Removexattr(XattrNameArgs { name: d.name() }),
    ]
}

fn layout_args(d: &mut Draw) -> Vec<ArgOp<'static>> {
    let file = LayoutreturnFile4 {
        offset: d.u64(),
        length: d.u64(),
        stateid: d.stateid(),
        body: d.body(),
    };
    let returns = [
        Layoutreturn4::File(file),
        Layoutreturn4::Fsid,
        Layoutreturn4::All,
    ];
    let mut all: Vec<_> = returns
        .map(|layoutreturn| {
            ArgOp::Layoutreturn(LayoutreturnArgs {
                reclaim: d.bool(),
                layout_type: d.u32(),
                iomode: d.iomode(),
                layoutreturn,
            })
        })
        .into();
    all.extend([
        ArgOp::Layoutget(LayoutgetArgs {
            signal_layout_avail: d.bool(),
            layout_type: d.u32(),
            iomode: d.iomode(),
            offset: d.u64(),
            length: d.u64(),
            minlength: d.u64(),
            stateid: d.stateid(),
            maxcount: d.u32(),
        }),
        ArgOp::Layoutcommit(LayoutcommitArgs {
            offset: d.u64(),
            length: d.u64(),
            reclaim: d.bool(),
            stateid: d.stateid(),
            last_write_offset: d.option(Draw::u64),
            time_modify: d.option(Draw::time),
            layoutupdate: d.layout_content(),
        }),
        ArgOp::Getdeviceinfo(GetdeviceinfoArgs {
            device_id: d.device(),
            layout_type: d.u32(),
            maxcount: d.u32(),
            notify_types: d.bitmap(),
        }),
        ArgOp::Getdevicelist(GetdevicelistArgs {
            layout_type: d.u32(),
            maxdevices: d.u32(),
            cookie: d.u64(),
            cookieverf: d.verifier(),
        }),
        ArgOp::Layouterror(LayouterrorArgs {
            offset: d.u64(),
            length: d.u64(),
            stateid: d.stateid(),
            errors: d.list(|d| DeviceError4 {
                deviceid: d.device(),
                status: d.status(),
                opnum: d.u32(),
            }),
        }),
        ArgOp::Layoutstats(LayoutstatsArgs {
            offset: d.u64(),
            length: d.u64(),
            stateid: d.stateid(),
            read: IoInfo4 {
                count: d.u64(),
                bytes: d.u64(),
            },
            write: IoInfo4 {
                count: d.u64(),
                bytes: d.u64(),
            },
            deviceid: d.device(),
            layoutupdate: d.layout_content(),
        }),
    ]);
    all
}
