//! Values of the types that many messages have.

use crate::auth::{AuthSys, GidList};
use crate::nfs4::ops::*;
use crate::nfs4::*;

/// Draws values. Numbers are small, large and anything between, as often as each other.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    fn next(&mut self) -> u64 {
        // SplitMix64: any seed will do, zero too.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    pub(super) fn u64(&mut self) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => u64::MAX,
            2 => self.next() % 1000,
            _ => self.next(),
        }
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::try_from(self.u64() & 0xffff_ffff).unwrap()
    }

    pub(super) fn bool(&mut self) -> bool {
        self.below(2) == 1
    }

    pub(super) fn bytes(&mut self, max: usize) -> &'static [u8] {
        let len = self.below(max + 1);
        let bytes: Vec<u8> = (0..len).map(|_| self.next().to_be_bytes()[0]).collect();
        bytes.leak()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| self.next().to_be_bytes()[0])
    }

    pub(super) fn option<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.bool().then(|| draw(self))
    }

    pub(super) fn list<T>(&mut self, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| draw(self)).collect()
    }

    pub(super) fn name(&mut self) -> Component4<'static> {
        Component4(self.bytes(20))
    }

    pub(super) fn text(&mut self) -> Utf8str<'static> {
        Utf8str(self.bytes(20))
    }

    pub(super) fn opaque(&mut self) -> Opaque4<'static> {
        Opaque4(self.bytes(40))
    }

    pub(super) fn gss(&mut self) -> GssOpaque<'static> {
        GssOpaque(self.bytes(20))
    }

    pub(super) fn body(&mut self) -> LayoutBody<'static> {
        LayoutBody(self.bytes(30))
    }

    pub(super) fn stateid(&mut self) -> Stateid4 {
        match self.below(5) {
            0 => Stateid4::ANONYMOUS,
            1 => Stateid4::READ_BYPASS,
            _ => Stateid4 {
                seqid: self.u32(),
                other: self.array(),
            },
        }
    }

    pub(super) fn bitmap(&mut self) -> Bitmap4 {
        (0..self.below(6)).map(|_| self.u32() % 128).collect()
    }

    pub(super) fn handle(&mut self) -> FileHandle {
        FileHandle::new(self.bytes(128)).unwrap()
    }

    pub(super) fn verifier(&mut self) -> Verifier4 {
        Verifier4(self.array())
    }

    pub(super) fn session(&mut self) -> Sessionid4 {
        Sessionid4(self.array())
    }

    pub(super) fn device(&mut self) -> Deviceid4 {
        Deviceid4(self.array())
    }

    pub(super) fn client(&mut self) -> Clientid4 {
        Clientid4 { id: self.u64() }
    }

    pub(super) fn owner(&mut self) -> StateOwner4<'static> {
        StateOwner4 {
            clientid: self.client(),
            owner: self.opaque(),
        }
    }

    pub(super) fn time(&mut self) -> Nfstime4 {
        Nfstime4 {
            seconds: self.u64().cast_signed(),
            nseconds: self.u32(),
        }
    }

    pub(super) fn fattr(&mut self) -> Fattr4<'static> {
        Fattr4 {
            attrmask: self.bitmap(),
            attr_vals: Attrlist4(self.bytes(60)),
        }
    }

    pub(super) fn change_info(&mut self) -> ChangeInfo4 {
        ChangeInfo4 {
            atomic: self.bool(),
            before: Changeid4 { value: self.u64() },
            after: Changeid4 { value: self.u64() },
        }
    }

    pub(super) fn netaddr(&mut self) -> Netaddr4<'static> {
        Netaddr4 {
            netid: NetString(self.bytes(5)),
            addr: NetString(self.bytes(20)),
        }
    }

    pub(super) fn netloc(&mut self) -> Netloc4<'static> {
        match self.below(3) {
            0 => Netloc4::Name(self.text()),
            1 => Netloc4::Url(self.text()),
            _ => Netloc4::Netaddr(self.netaddr()),
        }
    }

    pub(super) fn ace(&mut self) -> Nfsace4<'static> {
        Nfsace4 {
            acetype: self.u32(),
            flag: self.u32(),
            access_mask: self.u32(),
            who: self.text(),
        }
    }

    pub(super) fn stable(&mut self) -> StableHow4 {
        [
            StableHow4::Unstable,
            StableHow4::DataSync,
            StableHow4::FileSync,
        ][self.below(3)]
    }

    pub(super) fn lock_type(&mut self) -> LockType4 {
        let number = u32::try_from(self.below(4)).unwrap() + 1;
        LockType4::try_from(number).unwrap()
    }

    pub(crate) fn status(&mut self) -> Nfsstat4 {
        Nfsstat4::ALL[1 + self.below(Nfsstat4::ALL.len() - 1)]
    }

    pub(super) fn impl_id(&mut self) -> NfsImplId4<'static> {
        NfsImplId4 {
            domain: self.text(),
            name: self.text(),
            date: self.time(),
        }
    }

    pub(super) fn protect_ops(&mut self) -> StateProtectOps4 {
        StateProtectOps4 {
            must_enforce: self.bitmap(),
            must_allow: self.bitmap(),
        }
    }

    pub(super) fn channel(&mut self) -> ChannelAttrs4 {
        ChannelAttrs4 {
            headerpadsize: self.u32(),
            maxrequestsize: self.u32(),
            maxresponsesize: self.u32(),
            maxresponsesize_cached: self.u32(),
            maxoperations: self.u32(),
            maxrequests: self.u32(),
            rdma_ird: self.option(Self::u32),
        }
    }

    pub(super) fn sec_parms(&mut self) -> CallbackSecParms4<'static> {
        match self.below(3) {
            0 => CallbackSecParms4::None,
            1 => CallbackSecParms4::Sys(AuthSys {
                stamp: self.u32(),
                machine_name: self.bytes(12),
                uid: self.u32(),
                gid: self.u32(),
                gids: GidList::new(&[1, 2, 3]).unwrap(),
            }),
            _ => CallbackSecParms4::Gss(GssCbHandles4 {
                service: self.u32(),
                handle_from_server: self.gss(),
                handle_from_client: self.gss(),
            }),
        }
    }

    pub(super) fn iomode(&mut self) -> Layoutiomode4 {
        [Layoutiomode4::Read, Layoutiomode4::Rw, Layoutiomode4::Any][self.below(3)]
    }

    pub(super) fn layout_content(&mut self) -> LayoutContent4<'static> {
        LayoutContent4 {
            layout_type: self.u32(),
            body: self.body(),
        }
    }

    pub(super) fn delegation_type(&mut self) -> OpenDelegationType4 {
        OpenDelegationType4::try_from(u32::try_from(self.below(6)).unwrap()).unwrap()
    }

    pub(super) fn read_delegation(&mut self) -> OpenReadDelegation4<'static> {
        OpenReadDelegation4 {
            stateid: self.stateid(),
            recall: self.bool(),
            permissions: self.ace(),
        }
    }

    pub(super) fn write_delegation(&mut self) -> OpenWriteDelegation4<'static> {
        OpenWriteDelegation4 {
            stateid: self.stateid(),
            recall: self.bool(),
            space_limit: if self.bool() {
                NfsSpaceLimit4::Size(self.u64())
            } else {
                NfsSpaceLimit4::Blocks(NfsModifiedLimit4 {
                    num_blocks: self.u32(),
                    bytes_per_block: self.u32(),
                })
            },
            permissions: self.ace(),
        }
    }

    pub(super) fn delegations(&mut self) -> Vec<OpenDelegation4<'static>> {
        let why = [
            OpenNoneDelegation4::NotWanted,
            OpenNoneDelegation4::Contention(self.bool()),
            OpenNoneDelegation4::Resource(self.bool()),
            OpenNoneDelegation4::NotSuppFtype,
            OpenNoneDelegation4::WriteDelegNotSuppFtype,
            OpenNoneDelegation4::NotSuppUpgrade,
            OpenNoneDelegation4::NotSuppDowngrade,
            OpenNoneDelegation4::Cancelled,
            OpenNoneDelegation4::IsDir,
        ];
        let mut all = vec![
            OpenDelegation4::None,
            OpenDelegation4::Read(self.read_delegation()),
            OpenDelegation4::Write(self.write_delegation()),
            OpenDelegation4::ReadAttrs(self.read_delegation()),
            OpenDelegation4::WriteAttrs(self.write_delegation()),
        ];
        all.extend(why.map(OpenDelegation4::NoneExt));
        all
    }

    pub(super) fn write_response(&mut self) -> WriteResponse4 {
        WriteResponse4 {
            callback_id: self.option(Self::stateid),
            count: self.u64(),
            committed: self.stable(),
            writeverf: self.verifier(),
        }
    }

    pub(super) fn denied(&mut self) -> LockDenied<'static> {
        LockDenied {
            offset: self.u64(),
            length: self.u64(),
            locktype: self.lock_type(),
            owner: self.owner(),
        }
    }
}
