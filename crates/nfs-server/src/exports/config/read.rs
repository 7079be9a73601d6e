//! From a TOML document to a [`Config`]: the sections, one function each.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use nfs_io::BusyPoll;
use toml::de::DeTable;

use super::io_policy::io_policy;
use super::problem::ConfigErrors;
use super::toml_section::{Findings, Item, Section};
use super::{
    ANONYMOUS_ID_DEFAULT, Access, Allowance, AuditTo, Audited, ClientConfig, Config, Confine,
    Durability, EngineChoice, ExportConfig, LogLevel, ServerConfig, SquashKind, Who,
    check_directory, check_pseudo, export_id, from_word, is_domain, loopback_nets, parse_http,
    parse_listen,
};
use crate::exports::policy::show_size;
use crate::exports::versions::{NfsVersion, Versions};
use crate::limits;

const TOP_KEYS: &[&str] = &["server", "export"];
const SERVER_KEYS: &[&str] = &[
    "listen",
    "state_dir",
    "versions",
    "lease_seconds",
    "grace_seconds",
    "engine",
    "memory",
    "shards",
    "busy_poll",
    "congestion_control",
    "helper_threads",
    "portmap",
    "rpcbind",
    "server_groups",
    "idmap_domain",
    "trust_loopback",
    "log",
    "log_json",
    "audit_to",
    "metrics",
    "web",
    "http_names",
    "status_group",
    "confine",
    "confine_beneath",
];
const EXPORT_KEYS: &[&str] = &[
    "path",
    "pseudo",
    "clients",
    "client",
    "access",
    "squash",
    "anonuid",
    "anongid",
    "privileged_port",
    "versions",
    "weight",
    "bytes_per_second",
    "calls_per_second",
    "durability",
    "stable_write_attributes",
    "crossmnt",
    "audit",
    "read",
    "write",
    "stable",
    "read_ahead",
    "staging",
    "reserve",
    "order",
    "splice",
    "auto",
    "hint",
    "rule",
];
const CLIENT_KEYS: &[&str] = &[
    "net",
    "access",
    "squash",
    "anonuid",
    "anongid",
    "privileged_port",
    "versions",
    "weight",
    "bytes_per_second",
    "calls_per_second",
];

/// Reads a whole configuration from `text`, and finds all that is wrong in it.
pub(super) fn config(file: &Path, text: &str) -> Result<Config, ConfigErrors> {
    let mut findings = Findings::new(text);
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        let span = error.span().unwrap_or(0..0);
        findings.add(
            &span,
            format!("this is not TOML: {}; mend the line", error.message()),
        );
    }
    // What was recovered from a broken document would only be reported as follow-up errors.
    if !syntax_errors.is_empty() {
        let problems = findings.finish();
        return Err(ConfigErrors {
            file: Some(file.to_owned()),
            problems,
        });
    }
    let top = Section::new("the file", document.get_ref(), TOP_KEYS, &mut findings);
    let server = match top.table("server", &mut findings) {
        Some(table) => server(table, &mut findings),
        None => ServerConfig::default(),
    };
    let (exports, client_lines) = all_exports(&top, &mut findings);
    if findings.is_empty() {
        return Ok(Config {
            file: Some(file.to_owned()),
            server,
            exports,
            remarks: findings.take_warnings(),
            client_lines,
        });
    }
    Err(ConfigErrors {
        file: Some(file.to_owned()),
        problems: findings.finish(),
    })
}

