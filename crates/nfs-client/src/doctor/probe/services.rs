//! What answers on the server's host: the portmapper, NFS by version, MOUNT with its exports.

use nfs_wire::portmap::Mapping;

use crate::client::{Client, MountOptions};
use crate::connection::{ConnectOptions, Connection, Procedure, SourcePort, Target};
use crate::doctor::facts::{Answered, MountFound, Refusal, Registered, Services, VersionFound};
use crate::identity::Identity;
use crate::limits::{DOCTOR_PORTMAP_TIMEOUT, DOCTOR_PROGRAMS_MAX};
use crate::nfs3;
use crate::nfs4::{MinorVersion, Nfs4, Nfs4Error};
use crate::portmap::{self, Portmap};
use crate::url::{NfsUrl, Version};

/// Asks all of them. Returns as well where NFS answers; why it does not.
pub(super) async fn look(
    url: &NfsUrl,
    options: &MountOptions,
) -> (Services, Result<Target, Refusal>) {
    let portmap = registered(url, &options.connect).await;
    let connection = Client::nfs_program(url, options).await;
    let mut found = Vec::new();
    for version in [Version::V3, Version::V41, Version::V42] {
        let answer = match &connection {
            Ok(connection) => answers(connection, version, &options.identity).await,
            Err(error) => Err(Refusal::Call(error.to_string())),
        };
        found.push(VersionFound {
            version: version.word(),
            answer,
        });
    }
    let services = Services {
        portmap,
        nfs: found,
        mount: mount(url, options).await,
    };
    let place = connection.map(|connection| connection.target().clone());
    (
        services,
        place.map_err(|error| Refusal::Call(error.to_string())),
    )
}

/// What the portmapper of the host has registered over TCP.
async fn registered(url: &NfsUrl, options: &ConnectOptions) -> Answered<Vec<Registered>> {
    let options = ConnectOptions {
        source_port: SourcePort::Any,
        connect_timeout: options.connect_timeout.min(DOCTOR_PORTMAP_TIMEOUT),
        call_timeout: options.call_timeout.min(DOCTOR_PORTMAP_TIMEOUT),
        ..options.clone()
    };
    let target = Target::new(url.host.as_str(), portmap::PORT);
    let portmap = Portmap::connect(target, options).await?;
    let over_tcp = |mapping: &Mapping| mapping.protocol == portmap::IPPROTO_TCP;
    let registered = |mapping: Mapping| Registered {
        program: mapping.program,
        version: mapping.version,
        port: mapping.port,
    };
    let all = portmap.dump().await?.into_iter().filter(over_tcp);
    Ok(all.take(DOCTOR_PROGRAMS_MAX).map(registered).collect())
}

/// Whether a version of NFS answers: NULL, and for a minor version of NFSv4 a session that ends at once.
async fn answers(connection: &Connection, version: Version, identity: &Identity) -> Answered<()> {
    let null = Procedure {
        program: nfs3::PROGRAM,
        version: version.program_version(),
        number: 0,
    };
    connection.call(null, &Identity::none(), &()).await?;
    let minor = match version {
        Version::V3 => return Ok(()),
        Version::V41 | Version::V4 => MinorVersion::V1,
        Version::V42 => MinorVersion::V2,
    };
    let refusal = |error: Nfs4Error| Refusal::Call(error.to_string());
    let session = Nfs4::begin(connection.clone(), identity.clone(), minor).await;
    session.map_err(refusal)?.end().await.map_err(refusal)
}

async fn mount(url: &NfsUrl, options: &MountOptions) -> Answered<MountFound> {
    // MOUNT is NFSv3's, whatever version the URL names.
    let url = NfsUrl {
        version: Version::V3,
        ..url.clone()
    };
    let mount = Client::mount_program(&url, options)
        .await
        .map_err(|error| Refusal::Call(error.to_string()))?;
    mount.null().await?;
    let exports = mount.export().await.map(|mut exports| {
        exports.truncate(DOCTOR_PROGRAMS_MAX);
        exports
    });
    Ok(MountFound {
        port: mount.connection().target().port(),
        exports: exports.map_err(Refusal::from),
    })
}
