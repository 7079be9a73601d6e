//! `penstock doctor nfs://…`: the examination of a server, from asking to printing.

mod json;

use std::io::Write as _;
use std::time::Duration;

use nfs_client::NfsUrl;
use nfs_client::doctor::{Diagnosis, Verdict, diagnose, examine};

use super::{Args, page};
use crate::{exit, session};

/// How long a call waits for its answer unless --timeout says otherwise.
const WAIT_DEFAULT: Duration = Duration::from_secs(10);

impl Args {
    /// Examines a server; the exit status that it asks for.
    pub(super) fn server(&self, url: &NfsUrl, style: page::Style) -> anyhow::Result<u8> {
        let mut code = exit::USAGE;
        session::run(&self.common, async |session| {
            let mut options = session.mount_options().clone();
            if !self.common.has_timeout() {
                options.connect.call_timeout = WAIT_DEFAULT;
                options.connect.connect_timeout = options.connect.connect_timeout.min(WAIT_DEFAULT);
            }
            let stop = session.stop();
            let facts = examine(url, &options, self.read_only, stop.asked()).await;
            let diagnosis = diagnose(&facts);
            let mut out = std::io::stdout().lock();
            if self.common.json {
                writeln!(out, "{}", json::report(url, &facts, &diagnosis))?;
            } else {
                page::print_server(&mut out, style, &url.to_string(), &diagnosis)?;
            }
            code = match stop.is_set() {
                true => exit::INTERRUPTED,
                false => status(&diagnosis),
            };
            Ok(())
        })?;
        Ok(code)
    }
}

/// The exit status that one server asks for.
fn status(diagnosis: &Diagnosis) -> u8 {
    match diagnosis.verdict() {
        Verdict::Sound => 0,
        Verdict::Problem => 1,
        Verdict::Unexamined => exit::USAGE,
    }
}
