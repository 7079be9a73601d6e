//! Messages of foreign clients and servers decode, and encode to the same bytes. Where they come from
//! is written in `tests/vectors/README.md`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use nfs_wire::auth::{AUTH_SYS, OpaqueAuth};
use nfs_wire::nfs3::{self, Failure, Nfsstat3, PostOpAttr, WccData};
use nfs_wire::nfs4::{self, ArgOp, MinorVersion, Nfsstat4, ResOp};
use nfs_wire::rpc::{AcceptStat, CallHeader, ReplyBody, ReplyHeader};
use nfs_wire::{
    Decode, Decoder, Encode, Encoder, decode_all, encode_to_vec, mount3, portmap, rpcbind,
};

/// A call and its reply.
struct Pair {
    name: String,
    call: Vec<u8>,
    reply: Vec<u8>,
}

fn pairs() -> Vec<Pair> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "bin") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
    let names: Vec<String> = files
        .keys()
        .filter_map(|name| name.strip_suffix("-call").map(str::to_owned))
        .collect();
    let pairs: Vec<Pair> = names
        .into_iter()
        .map(|name| Pair {
            call: files.remove(&format!("{name}-call")).unwrap(),
            reply: files.remove(&format!("{name}-reply")).unwrap(),
            name,
        })
        .collect();
    assert!(
        files.is_empty(),
        "replies without a call: {:?}",
        files.keys()
    );
    pairs
}

fn pair(name: &str) -> Pair {
    let found = pairs().into_iter().find(|pair| pair.name == name);
    found.unwrap_or_else(|| panic!("there is no {name}"))
}

#[test]
fn calls_encode_to_the_same_bytes() {
    for pair in &pairs() {
        let mut d = Decoder::new(&pair.call);
        let header = CallHeader::decode(&mut d).unwrap();
        let mut again = encode_to_vec(&header);
        check_credential(&header.credential);
        let mut e = Encoder::new(&mut again);
        match (header.program, header.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => {
                let procedure = header.procedure.try_into().unwrap();
                nfs3::Call::decode(procedure, &mut d)
                    .unwrap()
                    .encode(&mut e);
            }
            (nfs4::PROGRAM, nfs4::VERSION) => {
                assert_eq!(header.procedure, nfs4::PROC_COMPOUND);
                let args = nfs4::CompoundArgs::decode(&mut d).unwrap();
                args.encode(&mut e);
            }
            (mount3::PROGRAM, mount3::VERSION) => {
                let procedure = header.procedure.try_into().unwrap();
                mount3::Call::decode(procedure, &mut d)
                    .unwrap()
                    .encode(&mut e);
            }
            (portmap::PROGRAM, portmap::VERSION) => {
                let procedure = header.procedure.try_into().unwrap();
                portmap::Call::decode(procedure, &mut d)
                    .unwrap()
                    .encode(&mut e);
            }
            (rpcbind::PROGRAM, rpcbind::VERSION_3 | rpcbind::VERSION_4) => {
                let procedure = header.procedure.try_into().unwrap();
                rpcbind::Call::decode(procedure, &mut d)
                    .unwrap()
                    .encode(&mut e);
            }
            (200_000, 1) | (nfs3::PROGRAM, 9) => {}
            other => panic!("{}: program and version {other:?}", pair.name),
        }
        d.finish().unwrap();
        assert_eq!(again, pair.call, "{}", pair.name);
    }
}

fn check_credential(credential: &OpaqueAuth<'_>) {
    if credential.flavor == AUTH_SYS {
        let parms = credential.auth_sys().unwrap();
        assert_eq!((parms.uid, parms.gid), (0, 0));
        assert_eq!(encode_to_vec(&parms), credential.body);
    }
}

