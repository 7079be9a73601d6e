// Penstock's own server, in this process: for tests, and for the examples in the documentation, which include this
// file as it is.

/// A server of an empty directory, on a free port of this machine. It ends with the process.
pub(crate) struct Served {
    /// The address of what it exports.
    pub(crate) url: nfs_client::NfsUrl,
    /// The directory that it exports.
    #[allow(
        dead_code,
        reason = "the examples look at the server over the network alone"
    )]
    pub(crate) files: tempfile::TempDir,
    _state: tempfile::TempDir,
}

impl Served {
    pub(crate) fn start() -> Self {
        use nfs_server::exports::config::{Config, ExportConfig, ServerConfig, SquashKind};

        // A server of this process has no umask any more.
        let directory = || {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            let made = tempfile::Builder::new().permissions(mode).tempdir();
            made.unwrap()
        };
        let (files, state) = (directory(), directory());
        let mut export = ExportConfig::new(files.path(), "/");
        for client in &mut export.clients {
            client.squash = SquashKind::None;
        }
        let server = ServerConfig {
            shards: Some(1),
            rpcbind: false,
            ..ServerConfig::default()
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("nfs://{}/", listener.local_addr().unwrap());
        let options = nfs_server::server::ServerOptions {
            config: Config::from_flags(server, vec![export]),
            state_dir: nfs_server::host::state_dir::StateDir::open(state.path()).unwrap(),
            listeners: vec![listener],
        };
        let server = nfs_server::server::Server::start(options).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        std::thread::spawn(move || runtime.block_on(server.run_until(std::future::pending())));
        Self {
            url: url.parse().unwrap(),
            files,
            _state: state,
        }
    }
}
