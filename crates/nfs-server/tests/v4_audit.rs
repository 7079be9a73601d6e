//! What the audit is told of operations of NFSv4 that set attributes: the same as of NFSv3's calls.

mod support;

use nfs_server::exports::Versions;
use nfs_server::exports::config::Audited;
use nfs_server::operate::control::{AuditEvent, AuditFollower, AuditLine};
use nfs_wire::nfs4::ops::{
    CreateArgs, CreateVerfAttr, Createhow4, Createtype4, Openflag4, SetattrArgs,
};
use nfs_wire::nfs4::{ArgOp, Attributes, Component4, ModeUmask4, Stateid4, Utf8str, Verifier4};
use support::v4::{Client, encoded, fattr, of_mode, open_args, putfh};
use support::{Served, block_on};

const WRITE: u32 = 2;

/// What was told so far. An operation is told of before it is answered.
fn told(follower: &mut AuditFollower) -> Vec<AuditEvent> {
    std::iter::from_fn(|| follower.at_once())
        .map(|line| match line {
            AuditLine::Event(event) => *event,
            AuditLine::Lost { lost } => panic!("{lost} lost"),
        })
        .collect()
}

/// Operation, name, and what it sets.
fn short(event: &AuditEvent) -> String {
    let ids = [event.owner, event.group].map(|id| id.map(|id| id.to_string()));
    let [owner, group] = ids;
    let size = event.size.map(|size| size.to_string());
    let fields = [
        ("", &event.name),
        ("mode ", &event.mode),
        ("owner ", &owner),
        ("group ", &group),
        ("size ", &size),
    ];
    let said = fields
        .iter()
        .filter_map(|(what, word)| Some(format!("{what}{}", word.as_ref()?)));
    let words: Vec<String> = [event.operation.clone()].into_iter().chain(said).collect();
    words.join(" ")
}

#[test]
fn what_an_operation_sets_is_told() {
    let served = Served::with(|config| {
        config.server.versions = Versions::ALL;
        config.exports[0].audit = Audited::Changes;
    });
    let mut follower = served.server.follow_audit().unwrap();
    block_on(async {
        let mut client = Client::new(&served, 2, b"auditor").await;
        let root = client.root().await;
        let (mode, umasked) = (
            of_mode(0o640),
            encoded(&Attributes {
                mode_umask: Some(ModeUmask4 {
                    mode: 0o666,
                    umask: 0o022,
                }),
                ..Attributes::default()
            }),
        );
        let hows = [
            (&b"guarded"[..], Createhow4::Guarded(fattr(&mode))),
            (b"unchecked", Createhow4::Unchecked(fattr(&umasked))),
            (
                b"exclusive",
                Createhow4::Exclusive41(CreateVerfAttr {
                    verf: Verifier4([7; 8]),
                    attrs: fattr(&mode),
                }),
            ),
        ];
        for (name, how) in hows {
            let open = open_args(name, WRITE, Openflag4::Create(how));
            client.open(&root, open).await.unwrap();
        }
        let make = ArgOp::Create(CreateArgs {
            objtype: Createtype4::Dir,
            objname: Component4(b"dir"),
            createattrs: fattr(&mode),
        });
        let dir = client.handle(vec![putfh(&root), make]).await;
        let set = encoded(&Attributes {
            mode: Some(0o711),
            owner: Some(Utf8str(b"1000")),
            owner_group: Some(Utf8str(b"1001")),
            ..Attributes::default()
        });
        let size = encoded(&Attributes {
            size: Some(7),
            ..Attributes::default()
        });
        for (object, set) in [(&dir, &set), (&dir, &size)] {
            let set = ArgOp::Setattr(SetattrArgs {
                stateid: Stateid4::ANONYMOUS,
                obj_attributes: fattr(set),
            });
            // Whether it may, or can, does not matter: who asks for what is told.
            client.status(vec![putfh(object), set]).await;
        }
    });
    let shown: Vec<String> = told(&mut follower).iter().map(short).collect();
    assert_eq!(
        shown,
        [
            "create guarded mode 0640",
            "create unchecked mode 0644",
            "create exclusive mode 0640",
            "mkdir dir mode 0640",
            "setattr mode 0711 owner 1000 group 1001",
            "setattr size 7",
        ]
    );
}