#[test]
fn replies_encode_to_the_same_bytes() {
    for pair in &pairs() {
        let mut d = Decoder::new(&pair.reply);
        let header = ReplyHeader::decode(&mut d).unwrap();
        let mut again = encode_to_vec(&header);
        let call = CallHeader::decode(&mut Decoder::new(&pair.call)).unwrap();
        assert_eq!(header.xid, call.xid, "{}", pair.name);
        match header.body {
            ReplyBody::Accepted {
                stat: AcceptStat::Success,
                ..
            } => {
                again.extend(results(&call, d.rest()));
            }
            ReplyBody::Accepted { .. } | ReplyBody::Denied(_) => d.finish().unwrap(),
        }
        assert_eq!(again, pair.reply, "{}", pair.name);
    }
}

/// Decodes the results of a call and encodes them again.
fn results(call: &CallHeader<'_>, bytes: &[u8]) -> Vec<u8> {
    match (call.program, call.version) {
        (nfs4::PROGRAM, nfs4::VERSION) => again::<nfs4::CompoundRes<'_>>(bytes),
        (nfs3::PROGRAM, _) => nfs3_results(call.procedure.try_into().unwrap(), bytes),
        (mount3::PROGRAM, _) => match call.procedure.try_into().unwrap() {
            mount3::Procedure::Mnt => again::<mount3::MntRes>(bytes),
            mount3::Procedure::Dump => again::<mount3::MountList<'_>>(bytes),
            mount3::Procedure::Export => again::<mount3::ExportList<'_>>(bytes),
            mount3::Procedure::Null | mount3::Procedure::Umnt | mount3::Procedure::Umntall => {
                again::<()>(bytes)
            }
        },
        (portmap::PROGRAM, portmap::VERSION) => match call.procedure.try_into().unwrap() {
            portmap::Procedure::Null => again::<()>(bytes),
            portmap::Procedure::Set | portmap::Procedure::Unset => again::<bool>(bytes),
            portmap::Procedure::Getport => again::<u32>(bytes),
            portmap::Procedure::Dump => again::<portmap::MappingList>(bytes),
        },
        _ => match call.procedure.try_into().unwrap() {
            rpcbind::Procedure::Null => again::<()>(bytes),
            rpcbind::Procedure::Set | rpcbind::Procedure::Unset => again::<bool>(bytes),
            rpcbind::Procedure::Getaddr | rpcbind::Procedure::Getversaddr => {
                again::<rpcbind::UniversalAddress<'_>>(bytes)
            }
            rpcbind::Procedure::Dump => again::<rpcbind::RpcbList<'_>>(bytes),
        },
    }
}

type Res<O, F> = Result<O, Failure<F>>;

fn nfs3_results(procedure: nfs3::Procedure, bytes: &[u8]) -> Vec<u8> {
    use nfs3::Procedure;
    match procedure {
        Procedure::Null => again::<()>(bytes),
        Procedure::Getattr => again::<Res<nfs3::GetattrOk, ()>>(bytes),
        Procedure::Setattr | Procedure::Remove | Procedure::Rmdir => {
            again::<Res<nfs3::RemoveOk, WccData>>(bytes)
        }
        Procedure::Lookup => again::<Res<nfs3::LookupOk, PostOpAttr>>(bytes),
        Procedure::Access => again::<Res<nfs3::AccessOk, PostOpAttr>>(bytes),
        Procedure::Readlink => again::<Res<nfs3::ReadlinkOk<'_>, PostOpAttr>>(bytes),
        Procedure::Read => again::<Res<nfs3::ReadOk<'_>, PostOpAttr>>(bytes),
        Procedure::Write => again::<Res<nfs3::WriteOk, WccData>>(bytes),
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            again::<Res<nfs3::CreateOk, WccData>>(bytes)
        }
        Procedure::Rename => again::<Res<nfs3::RenameBody, nfs3::RenameBody>>(bytes),
        Procedure::Link => again::<Res<nfs3::LinkBody, nfs3::LinkBody>>(bytes),
        Procedure::Readdir => again::<Res<nfs3::ReaddirOk<'_>, PostOpAttr>>(bytes),
        Procedure::Readdirplus => again::<Res<nfs3::ReaddirplusOk<'_>, PostOpAttr>>(bytes),
        Procedure::Fsstat => again::<Res<nfs3::FsstatOk, PostOpAttr>>(bytes),
        Procedure::Fsinfo => again::<Res<nfs3::FsinfoOk, PostOpAttr>>(bytes),
        Procedure::Pathconf => again::<Res<nfs3::PathconfOk, PostOpAttr>>(bytes),
        Procedure::Commit => again::<Res<nfs3::CommitOk, WccData>>(bytes),
    }
}

