//! The programs that are answered on the server's port, and those that are not: each call is answered at
//! once, since a client that gets no answer waits for ever.

mod support;

use nfs_client::{Identity, Procedure, RpcError};
use nfs_wire::auth::{AUTH_SYS, AuthStat};
use nfs_wire::nlm4::{
    self, CancelArgs, Lock, LockArgs, MachineName, Netobj, Notify, Share, ShareArgs, Stats,
    TestArgs, TestReply, TestRes, UnlockArgs,
};
use nfs_wire::{decode_all, encode_to_vec, mount3, nfs3};
use support::{Served, block_on, connect, mount};

/// The results of a call with these arguments.
async fn call(
    served: &Served,
    (program, version, number): (u32, u32, u32),
    args: &[u8],
) -> Result<Vec<u8>, RpcError> {
    let client = connect(served.addr, Identity::sys(0, 0, &[])).await;
    let procedure = Procedure {
        program,
        version,
        number,
    };
    let results = client
        .connection()
        .call_raw(procedure, client.identity(), args)
        .await?;
    Ok(results.to_vec())
}

const COOKIE: Netobj<'static> = Netobj(b"cook");

fn lock(fh: &[u8]) -> Lock<'_> {
    Lock {
        caller_name: MachineName(b"client"),
        fh: Netobj(fh),
        oh: Netobj(b"1@client"),
        svid: 1,
        l_offset: 0,
        l_len: 0,
    }
}

fn lock_args(fh: &[u8]) -> LockArgs<'_> {
    LockArgs {
        cookie: COOKIE,
        block: true,
        exclusive: true,
        alock: lock(fh),
        reclaim: false,
        state: 1,
    }
}

fn share_args(fh: &[u8]) -> ShareArgs<'_> {
    let share = Share {
        caller_name: MachineName(b"client"),
        fh: Netobj(fh),
        oh: Netobj(b"1@client"),
        mode: 0,
        access: 1,
    };
    ShareArgs {
        cookie: COOKIE,
        share,
        reclaim: false,
    }
}

/// What each call of the lock manager is answered.
async fn locks(served: &Served, fh: &[u8]) {
    let ask = async |call_: nlm4::Call<'_>| {
        let number = call_.procedure() as u32;
        let asked = (nlm4::PROGRAM, nlm4::VERSION, number);
        call(served, asked, &encode_to_vec(&call_)).await.unwrap()
    };
    let (exclusive, block) = (true, true);
    let (cookie, alock) = (COOKIE, lock(fh));
    let test = TestArgs {
        cookie,
        exclusive,
        alock,
    };
    let cancel = CancelArgs {
        cookie,
        block,
        exclusive,
        alock,
    };
    let unlock = UnlockArgs { cookie, alock };
    for (call, stat) in [
        (nlm4::Call::Lock(lock_args(fh)), Stats::DeniedNolocks),
        (nlm4::Call::NmLock(lock_args(fh)), Stats::DeniedNolocks),
        (nlm4::Call::Cancel(cancel), Stats::Granted),
        (nlm4::Call::Unlock(unlock), Stats::Granted),
        (nlm4::Call::Granted(test), Stats::Denied),
    ] {
        let results = ask(call).await;
        let expected = nlm4::Res { cookie, stat };
        assert_eq!(decode_all(&results), Ok(expected), "{call:?}");
    }
    let results = ask(nlm4::Call::Test(test)).await;
    let reply = TestReply::Other(Stats::DeniedNolocks);
    assert_eq!(decode_all(&results), Ok(TestRes { cookie, reply }));
    for (call, stat) in [
        (nlm4::Call::Share(share_args(fh)), Stats::DeniedNolocks),
        (nlm4::Call::Unshare(share_args(fh)), Stats::Granted),
    ] {
        let expected = nlm4::ShareRes {
            cookie,
            stat,
            sequence: 0,
        };
        assert_eq!(decode_all(&ask(call).await), Ok(expected));
    }
    let name = MachineName(b"client");
    let state = 1;
    for call in [
        nlm4::Call::Null(()),
        nlm4::Call::FreeAll(Notify { name, state }),
    ] {
        assert!(ask(call).await.is_empty());
    }
}

#[test]
fn every_lock_is_refused_at_once_and_counted() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = mount(&client, b"/").await.unwrap();
        locks(&served, root.as_ref()).await;
        // Whatever is named: nothing is looked up.
        locks(&served, b"no handle of ours").await;
        locks(&served, &[0xff; 1024]).await;
    });
    assert_eq!(served.counter("locks_refused"), 3 * 4);
}

