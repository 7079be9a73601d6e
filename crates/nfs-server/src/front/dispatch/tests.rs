use super::*;

#[test]
fn what_every_call_keeps_in_mind_is_bounded() {
    const fn bytes<F: Future>(_: &impl Fn(Context, Call) -> F) -> usize {
        size_of::<F>()
    }
    type Compound<'a, F> =
        fn(&'a mut Context, &'a CallHeader<'a>, &'a [u8], Decoder<'a>, Option<Box<Apart>>) -> F;
    const fn bytes_of_compound<'a, F: Future>(_: Compound<'a, F>) -> usize {
        size_of::<F>()
    }
    let bytes = bytes(&answer);
    let most = limits::CALL_IN_PROGRESS_BYTES_MAX;
    assert!(bytes <= most, "{bytes} bytes of {most} for every call");
    let bytes = bytes_of_compound(compound);
    let more = limits::COMPOUND_IN_PROGRESS_BYTES_MAX;
    assert!(bytes <= more, "{bytes} bytes of {more} for a COMPOUND");
    let recorded = limits::CALL_RECORDED_BYTES_MAX;
    let all = most + more + recorded + limits::RECORD_BYTES_PER_PLACE;
    assert!(all <= limits::MEMORY_BYTES_PER_CALL_IN_FLIGHT as usize);
}

#[test]
fn a_long_record_takes_more_places() {
    let call = |len: usize| Call {
        record: vec![0; len],
        apart: None,
        reservation: None,
        first_bytes: 0,
    };
    for (len, places) in [(0, 1), (100, 1), (1024, 1), (1025, 2), (16 << 10, 16)] {
        assert_eq!(call(len).places(), places, "{len}");
    }
    let held = Call {
        reservation: nfs_io::Budget::new(1 << 20).try_reserve(64 << 10),
        ..call(64 << 10)
    };
    assert_eq!(held.places(), 1, "it is in the budget");
}

#[test]
fn a_version_that_is_not_answered_is_told_which_ones_are() {
    let all = Versions::ALL;
    assert_eq!(program(nfs3::PROGRAM, 3, all), Ok(Program::Nfs3));
    assert_eq!(program(wire_mount3::PROGRAM, 3, all), Ok(Program::Mount3));
    assert_eq!(program(wire_nlm4::PROGRAM, 4, all), Ok(Program::Nlm4));
    let mismatch = |low, high| Err(AcceptStat::ProgMismatch { low, high });
    assert_eq!(program(nfs3::PROGRAM, 2, Versions::V3), mismatch(3, 3));
    assert_eq!(program(nfs3::PROGRAM, 4, Versions::V3), mismatch(3, 3));
    assert_eq!(program(wire_nlm4::PROGRAM, 1, all), mismatch(4, 4));
    assert_eq!(program(100_000, 2, all), Err(AcceptStat::ProgUnavail));
    let without_v3 = Versions::ALL.without(Versions::V3);
    let mount = program(wire_mount3::PROGRAM, 3, without_v3);
    assert_eq!(mount, Err(AcceptStat::ProgUnavail));
}
