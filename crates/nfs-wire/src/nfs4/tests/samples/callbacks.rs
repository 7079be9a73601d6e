//! Callbacks.

use super::Draw;
use crate::Decode;
use crate::nfs4::ops::OpenDelegation4;
use crate::nfs4::*;
use crate::test_support::hex;

/// The arguments of every callback operation, and of those with unions each arm.
pub(crate) fn cb_args(d: &mut Draw) -> Vec<CbArgOp<'static>> {
    let notify = |d: &mut Draw| Notify4 {
        notify_mask: d.bitmap(),
        notify_vals: Notifylist4(d.bytes(30)),
    };
    let any = CbRecallAnyArgs {
        objects_to_keep: d.u32(),
        type_mask: d.bitmap(),
    };
    let recalls = [
        Layoutrecall4::File(LayoutrecallFile4 {
            fh: d.handle(),
            offset: d.u64(),
            length: d.u64(),
            stateid: d.stateid(),
        }),
        Layoutrecall4::Fsid(Fsid4 {
            major: d.u64(),
            minor: d.u64(),
        }),
        Layoutrecall4::All,
    ];
    let mut all: Vec<_> = recalls
        .map(|recall| {
            CbArgOp::Layoutrecall(CbLayoutrecallArgs {
                layout_type: d.u32(),
                iomode: d.iomode(),
                changed: d.bool(),
                recall,
            })
        })
        .into();
    let copies = [
        OffloadInfo4::Done(d.write_response()),
        OffloadInfo4::Failed(d.status(), d.u64()),
    ];
    all.extend(copies.map(|offload_info| {
        CbArgOp::Offload(CbOffloadArgs {
            fh: d.handle(),
            stateid: d.stateid(),
            offload_info,
        })
    }));
    all.extend([
        CbArgOp::Getattr(CbGetattrArgs {
            fh: d.handle(),
            attr_request: d.bitmap(),
        }),
        CbArgOp::Recall(CbRecallArgs {
            stateid: d.stateid(),
            truncate: d.bool(),
            fh: d.handle(),
        }),
        CbArgOp::Notify(CbNotifyArgs {
            stateid: d.stateid(),
            fh: d.handle(),
            changes: d.list(notify),
        }),
        CbArgOp::PushDeleg(CbPushDelegArgs {
            fh: d.handle(),
            delegation: OpenDelegation4::Read(d.read_delegation()),
        }),
        CbArgOp::RecallAny(any),
        CbArgOp::RecallableObjAvail(any),
        CbArgOp::RecallSlot(CbRecallSlotArgs {
            target_highest_slotid: d.u32(),
        }),
        CbArgOp::Sequence(CbSequenceArgs {
            sessionid: d.session(),
            sequenceid: d.u32(),
            slotid: d.u32(),
            highest_slotid: d.u32(),
            cachethis: d.bool(),
            referring_call_lists: d.list(|d| ReferringCallList4 {
                sessionid: d.session(),
                referring_calls: d.list(|d| ReferringCall4 {
                    sequenceid: d.u32(),
                    slotid: d.u32(),
                }),
            }),
        }),
        CbArgOp::WantsCancelled(CbWantsCancelledArgs {
            contended_wants_cancelled: d.bool(),
            resourced_wants_cancelled: d.bool(),
        }),
        CbArgOp::NotifyLock(CbNotifyLockArgs {
            fh: d.handle(),
            lock_owner: d.owner(),
        }),
        CbArgOp::NotifyDeviceid(CbNotifyDeviceidArgs {
            changes: d.list(notify),
        }),
        CbArgOp::Illegal(()),
    ]);
    all
}

/// The results of every callback operation.
pub(crate) fn cb_results(d: &mut Draw) -> Vec<CbResOp<'static>> {
    let mut all = vec![
        CbResOp::Getattr(Ok(CbGetattrOk {
            obj_attributes: d.fattr(),
        })),
        CbResOp::Sequence(Ok(CbSequenceOk {
            sessionid: d.session(),
            sequenceid: d.u32(),
            slotid: d.u32(),
            highest_slotid: d.u32(),
            target_highest_slotid: d.u32(),
        })),
        CbResOp::Recall(Ok(())),
        CbResOp::Layoutrecall(Ok(())),
        CbResOp::Notify(Ok(())),
        CbResOp::PushDeleg(Ok(())),
        CbResOp::RecallAny(Ok(())),
        CbResOp::RecallableObjAvail(Ok(())),
        CbResOp::RecallSlot(Ok(())),
        CbResOp::WantsCancelled(Ok(())),
        CbResOp::NotifyLock(Ok(())),
        CbResOp::NotifyDeviceid(Ok(())),
        CbResOp::Offload(Ok(())),
        CbResOp::Illegal(Ok(())),
    ];
    for opnum in CbOpnum::ALL {
        let mut bytes = hex(&format!("{:08x}", opnum.number()));
        bytes.extend((d.status() as u32).to_be_bytes());
        let bytes: &'static [u8] = bytes.leak();
        all.push(CbResOp::decode(&mut crate::Decoder::new(bytes)).unwrap());
    }
    all
}
