//! Two kernel clients and the server's host insert rows into one SQLite database, all at once: none is lost, and the
//! database is sound.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use nfs_lab::{Running, output};

use super::{Bed, CLIENTS, Client};
use crate::host::Context;

/// How long a program waits for the others, in milliseconds.
const BUSY_MS: u32 = 120_000;
const GUEST_DEADLINE: Duration = Duration::from_secs(900);
const PROGRAM: &str = "sqlite3";
/// Name of the database in the export.
const DATABASE: &str = "rows.db";

pub(in super::super) fn run(context: &Context) -> Result<String> {
    let rows = match (context.quick, context.full) {
        (true, _) => 25,
        (_, true) => 1000,
        _ => 100,
    };
    let bed = Bed::new(context)?;
    let server = bed.start()?;
    let database = bed.export.join(DATABASE);
    let journal = ask(
        &database,
        "PRAGMA journal_mode=DELETE; CREATE TABLE rows(who TEXT, number INTEGER, PRIMARY KEY(who, number));",
    )?;
    ensure!(journal == "delete", "the journal's mode is {journal}");
    let names = CLIENTS.iter().map(|client| client.name).chain(["host"]);
    let names: Vec<_> = names.collect();
    let mut programs = Vec::new();
    for name in &names {
        programs.push(Program::new(&context.lab.dir, name, rows)?);
    }
    std::thread::scope(|scope| {
        let bed = &bed;
        let guests = CLIENTS.iter().zip(&programs);
        let guests = guests.map(|(client, program)| scope.spawn(|| program.in_guest(bed, client)));
        let guests: Vec<_> = guests.collect();
        let local = programs.last().context("the host's")?.here(&database);
        for guest in guests {
            guest.join().map_err(|_| anyhow!("it panicked"))??;
        }
        local
    })?;
    let mut acknowledged = 0;
    for program in &programs {
        acknowledged += program.acknowledged()?;
    }
    let sound = ask(&database, "PRAGMA integrity_check;")?;
    ensure!(sound == "ok", "integrity_check: {sound}");
    let found: usize = ask(&database, "SELECT count(*) FROM rows;")?.parse()?;
    ensure!(
        found == acknowledged,
        "{found} rows, and {acknowledged} were acknowledged"
    );
    let each = ask(&database, "SELECT count(*) FROM rows GROUP BY who;")?;
    let expected = vec![rows.to_string(); names.len()].join("\n");
    ensure!(each == expected, "rows of each: {each:?}");
    bed.end(server)?;
    Ok(format!("{found} rows of {} programs", names.len()))
}

/// What one program does, and what it has said.
struct Program {
    name: &'static str,
    statements: PathBuf,
    said: PathBuf,
}

impl Program {
    /// Writes down what it is to do: `rows` transactions, and a word after each.
    fn new(dir: &Path, name: &'static str, rows: usize) -> Result<Self> {
        let program = Self {
            name,
            statements: dir.join(format!("{name}.sql")),
            said: dir.join(format!("{name}.said")),
        };
        let mut statements = format!(".bail on\n.timeout {BUSY_MS}\n");
        for number in 0..rows {
            statements += &format!(
                "BEGIN IMMEDIATE; INSERT INTO rows VALUES('{name}', {number}); COMMIT;\n\
                 .print acknowledged {number}\n"
            );
        }
        fs::write(&program.statements, statements)?;
        Ok(program)
    }

    /// Runs it in a guest.
    fn in_guest(&self, bed: &Bed<'_>, client: &Client) -> Result<()> {
        let (statements, said) = (self.statements.display(), self.said.display());
        let script = format!(
            "{PROGRAM} /mnt/nfs/{DATABASE} <{statements} >{said} 2>&1 || \
             echo \"FAIL {PROGRAM}: $(tail -n 1 {said})\" >>$R\n"
        );
        bed.guest(client, &script, GUEST_DEADLINE, |_| Ok(()))?;
        Ok(())
    }

    /// Runs it on this machine.
    fn here(&self, database: &Path) -> Result<()> {
        let said = File::create(&self.said)?;
        let mut command = Command::new(PROGRAM);
        command.arg(database).stdin(File::open(&self.statements)?);
        command.stdout(said.try_clone()?).stderr(said);
        let status = Running::start(&mut command)?.wait(GUEST_DEADLINE)?;
        ensure!(
            status.success(),
            "{PROGRAM} on the host: {status}, {}",
            fs::read_to_string(&self.said)?
        );
        Ok(())
    }

    /// How many transactions were said to be done.
    fn acknowledged(&self) -> Result<usize> {
        let said = fs::read_to_string(&self.said)?;
        if let Some(other) = said.lines().find(|line| !line.starts_with("acknowledged ")) {
            bail!("{} says: {other}", self.name);
        }
        Ok(said.lines().count())
    }
}

/// What SQLite on this machine answers.
fn ask(database: &Path, statement: &str) -> Result<String> {
    let mut command = Command::new(PROGRAM);
    let said = output(command.arg(database).arg(statement).stdin(Stdio::null()))?;
    Ok(String::from_utf8(said)?.trim().to_owned())
}