fn server(table: &DeTable<'_>, findings: &mut Findings<'_>) -> ServerConfig {
    let section = Section::new("[server]", table, SERVER_KEYS, findings);
    let default = ServerConfig::default();
    let count = |value: Option<u64>| value.and_then(|value| usize::try_from(value).ok());
    let shards = section.integer("shards", 1..=limits::SHARDS_MAX as u64, findings);
    let helpers = section.integer(
        "helper_threads",
        1..=limits::HELPER_THREADS_MAX as u64,
        findings,
    );
    let (lease_seconds, grace_seconds) = lease_and_grace(&section, findings);
    ServerConfig {
        lease_seconds,
        grace_seconds,
        listen: listen(&section, findings).unwrap_or(default.listen),
        state_dir: state_dir(&section, findings),
        versions: versions(&section, findings).unwrap_or(default.versions),
        engine: section
            .choice("engine", EngineChoice::WORDS, findings)
            .unwrap_or(default.engine),
        memory_bytes: memory(&section, findings).unwrap_or(default.memory_bytes),
        shards: count(shards),
        busy_poll: busy_poll(&section, findings),
        congestion_control: section
            .string("congestion_control", findings)
            .map(|item| item.value.to_owned()),
        helper_threads: count(helpers),
        portmap: section
            .boolean("portmap", findings)
            .unwrap_or(default.portmap),
        rpcbind: section
            .boolean("rpcbind", findings)
            .unwrap_or(default.rpcbind),
        server_groups: section
            .boolean("server_groups", findings)
            .unwrap_or(default.server_groups),
        idmap_domain: idmap_domain(&section, findings),
        trust_loopback: section
            .boolean("trust_loopback", findings)
            .unwrap_or(default.trust_loopback),
        log: section
            .choice("log", LogLevel::WORDS, findings)
            .unwrap_or(default.log),
        log_json: section
            .boolean("log_json", findings)
            .unwrap_or(default.log_json),
        audit_to: section
            .choice("audit_to", AuditTo::WORDS, findings)
            .unwrap_or(default.audit_to),
        metrics: http("metrics", &section, findings),
        web: http("web", &section, findings),
        http_names: http_names(&section, findings),
        status_group: status_group(&section, findings),
        confine: section
            .choice("confine", Confine::WORDS, findings)
            .unwrap_or(default.confine),
        confine_beneath: confine_beneath(&section, findings),
    }
}

fn http(key: &str, section: &Section<'_>, findings: &mut Findings<'_>) -> Option<SocketAddr> {
    let item = section.string(key, findings)?;
    match parse_http(item.value) {
        Ok(address) => Some(address),
        Err(message) => {
            findings.add(&item.span, message);
            None
        }
    }
}

/// The names of this server in HTTP requests: hosts' names, without ports.
fn http_names(section: &Section<'_>, findings: &mut Findings<'_>) -> Vec<String> {
    let Some(list) = section.strings("http_names", findings) else {
        return Vec::new();
    };
    let most = limits::HTTP_NAMES_MAX;
    if list.value.len() > most {
        let message = format!(
            "\"http_names\" has more than {most} names; leave out those that nobody asks by"
        );
        findings.add(&list.span, message);
    }
    for item in &list.value {
        if !is_domain(item.value, limits::HOST_NAME_BYTES_MAX) {
            let message = format!(
                "{:?} in \"http_names\" is no name of a host; write it as the address of a page has it, without a port, \
                 as \"nas.example.org\"",
                item.value
            );
            findings.add(&item.span, message);
        }
    }
    let names = list.value.iter().take(most);
    names.map(|item| item.value.to_owned()).collect()
}

fn status_group(section: &Section<'_>, findings: &mut Findings<'_>) -> Option<String> {
    let item = section.string("status_group", findings)?;
    let length = item.value.len();
    if length == 0 || length > limits::GROUP_NAME_BYTES_MAX || item.value.contains('\0') {
        let message = "\"status_group\" is no name of a group; write one that `getent group` shows, or its number";
        findings.add(&item.span, message);
    }
    Some(item.value.to_owned())
}

/// How long a lease and a grace period of NFSv4 last, in seconds.
fn lease_and_grace(section: &Section<'_>, findings: &mut Findings<'_>) -> (u32, u32) {
    let range = u64::from(limits::LEASE_SECONDS_MIN)..=u64::from(limits::LEASE_SECONDS_MAX);
    let seconds = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
    let lease = seconds(section.integer("lease_seconds", range.clone(), findings));
    let grace = seconds(section.integer("grace_seconds", range, findings));
    let lease = lease.unwrap_or(limits::LEASE_SECONDS_DEFAULT);
    let grace = grace.unwrap_or(lease);
    if grace < lease {
        findings.add(
            &section.span_of("grace_seconds"),
            format!(
                "\"grace_seconds\" is {grace}, less than the lease of {lease}: a client that renews in time would \
                 come back too late to reclaim; write {lease} or more, or a shorter \"lease_seconds\""
            ),
        );
    }
    (lease, grace)
}