fn again<'a, T: Decode<'a> + Encode + Debug>(bytes: &'a [u8]) -> Vec<u8> {
    encode_to_vec(&decode_all::<T>(bytes).unwrap())
}

/// The results in a reply.
fn results_of<'a, T: Decode<'a>>(reply: &'a [u8]) -> T {
    let mut d = Decoder::new(reply);
    let header = ReplyHeader::decode(&mut d).unwrap();
    assert_eq!(
        header,
        ReplyHeader::accepted(header.xid, AcceptStat::Success)
    );
    decode_all(d.rest()).unwrap()
}

/// The arguments in a call of NFSv3.
fn nfs3_call_of(call: &[u8]) -> nfs3::Call<'_> {
    let mut d = Decoder::new(call);
    let header = CallHeader::decode(&mut d).unwrap();
    nfs3::Call::decode(header.procedure.try_into().unwrap(), &mut d).unwrap()
}

#[test]
fn every_procedure_of_nfs3_is_there() {
    let pairs = pairs();
    for procedure in nfs3::Procedure::ALL {
        let prefix = format!("nfs3-{}", procedure.name().to_lowercase());
        let of_procedure = |pair: &&Pair| {
            let rest = pair.name.strip_prefix(&prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        assert!(pairs.iter().any(|pair| of_procedure(&pair)), "{prefix}");
    }
}

#[test]
fn attributes_mean_what_the_server_meant() {
    let pair = pair("nfs3-mknod-character");
    let ok: Res<nfs3::CreateOk, WccData> = results_of(&pair.reply);
    let ok = ok.unwrap();
    let attributes = ok.obj_attributes.unwrap();
    assert_eq!(attributes.ftype, nfs3::Ftype3::Chr);
    assert_eq!(attributes.mode, 0o666);
    assert_eq!((attributes.rdev.major, attributes.rdev.minor), (1, 3));
    assert_eq!(
        (attributes.nlink, attributes.uid, attributes.gid),
        (1, 0, 0)
    );
    let (before, after) = (ok.dir_wcc.before.unwrap(), ok.dir_wcc.after.unwrap());
    assert_eq!(after.ftype, nfs3::Ftype3::Dir);
    assert_eq!(before.size, after.size);
    assert!(before.mtime < after.mtime);
}

#[test]
fn entries_mean_what_the_server_meant() {
    let pair = pair("nfs3-readdirplus");
    let ok: Res<nfs3::ReaddirplusOk<'_>, PostOpAttr> = results_of(&pair.reply);
    let ok = ok.unwrap();
    assert!(ok.eof);
    let mut names: Vec<&[u8]> = ok.entries.iter().map(|plus| plus.entry.name.0).collect();
    names.sort_unstable();
    let expected: [&[u8]; 10] = [
        b".",
        b"..",
        b"block",
        b"exclusive",
        b"fifo",
        b"hello",
        b"null",
        b"socket",
        b"symlink",
        b"unchecked",
    ];
    assert_eq!(names, expected);
    for plus in &ok.entries {
        let attributes = plus.name_attributes.unwrap();
        assert_eq!(attributes.fileid, plus.entry.fileid);
        assert!(plus.name_handle.is_some());
    }
}

#[test]
fn data_means_what_the_peers_meant() {
    let write = pair("nfs3-write-unstable");
    let nfs3::Call::Write(args) = nfs3_call_of(&write.call) else {
        panic!("not a WRITE");
    };
    assert_eq!(args.data, b"some text of a foreign client\n");
    assert_eq!((args.offset, args.count), (0, 30));
    assert_eq!(args.stable, nfs3::StableHow::Unstable);

    let read = pair("nfs3-read");
    let ok: Res<nfs3::ReadOk<'_>, PostOpAttr> = results_of(&read.reply);
    let ok = ok.unwrap();
    assert_eq!(ok.data, args.data);
    assert!(ok.eof);
}

#[test]
fn failures_mean_what_the_server_meant() {
    let noent = pair("nfs3-lookup-noent");
    let result: Res<nfs3::LookupOk, PostOpAttr> = results_of(&noent.reply);
    let failure = result.unwrap_err();
    assert_eq!(failure.status, Nfsstat3::Noent);
    assert_eq!(failure.body.unwrap().ftype, nfs3::Ftype3::Dir);

    let acces = pair("mount3-mnt-acces");
    let result: mount3::MntRes = results_of(&acces.reply);
    assert_eq!(result, Err(mount3::Mountstat3::Acces));
}

#[test]
fn first_steps_mean_what_the_server_meant() {
    let port: u32 = results_of(&pair("portmap-getport").reply);
    assert_eq!(port, 20_048);

    let reply = pair("rpcbind4-getaddr").reply;
    let address: rpcbind::UniversalAddress<'_> = results_of(&reply);
    assert_eq!(
        address.socket_addr(),
        Some("127.0.0.1:20048".parse().unwrap())
    );

    let reply = pair("mount3-export").reply;
    let exports: mount3::ExportList<'_> = results_of(&reply);
    let [export] = exports.0.as_slice() else {
        panic!("one export")
    };
    assert_eq!(export.directory, mount3::Dirpath(b"/srv/export"));
    let groups = [mount3::Name(b"127.0.0.1/32"), mount3::Name(b"192.0.2.0/24")];
    assert_eq!(export.groups, groups);

    let mounted: mount3::MntRes = results_of(&pair("mount3-mnt").reply);
    assert_eq!(mounted.unwrap().auth_flavors, [1, 0]);
}

#[test]
fn refusals_mean_what_the_server_meant() {
    for (name, expected) in [
        ("rpc-prog-unavail", AcceptStat::ProgUnavail),
        (
            "rpc-prog-mismatch",
            AcceptStat::ProgMismatch { low: 3, high: 4 },
        ),
    ] {
        let reply = pair(name).reply;
        let header: ReplyHeader<'_> = decode_all(&reply).unwrap();
        assert_eq!(header, ReplyHeader::accepted(header.xid, expected));
    }
}

/// The arguments in a call of NFSv4.
fn compound_of(call: &[u8]) -> nfs4::CompoundArgs<'_> {
    let mut d = Decoder::new(call);
    CallHeader::decode(&mut d).unwrap();
    nfs4::CompoundArgs::decode(&mut d).unwrap()
}

fn nfs4_pairs() -> Vec<Pair> {
    let mut pairs = pairs();
    pairs.retain(|pair| pair.name.starts_with("nfs4"));
    assert!(pairs.len() > 30);
    pairs
}

#[test]
fn compounds_of_linux_are_good_to_their_end() {
    for pair in nfs4_pairs() {
        let mut d = Decoder::new(&pair.call);
        CallHeader::decode(&mut d).unwrap();
        let compound = nfs4::Compound::decode(&mut d).unwrap();
        let minor = MinorVersion::try_from(compound.minorversion).unwrap();
        let scan = compound.scan(minor);
        assert_eq!((scan.bad, scan.trailing), (None, 0), "{}", pair.name);
        assert_eq!(scan.good, compound.announced);
        // Linux's server answers with no more than is reckoned with here, but for the names of owners.
        let reply = &pair.reply[24 + 12..];
        let results = compound.ops(minor).flatten();
        let results: usize = results.map(|op| op.reply_len_max()).sum();
        assert!(reply.len() <= results, "{}", pair.name);
    }
}

#[test]
fn attributes_of_linux_encode_to_the_same_values() {
    let mut seen = 0;
    for pair in nfs4_pairs() {
        let res: nfs4::CompoundRes<'_> = results_of(&pair.reply);
        let attributes = res.resarray.iter().flat_map(|result| match result {
            ResOp::Getattr(Ok(ok)) => vec![ok.obj_attributes],
            ResOp::Readdir(Ok(ok)) => ok.entries.iter().map(|entry| entry.attrs).collect(),
            _ => Vec::new(),
        });
        for fattr in attributes {
            let values = fattr.decode_values().unwrap();
            assert_eq!(
                encode_to_vec(&values),
                encode_to_vec(&fattr),
                "{}",
                pair.name
            );
            seen += 1;
        }
    }
    assert!(seen > 20);
}

#[test]
fn the_head_of_a_write_of_linux_is_found() {
    for (name, has_sequence) in [
        ("nfs40-write-file-sync", false),
        ("nfs41-write-file-sync", true),
        ("nfs42-write-file-sync", true),
    ] {
        let call = pair(name).call;
        let mut d = Decoder::new(&call);
        CallHeader::decode(&mut d).unwrap();
        let head = nfs4::WriteHead::find(&mut d, Some(call.len())).unwrap();
        let head = head.unwrap();
        assert_eq!(head.sequence.is_some(), has_sequence);
        let args = compound_of(&call);
        let write = args.argarray.iter().find_map(|op| match op {
            ArgOp::Write(write) => Some(write),
            _ => None,
        });
        let write = write.unwrap();
        assert_eq!(head.stateid, write.stateid);
        assert_eq!((head.offset, head.stable), (write.offset, write.stable));
        assert_eq!(head.data_len as usize, write.data.len());
    }
}

#[test]
fn a_mount_means_what_linux_meant() {
    let call = pair("nfs41-exchange-id").call;
    let args = compound_of(&call);
    let [ArgOp::ExchangeId(exchange)] = args.argarray.as_slice() else {
        panic!("EXCHANGE_ID alone");
    };
    assert_eq!(exchange.clientowner.ownerid.0, b"Linux NFSv4.1 localhost");
    assert_eq!(
        exchange.flags & !nfs4::ops::EXCHGID4_FLAG_MASK_A,
        0,
        "a client sends what a client may"
    );
    let id = exchange.client_impl_id.unwrap();
    assert_eq!(id.domain.0, b"kernel.org");

    let call = pair("nfs41-create-session").call;
    let args = compound_of(&call);
    let [ArgOp::CreateSession(create)] = args.argarray.as_slice() else {
        panic!("CREATE_SESSION alone");
    };
    assert_eq!(create.fore_chan_attrs.maxoperations, 8);
    assert_eq!(create.cb_program, nfs4::CALLBACK_PROGRAM);
    assert!(matches!(
        create.sec_parms.as_slice(),
        [nfs4::ops::CallbackSecParms4::Sys(_)]
    ));
}

#[test]
fn entries_of_nfs4_mean_what_the_server_meant() {
    let reply = pair("nfs42-readdir").reply;
    let res: nfs4::CompoundRes<'_> = results_of(&reply);
    let Some(ResOp::Readdir(Ok(ok))) = res.resarray.last() else {
        panic!("READDIR last");
    };
    assert!(ok.eof && !ok.entries.is_empty());
    for entry in &ok.entries {
        let values = entry.attrs.decode_values().unwrap();
        assert!(values.fileid.is_some() && values.filehandle.is_some());
        assert_eq!(values.rdattr_error, Some(Nfsstat4::Ok), "{:?}", entry.name);
    }
}

#[test]
fn a_failure_of_nfs4_ends_its_compound() {
    let reply = pair("nfs41-lookup-noent").reply;
    let res: nfs4::CompoundRes<'_> = results_of(&reply);
    assert_eq!(res.status, Nfsstat4::Noent);
    let statuses: Vec<_> = res.resarray.iter().map(ResOp::status).collect();
    assert_eq!(statuses, [Nfsstat4::Ok, Nfsstat4::Ok, Nfsstat4::Noent]);
}
