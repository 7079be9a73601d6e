use proptest::prelude::*;

use super::*;
use crate::test_support::{bytes, check_message, check_message_with, hex};
use crate::{decode_all, encode_to_vec};

fn netobj() -> impl Strategy<Value = Netobj<'static>> {
    bytes(24).prop_map(Netobj)
}

fn name() -> impl Strategy<Value = MachineName<'static>> {
    bytes(24).prop_map(MachineName)
}

fn lock() -> impl Strategy<Value = Lock<'static>> {
    let names = (name(), netobj(), netobj());
    (names, any::<(u32, u64, u64)>()).prop_map(
        |((caller_name, fh, oh), (svid, l_offset, l_len))| Lock {
            caller_name,
            fh,
            oh,
            svid,
            l_offset,
            l_len,
        },
    )
}

fn lock_args() -> impl Strategy<Value = LockArgs<'static>> {
    let rest = any::<(bool, bool, bool, u32)>();
    (netobj(), lock(), rest).prop_map(|(cookie, alock, (block, exclusive, reclaim, state))| {
        LockArgs {
            cookie,
            block,
            exclusive,
            alock,
            reclaim,
            state,
        }
    })
}

fn share_args() -> impl Strategy<Value = ShareArgs<'static>> {
    let names = (name(), netobj(), netobj());
    (netobj(), names, any::<(u32, u32, bool)>()).prop_map(
        |(cookie, (caller_name, fh, oh), (mode, access, reclaim))| {
            let share = Share {
                caller_name,
                fh,
                oh,
                mode,
                access,
            };
            ShareArgs {
                cookie,
                share,
                reclaim,
            }
        },
    )
}

fn call() -> impl Strategy<Value = Call<'static>> {
    let test = |(cookie, alock, exclusive)| TestArgs {
        cookie,
        exclusive,
        alock,
    };
    let tests = move || (netobj(), lock(), any::<bool>()).prop_map(test);
    prop_oneof![
        Just(Call::Null(())),
        tests().prop_map(Call::Test),
        lock_args().prop_map(Call::Lock),
        lock_args().prop_map(|lock| Call::Cancel(CancelArgs {
            cookie: lock.cookie,
            block: lock.block,
            exclusive: lock.exclusive,
            alock: lock.alock,
        })),
        (netobj(), lock()).prop_map(|(cookie, alock)| Call::Unlock(UnlockArgs { cookie, alock })),
        tests().prop_map(Call::Granted),
        share_args().prop_map(Call::Share),
        share_args().prop_map(Call::Unshare),
        lock_args().prop_map(Call::NmLock),
        (name(), any::<u32>()).prop_map(|(name, state)| Call::FreeAll(Notify { name, state })),
    ]
}

fn stats() -> impl Strategy<Value = Stats> {
    (0_u32..10).prop_map(|value| Stats::try_from(value).unwrap())
}

fn holder() -> impl Strategy<Value = Holder<'static>> {
    (any::<(bool, u32, u64, u64)>(), netobj()).prop_map(
        |((exclusive, svid, l_offset, l_len), oh)| Holder {
            exclusive,
            svid,
            oh,
            l_offset,
            l_len,
        },
    )
}

proptest! {
    #[test]
    fn calls_round_trip(call in call()) {
        check_message_with(&call, |d| Call::decode(call.procedure(), d));
    }

    #[test]
    fn results_round_trip(cookie in netobj(), stat in stats(), sequence: u32) {
        check_message(&Res { cookie, stat });
        check_message(&ShareRes { cookie, stat, sequence });
    }

    #[test]
    fn test_results_round_trip(cookie in netobj(), stat in stats(), holder in holder()) {
        let reply = match stat {
            Stats::Denied => TestReply::Denied(holder),
            stat => TestReply::Other(stat),
        };
        check_message(&TestRes { cookie, reply });
    }
}

#[test]
fn procedures_are_the_synchronous_ones() {
    for value in 0..30 {
        match Procedure::try_from(value) {
            Ok(procedure) => assert_eq!(procedure as u32, value),
            Err(_) => assert!(
                (6..=19).contains(&value) || value > 23,
                "{value} is not known"
            ),
        }
    }
}

#[test]
fn stats_are_0_to_9() {
    for value in 0_u32..20 {
        let decoded = decode_all::<Stats>(&value.to_be_bytes());
        assert_eq!(decoded.is_ok(), value < 10, "{value}");
    }
}

/// As the Linux client's lockd sends it for `flock(fd, LOCK_EX)`.
#[test]
fn lock_matches_the_specification() {
    let bytes = hex("00000004 01000000  00000001 00000001 \
         00000006 636c69656e740000  00000003 aabbcc00 \
         00000008 3140636c69656e74  00000001 \
         0000000000000000 0000000000000000  00000000 00000003");
    let expected = LockArgs {
        cookie: Netobj(&[1, 0, 0, 0]),
        block: true,
        exclusive: true,
        alock: Lock {
            caller_name: MachineName(b"client"),
            fh: Netobj(&[0xaa, 0xbb, 0xcc]),
            oh: Netobj(b"1@client"),
            svid: 1,
            l_offset: 0,
            l_len: 0,
        },
        reclaim: false,
        state: 3,
    };
    assert_eq!(decode_all::<LockArgs<'_>>(&bytes), Ok(expected));
    assert_eq!(encode_to_vec(&expected), bytes);

    let bytes = hex("00000004 01000000 00000002");
    let refused = Res {
        cookie: Netobj(&[1, 0, 0, 0]),
        stat: Stats::DeniedNolocks,
    };
    assert_eq!(decode_all::<Res<'_>>(&bytes), Ok(refused));
    assert_eq!(encode_to_vec(&refused), bytes);
}

#[test]
fn what_is_longer_than_the_specification_allows_is_refused() {
    for (len, is_taken) in [(1024_u32, true), (1025, false)] {
        let mut bytes = len.to_be_bytes().to_vec();
        bytes.resize(4 + 1028, 0);
        if is_taken {
            bytes.truncate(4 + 1024);
        }
        assert_eq!(decode_all::<Netobj<'_>>(&bytes).is_ok(), is_taken);
        assert_eq!(decode_all::<MachineName<'_>>(&bytes).is_ok(), is_taken);
    }
}