fn confine_beneath(section: &Section<'_>, findings: &mut Findings<'_>) -> Vec<PathBuf> {
    let Some(list) = section.strings("confine_beneath", findings) else {
        return Vec::new();
    };
    if list.value.len() > limits::CONFINE_BENEATH_MAX {
        let most = limits::CONFINE_BENEATH_MAX;
        let message = format!("more than {most} directories; name one above them");
        findings.add(&list.span, message);
    }
    let mut places = Vec::new();
    for item in list.value {
        let path = PathBuf::from(item.value);
        if !path.is_absolute() {
            let message = format!("\"{}\" is relative; write it from the root", item.value);
            findings.add(&item.span, message);
        }
        places.push(path);
    }
    places
}

fn listen(section: &Section<'_>, findings: &mut Findings<'_>) -> Option<Vec<SocketAddr>> {
    let list = section.strings("listen", findings)?;
    if list.value.is_empty() {
        findings.add(
            &list.span,
            "\"listen\" is empty; write at least one \"ADDRESS:PORT\"",
        );
    }
    if list.value.len() > limits::LISTENERS_MAX {
        let most = limits::LISTENERS_MAX;
        findings.add(
            &list.span,
            format!("\"listen\" has more than {most} addresses; use fewer"),
        );
    }
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for item in list.value {
        let address = match parse_listen(item.value) {
            Ok(address) => address,
            Err(message) => {
                findings.add(&item.span, message);
                continue;
            }
        };
        match addresses
            .iter()
            .find(|earlier| listens_overlap(**earlier, address))
        {
            Some(earlier) if *earlier == address => {
                findings.add(&item.span, format!("{address} is listed twice; remove one"));
            }
            Some(earlier) => findings.add(
                &item.span,
                format!("{earlier} takes the port of {address} as well; remove one"),
            ),
            None => addresses.push(address),
        }
    }
    Some(addresses)
}

fn listens_overlap(left: SocketAddr, right: SocketAddr) -> bool {
    if left.port() == 0 || left.port() != right.port() || left.is_ipv4() != right.is_ipv4() {
        return left == right && left.port() != 0;
    }
    left.ip() == right.ip() || left.ip().is_unspecified() || right.ip().is_unspecified()
}

fn state_dir(section: &Section<'_>, findings: &mut Findings<'_>) -> Option<PathBuf> {
    let item = section.string("state_dir", findings)?;
    let path = PathBuf::from(item.value);
    if !path.is_absolute() {
        let message = format!(
            "state_dir \"{}\" is relative; write it from the root, as \"/var/lib/penstock/main\"",
            item.value
        );
        findings.add(&item.span, message);
    }
    Some(path)
}

/// The domain of the names of users and groups, as a host's name is written.
fn idmap_domain(section: &Section<'_>, findings: &mut Findings<'_>) -> Option<String> {
    let item = section.string("idmap_domain", findings)?;
    let domain = item.value;
    let most = limits::IDMAP_DOMAIN_BYTES_MAX;
    if !is_domain(domain, most) {
        let message = format!(
            "idmap_domain {domain:?} is no domain of letters, digits and hyphens between dots, of at most {most} \
             bytes; write what clients have as Domain in /etc/idmapd.conf, as \"example.org\""
        );
        findings.add(&item.span, message);
    }
    Some(domain.to_owned())
}

/// A list of versions of NFS, which is not to be empty.
fn versions(section: &Section<'_>, findings: &mut Findings<'_>) -> Option<Versions> {
    let list = section.strings("versions", findings)?;
    if list.value.is_empty() {
        let message = "\"versions\" is empty; write at least one, as [\"3\"]";
        findings.add(&list.span, message);
    }
    let mut versions = Versions::NONE;
    for item in list.value {
        match from_word(item.value, NfsVersion::WORDS) {
            Ok(version) => versions = versions.with(version),
            Err(message) => findings.add(&item.span, message),
        }
    }
    Some(versions)
}

/// How long shards poll before they sleep.
fn busy_poll(section: &Section<'_>, findings: &mut Findings<'_>) -> BusyPoll {
    let wanted = "a time in quotes, for example \"50us\", or \"auto\", or 0";
    let Some(item) = section.word_or_number("busy_poll", wanted, findings) else {
        return BusyPoll::AUTO;
    };
    item.value.parse().unwrap_or_else(|error| {
        findings.add(&item.span, format!("busy_poll: {error}"));
        BusyPoll::AUTO
    })
}