#[test]
fn what_is_no_call_of_the_lock_manager_is_said_to_be_none() {
    let served = Served::start();
    block_on(async {
        let whole = encode_to_vec(&lock_args(b"handle"));
        // The asynchronous procedures, and those that nobody has.
        for number in (6..20).chain(24..30) {
            let asked = (nlm4::PROGRAM, nlm4::VERSION, number);
            let got = call(&served, asked, &whole).await;
            assert!(
                matches!(got, Err(RpcError::ProcUnavail)),
                "{number}: {got:?}"
            );
        }
        let asked = (nlm4::PROGRAM, nlm4::VERSION, nlm4::Procedure::Lock as u32);
        for len in 0..whole.len() {
            let got = call(&served, asked, &whole[..len]).await;
            assert!(matches!(got, Err(RpcError::GarbageArgs)), "{len}: {got:?}");
        }
        let longer = [whole.as_slice(), &[0; 4]].concat();
        let got = call(&served, asked, &longer).await;
        assert!(matches!(got, Err(RpcError::GarbageArgs)), "{got:?}");
    });
    assert_eq!(served.counter("locks_refused"), 0);
}

#[test]
fn other_programs_and_versions_are_refused_at_once() {
    let served = Served::start();
    block_on(async {
        // NFSACL, which the Linux client asks for at each mount; quotas; a status monitor; a port mapper;
        // nobody's.
        for (program, version) in [
            (100_227, 3),
            (100_011, 1),
            (100_024, 1),
            (100_000, 2),
            (200_000, 1),
        ] {
            let got = call(&served, (program, version, 0), &[]).await;
            assert!(
                matches!(got, Err(RpcError::ProgUnavail { .. })),
                "{program}: {got:?}"
            );
        }
        for (program, versions, offered) in [
            (nfs3::PROGRAM, [0, 2, 5], (3, 4)),
            (mount3::PROGRAM, [0, 1, 2], (3, 3)),
            (nlm4::PROGRAM, [1, 2, 3], (4, 4)),
        ] {
            for version in versions {
                let got = call(&served, (program, version, 0), &[]).await;
                assert!(
                    matches!(got, Err(RpcError::ProgMismatch { low, high }) if (low, high) == offered),
                    "{program} {version}: {got:?}"
                );
            }
        }
    });
}

/// Why a call is refused.
async fn refusal(
    served: &Served,
    (program, version, number): (u32, u32, u32),
    identity: Identity,
    args: &[u8],
) -> AuthStat {
    let client = connect(served.addr, identity).await;
    let procedure = Procedure {
        program,
        version,
        number,
    };
    let got = client
        .connection()
        .call_raw(procedure, client.identity(), args)
        .await;
    match got {
        Err(RpcError::Denied { stat }) => stat,
        got => panic!("{program} {number} as {:?}: {got:?}", client.identity()),
    }
}

/// RPCSEC_GSS carries its tokens in the arguments of NULL (RFC 2203 §5.2.2): looked at before the flavor is,
/// they are garbage, and the client does not learn that it must not use Kerberos here.
#[test]
fn a_flavor_that_is_not_offered_is_refused_before_arguments_are_looked_at() {
    const AUTH_SHORT: u32 = 2;
    const AUTH_DH: u32 = 3;
    const RPCSEC_GSS: u32 = 6;
    const AUTH_TLS: u32 = 7;
    let served = Served::start();
    let token = [[0, 0, 0, 100].as_slice(), &[0x60; 100]].concat();
    let mut refused = 0;
    block_on(async {
        for flavor in [AUTH_SHORT, AUTH_DH, RPCSEC_GSS, AUTH_TLS, 99, u32::MAX] {
            for (program, version, last) in [
                (nfs3::PROGRAM, nfs3::VERSION, 21),
                (mount3::PROGRAM, mount3::VERSION, 5),
                (nlm4::PROGRAM, nlm4::VERSION, 23),
            ] {
                for number in [0, 1, last] {
                    for args in [&[], token.as_slice()] {
                        let asked = (program, version, number);
                        let identity = Identity::raw(flavor, &[0; 20]);
                        let stat = refusal(&served, asked, identity, args).await;
                        assert_eq!(stat, AuthStat::RejectedCred);
                        refused += 1;
                    }
                }
            }
        }
        // One that is offered and broken is refused on NULL as everywhere.
        let broken = (nfs3::PROGRAM, nfs3::VERSION, 0);
        let identity = Identity::raw(AUTH_SYS, &[0; 19]);
        let stat = refusal(&served, broken, identity, &[]).await;
        assert_eq!(stat, AuthStat::BadCred);
        // No credential at all is enough for a ping.
        let nobody = connect(served.addr, Identity::none()).await;
        nobody.null().await.unwrap();
    });
    assert_eq!(served.counter("denied_calls"), refused + 1);
}
