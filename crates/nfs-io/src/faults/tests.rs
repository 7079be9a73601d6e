use super::outside::rules;
use super::*;
use crate::fs;
use crate::testing::Scratch;

fn calls(file: impl AsFd, call: Call, mode: Mode, count: usize) -> Vec<Option<Fault>> {
    (0..count).map(|_| next(call, mode, file.as_fd())).collect()
}

#[test]
fn a_rule_meets_its_calls_and_no_others() {
    let scratch = Scratch::new();
    let (file, other) = (scratch.file("f", b"x"), scratch.file("g", b"x"));
    let again = scratch.open("f", fs::OFlags::RDONLY).unwrap();
    let fail = Fault::Fail(Errno::IO);
    let rule = Rule::new(Call::Write, fail).in_mode(Mode::Direct);
    let injected = rule.of_file(&file).from(2).times(2).inject();
    assert_eq!(calls(&other, Call::Write, Mode::Direct, 3), [None; 3]);
    assert_eq!(calls(&file, Call::Write, Mode::Buffered, 3), [None; 3]);
    assert_eq!(calls(&file, Call::Read, Mode::Direct, 3), [None; 3]);
    assert!(expected(Call::Write, again.as_fd()) && !expected(Call::Read, again.as_fd()));
    let met = calls(&again, Call::Write, Mode::Direct, 5);
    assert_eq!(met, [None, Some(fail), Some(fail), None, None]);
    assert_eq!(injected.hits(), 2);
    drop(injected);
    assert!(!expected(Call::Write, file.as_fd()));
}

#[test]
fn the_oldest_rule_that_applies_does() {
    let scratch = Scratch::new();
    let file = scratch.file("some-name", b"x");
    let (short, fail) = (Fault::Shorten(5), Fault::Fail(Errno::NOSPC));
    let rule = |fault| Rule::new(Call::Write, fault).of_name(b"some-name");
    let once = rule(short).times(1).inject();
    let then = rule(fail).inject();
    let met = calls(&file, Call::Write, Mode::Buffered, 3);
    assert_eq!(met, [Some(short), Some(fail), Some(fail)]);
    assert_eq!((once.hits(), then.hits()), (1, 2));
}

#[test]
fn a_shortened_transfer_moves_what_it_tells() {
    let short = Fault::Shorten(100);
    assert_eq!(short.asked(5000, Mode::Buffered), 100);
    assert_eq!(short.asked(50, Mode::Buffered), 50);
    assert_eq!(short.asked(8192, Mode::Direct), 4096);
    assert_eq!(short.told(Ok(4096)), Ok(100));
    assert_eq!(short.told(Ok(0)), Ok(0), "the end of the file stays it");
    assert_eq!(Fault::Shorten(0).asked(10, Mode::DontCache), 1);
}

#[test]
fn calls_outside_an_engine_meet_it_too() {
    let scratch = Scratch::new();
    let file = scratch.file("f", b"content");
    let mut buffer = [0; 7];
    let rules = [
        Rule::new(Call::Fsync, Fault::Fail(Errno::IO)).times(2),
        Rule::new(Call::OpenDirect, Fault::Fail(Errno::INVAL)),
        Rule::new(Call::Read, Fault::Shorten(1)),
    ];
    let injected = rules.map(|rule| rule.of_file(&file).inject());
    assert_eq!(fs::fsync(file.as_fd()), Err(Errno::IO));
    assert_eq!(fs::fdatasync(file.as_fd()), Err(Errno::IO));
    assert_eq!(fs::fsync(file.as_fd()), Ok(()));
    let direct = fs::reopen(file.as_fd(), fs::OFlags::RDONLY | fs::OFlags::DIRECT);
    assert_eq!(direct.err(), Some(Errno::INVAL));
    assert!(fs::reopen(file.as_fd(), fs::OFlags::RDONLY).is_ok());
    let cached = fs::pread_nowait(file.as_fd(), &mut buffer, 0, Mode::Buffered);
    assert_eq!(cached, Err(Errno::AGAIN));
    drop(injected);
    assert_eq!(fs::fsync(file.as_fd()), Ok(()));
}

#[test]
fn a_held_call_waits_until_the_pipe_is_closed() {
    let scratch = Scratch::new();
    let file = scratch.file("f", b"x");
    let fifo = scratch.path.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let rule = Rule::holding(Call::Fsync, fifo.clone());
    let injected = rule.of_file(&file).times(1).inject();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| fs::fsync(file.as_fd()));
        // Opens when the flush has come to the pipe.
        let held = std::fs::File::options().write(true).open(&fifo).unwrap();
        assert_eq!(injected.hits(), 1);
        assert!(!flush.is_finished());
        assert_eq!(fs::fsync(file.as_fd()), Ok(()), "others go on");
        drop(held);
        assert_eq!(flush.join().unwrap(), Ok(()));
    });
}

#[test]
fn rules_are_read_from_a_text() {
    let text = "# a comment\n\n call=write mode=direct file=log.0 fail=EINVAL nth=2\n\
                call=fsync times=1 fail=5\ncall=open-direct fail=ENOTBLK\ncall=read shorten=512\n\
                call=fsync hold=/some/fifo nth=4\n";
    let parsed: Vec<Rule> = rules(text).map(|rule| rule.unwrap()).collect();
    let seen: Vec<_> = parsed
        .iter()
        .map(|rule| {
            let met = rule.met.clone();
            (rule.call, met, rule.mode, rule.nth, rule.times)
        })
        .collect();
    let all = u64::MAX;
    let fail = |errno| Met::Fault(Fault::Fail(errno));
    let (short, hold) = (
        Met::Fault(Fault::Shorten(512)),
        Met::Hold("/some/fifo".into()),
    );
    let expected = [
        (Call::Write, fail(Errno::INVAL), Some(Mode::Direct), 2, all),
        (Call::Fsync, fail(Errno::IO), None, 1, 1),
        (Call::OpenDirect, fail(Errno::NOTBLK), None, 1, all),
        (Call::Read, short, None, 1, all),
        (Call::Fsync, hold, None, 4, all),
    ];
    assert_eq!(seen, expected);
    assert!(matches!(&parsed[0].file, Files::Named(name) if name == b"log.0"));
    for wrong in [
        "call=write",
        "fail=EIO",
        "call=unlink fail=EIO",
        "call=read fail=EWHAT",
        "call=read fail=0",
        "call=read fail",
        "call=read fail=EIO colour=red",
        "call=read fail=EIO mode=auto",
        "call=read shorten=-1",
        "call=read fail=EIO nth=",
    ] {
        assert!(rules(wrong).all(|rule| rule.is_err()), "{wrong}");
    }
}

#[test]
fn a_changed_text_begins_anew() {
    let scratch = Scratch::new();
    let file = scratch.file("f", b"x");
    let path = scratch.path.path().join("rules");
    let mut outside = Outside::new(path.clone());
    let mut met = |text: Option<&str>| {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        outside.refresh();
        first(
            &mut outside.active,
            Call::Fsync,
            Mode::Buffered,
            file.as_fd(),
        )
    };
    let io = Some(Met::Fault(Fault::Fail(Errno::IO)));
    assert_eq!(met(None), None, "no file, no rules");
    assert_eq!(met(Some("call=fsync fail=EIO times=1")), io);
    assert_eq!(
        met(Some("call=fsync fail=EIO times=1")),
        None,
        "unchanged: it was met"
    );
    assert_eq!(met(Some("call=fsync fail=EIO times=1\n# again")), io);
}