fn memory(section: &Section<'_>, findings: &mut Findings<'_>) -> Option<u64> {
    let item = section.size("memory", findings)?;
    if let Err(message) = super::check_memory(item.value) {
        findings.add(&item.span, message);
    }
    Some(item.value)
}

/// The exports, and of each the lines of its client rules.
fn all_exports(
    top: &Section<'_>,
    findings: &mut Findings<'_>,
) -> (Vec<ExportConfig>, Vec<Vec<usize>>) {
    let tables = top.tables("export", "[[export]]", findings);
    if tables.is_empty() && findings.is_empty() {
        findings
            .add_whole("nothing is exported; add a section [[export]] with path = \"/srv/data\"");
    }
    if tables.len() > limits::EXPORTS_MAX {
        let (found, most) = (tables.len(), limits::EXPORTS_MAX);
        findings.add_whole(format!(
            "{found} exports; at most {most} are served, use fewer"
        ));
        return (Vec::new(), Vec::new());
    }
    // Where each pseudo path was first used: by its text and by its id.
    let mut seen: Vec<(u32, String, usize)> = Vec::new();
    let mut exports = Vec::with_capacity(tables.len());
    let mut client_lines = Vec::with_capacity(tables.len());
    for table in tables {
        let Some((export, span, lines)) = export(&table, findings) else {
            continue;
        };
        let id = export_id(&export.pseudo);
        match seen.iter().find(|(other, _, _)| *other == id) {
            Some((_, pseudo, line)) if *pseudo == export.pseudo => findings.add(
                &span,
                format!("pseudo path \"{pseudo}\" is taken by line {line}; choose another"),
            ),
            Some((_, pseudo, line)) => findings.add(
                &span,
                format!(
                    "pseudo paths \"{}\" and \"{pseudo}\" (line {line}) get the same export id; \
                     change one of them",
                    export.pseudo
                ),
            ),
            None => seen.push((id, export.pseudo.clone(), findings.line(span.start))),
        }
        exports.push(export);
        client_lines.push(lines);
    }
    let clients = exports.iter().flat_map(|export| &export.clients);
    let names: BTreeSet<_> = clients.filter_map(|client| client.net.name()).collect();
    if names.len() > limits::CLIENT_NAMES_MAX {
        let (found, most) = (names.len(), limits::CLIENT_NAMES_MAX);
        findings.add_whole(format!(
            "{found} names of hosts and netgroups among the clients; at most {most} are looked up, use a netgroup or networks"
        ));
    }
    (exports, client_lines)
}

/// One export, with the place its pseudo path is written at and the lines of its client rules.
fn export(
    table: &Item<&DeTable<'_>>,
    findings: &mut Findings<'_>,
) -> Option<(ExportConfig, Range<usize>, Vec<usize>)> {
    let section = Section::new("[[export]]", table.value, EXPORT_KEYS, findings);
    let Some(path) = section.string("path", findings) else {
        if !table.value.contains_key("path") {
            findings.add(
                &table.span,
                "[[export]] has no path; add path = \"/srv/data\"",
            );
        }
        return None;
    };
    if let Err(message) = check_directory(Path::new(path.value)) {
        findings.add(&path.span, message);
    }
    let (pseudo, span) = match section.string("pseudo", findings) {
        Some(item) => {
            if let Err(message) = check_pseudo(item.value) {
                findings.add(&item.span, message);
            }
            (item.value, item.span)
        }
        None => (default_pseudo(path.value), path.span.clone()),
    };
    let clients = clients(&section, &table.span, findings);
    let lines = clients.iter().map(|rule| findings.line(rule.span.start));
    let lines = lines.collect();
    let durability = section.choice("durability", Durability::WORDS, findings);
    let attributes = section.boolean("stable_write_attributes", findings);
    let value = ExportConfig {
        stable_write_attributes: attributes.unwrap_or(true),
        clients: clients.into_iter().map(|rule| rule.value).collect(),
        durability: durability.unwrap_or(Durability::Sync),
        crossmnt: section.boolean("crossmnt", findings).unwrap_or(false),
        audit: section
            .choice("audit", Audited::WORDS, findings)
            .unwrap_or(Audited::Off),
        io: io_policy(&section, &table.span, findings),
        ..ExportConfig::new(path.value, pseudo)
    };
    Some((value, span, lines))
}

/// The directory's own path, less a slash at its end.
fn default_pseudo(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        trimmed => trimmed,
    }
}

/// The rules of an export: `[[export.client]]` sections first, then the list `clients`.
fn clients(
    section: &Section<'_>,
    export: &Range<usize>,
    findings: &mut Findings<'_>,
) -> Vec<Item<ClientConfig>> {
    let default = rule(section, &ClientConfig::default(), findings);
    let sections = section.tables("client", "[[export.client]]", findings);
    let list = section.strings("clients", findings);
    if list.is_none() && sections.is_empty() {
        return loopback_nets()
            .map(|net| Item {
                value: ClientConfig {
                    net: net.into(),
                    ..default.clone()
                },
                span: export.clone(),
            })
            .into();
    }
    let mut clients = Vec::new();
    for table in &sections {
        let section = Section::new("[[export.client]]", table.value, CLIENT_KEYS, findings);
        let rule = rule(&section, &default, findings);
        match section.string("net", findings) {
            Some(item) => clients.extend(client(&item, &rule, findings)),
            None if !table.value.contains_key("net") => {
                findings.add(
                    &table.span,
                    "[[export.client]] has no net; add net = \"10.0.0.0/8\"",
                );
            }
            None => {}
        }
    }
    if let Some(list) = list {
        if list.value.is_empty() && sections.is_empty() {
            let message = "\"clients\" is empty, so nobody could mount this; list a network";
            findings.add(&list.span, message);
        }
        for item in &list.value {
            clients.extend(client(item, &default, findings));
        }
    }
    if clients.len() > limits::CLIENT_RULES_PER_EXPORT_MAX {
        let most = limits::CLIENT_RULES_PER_EXPORT_MAX;
        findings.add(
            export,
            format!("more than {most} client rules; use wider networks"),
        );
    }
    clients
}

fn client(
    item: &Item<&str>,
    rule: &ClientConfig,
    findings: &mut Findings<'_>,
) -> Option<Item<ClientConfig>> {
    match item.value.parse::<Who>() {
        Ok(net) => Some(Item {
            value: ClientConfig {
                net,
                ..rule.clone()
            },
            span: item.span.clone(),
        }),
        Err(message) => {
            findings.add(&item.span, message);
            None
        }
    }
}

/// The keys that an export and its client sections share; `default` stands for absent ones.
fn rule(
    section: &Section<'_>,
    default: &ClientConfig,
    findings: &mut Findings<'_>,
) -> ClientConfig {
    let mut id = |key: &str, default: u32| {
        // 4294967295 is no id: the kernel takes it for "leave as it is".
        let value = section.integer(key, 0..=u64::from(u32::MAX - 1), findings);
        value
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or(default)
    };
    let anonuid = id("anonuid", default.anonuid);
    let anongid = id("anongid", default.anongid);
    ClientConfig {
        net: default.net.clone(),
        access: section
            .choice("access", Access::WORDS, findings)
            .unwrap_or(default.access),
        squash: section
            .choice("squash", SquashKind::WORDS, findings)
            .unwrap_or(default.squash),
        anonuid,
        anongid,
        privileged_port: section
            .boolean("privileged_port", findings)
            .unwrap_or(default.privileged_port),
        versions: versions(section, findings).unwrap_or(default.versions),
        allowance: allowance(section, default.allowance, findings),
    }
}

fn allowance(section: &Section<'_>, default: Allowance, findings: &mut Findings<'_>) -> Allowance {
    let weight = section.integer("weight", 1..=limits::WEIGHT_MAX.into(), findings);
    let weight = weight.and_then(|weight| u32::try_from(weight).ok());
    let least = limits::RATE_BYTES_PER_SECOND_MIN;
    let bytes = section.size("bytes_per_second", findings);
    if let Some(bytes) = &bytes
        && bytes.value < least
    {
        let message = format!(
            "\"bytes_per_second\" is {}; write at least {}, so that one call does not take minutes",
            bytes.value,
            show_size(least)
        );
        findings.add(&bytes.span, message);
    }
    let calls = section.integer(
        "calls_per_second",
        1..=limits::RATE_CALLS_PER_SECOND_MAX,
        findings,
    );
    Allowance {
        weight: weight.unwrap_or(default.weight),
        bytes_per_second: bytes.map(|bytes| bytes.value).or(default.bytes_per_second),
        calls_per_second: calls.or(default.calls_per_second),
    }
}

const _: () = assert!(ANONYMOUS_ID_DEFAULT < u32::MAX);
