//! `penstock top` in a terminal, as somebody uses it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{Server, ServerOptions, output};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::terminal::Terminal;
use super::{Load, export, until};
use crate::host::Context;

pub(in crate::scenarios) fn top(context: &Context) -> Result<String> {
    let lab = &context.lab;
    let (state, served) = (lab.dir.join("state"), export(&lab.dir, "served")?);
    let options = ServerOptions {
        more: &["--read", "buffered"],
        ..ServerOptions::default()
    };
    let server = Server::start(lab, &served, &state, &options)?;
    let address = server.address().to_string();
    let load = Load::start(&lab.program, &server, "");
    let script = format!(
        "'{}' top --state-dir '{}' --interval 0.5; echo left with $?; stty -a; exec sleep 1000",
        lab.program.display(),
        state.display()
    );
    let terminal = Terminal::open(&lab.dir.join("tmux"), &script)?;
    under_load(&terminal)?;
    change_a_mode(&terminal, &lab.program, &state)?;
    server.stop()?;
    shows(&terminal, "NO ANSWER")?;
    let again = ServerOptions {
        listen: address,
        ..ServerOptions::default()
    };
    let server = Server::start(lab, &served, &state, &again)?;
    until("figures of the server that came back", || {
        let text = terminal.text()?;
        Ok(if text.contains("NO ANSWER") {
            Err(text)
        } else {
            reading(&text)
        })
    })?;
    ways_out(&terminal, &script, lab.dir.as_path())?;
    scripts(&lab.program, &state)?;
    drop(load);
    server.stop()?;
    Ok("keys, a changed mode, a restart and four ways out".to_owned())
}

/// Waits until the text is on the screen.
fn shows(terminal: &Terminal, wanted: &str) -> Result<String> {
    until(wanted, || {
        let text = terminal.text()?;
        Ok(if text.contains(wanted) {
            Ok(text)
        } else {
            Err(text)
        })
    })
}

/// Leaves with Escape what shows this text, and waits until it has gone: a key that is read together with an Escape is
/// that key with Alt.
fn leave(terminal: &Terminal, shown: &str) -> Result<()> {
    terminal.keys(&["Escape"])?;
    until(&format!("end of {shown:?}"), || {
        let text = terminal.text()?;
        Ok(if text.contains(shown) {
            Err(text)
        } else {
            Ok(())
        })
    })
}

/// The rate of READs in the export's row, once there is one.
fn reading(text: &str) -> std::result::Result<String, String> {
    let row = text.lines().find(|line| line.starts_with("/ "));
    let rate = row.and_then(|row| row.split_whitespace().nth(4));
    match rate {
        Some(rate) if rate != "0" => Ok(rate.to_owned()),
        _ => Err(text.to_owned()),
    }
}

fn under_load(terminal: &Terminal) -> Result<()> {
    until("a rate of READs", || Ok(reading(&terminal.text()?)))?;
    let text = terminal.text()?;
    ensure!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    terminal.keys(&["3"])?;
    let row = until("the procedures", || {
        let text = terminal.text()?;
        // The title of the curve of READs begins with the same word, and has a rate behind it.
        let row = text.lines().find(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("READ") && ["3", "4"].map(Some).contains(&words.next())
        });
        Ok(row.map(str::to_owned).ok_or(text))
    })?;
    ensure!(
        row.contains("ms") || row.contains("us"),
        "a READ takes some time: {row}"
    );
    terminal.keys(&["2"])?;
    shows(terminal, "HELD BACK")?;
    terminal.keys(&["4"])?;
    shows(terminal, "buffered")?;
    terminal.keys(&["5"])?;
    shows(terminal, "UP TO")?;
    terminal.keys(&["1"])?;
    terminal.resize((150, 45))?;
    shows(terminal, "OTHER/s")?;
    terminal.resize((80, 24))?;
    terminal.keys(&["?"])?;
    shows(terminal, "Keys and figures")?;
    leave(terminal, "Keys and figures")?;
    terminal.keys(&["p"])?;
    shows(terminal, "PAUSED")?;
    terminal.keys(&["p", "/", "n", "o", "n", "e", "Enter"])?;
    shows(terminal, "Nothing here has that text")?;
    leave(terminal, "Nothing here has that text")?;
    shows(terminal, "WRITES").map(drop)
}

fn change_a_mode(terminal: &Terminal, program: &Path, state: &Path) -> Result<()> {
    ensure!(
        mode_of_reads(program, state)? == "buffered",
        "as the server was started"
    );
    terminal.keys(&["m"])?;
    shows(terminal, "READs are buffered now")?;
    terminal.keys(&["Down", "Down", "Enter"])?;
    shows(terminal, "Make READs direct?")?;
    ensure!(
        mode_of_reads(program, state)? == "buffered",
        "nothing is changed before the yes"
    );
    terminal.keys(&["y"])?;
    shows(terminal, "READs buffered -> direct")?;
    ensure!(mode_of_reads(program, state)? == "direct", "it is changed");
    Ok(())
}

fn mode_of_reads(program: &Path, state: &Path) -> Result<String> {
    let mut command = Command::new(program);
    command
        .args(["ctl", "--json", "--state-dir"])
        .arg(state)
        .arg("io");
    let answer: Value = serde_json::from_slice(&output(&mut command)?)?;
    let mode = answer[0]["now"]["read"].as_str();
    mode.map(str::to_owned).context("the mode of READs")
}

/// A way to have the program in a terminal end.
type Leave<'w> = &'w dyn Fn(&Terminal) -> Result<()>;

/// Ends it by SIGTERM, and others like it by SIGHUP, `q` and Ctrl-C: the terminal is as it was each time.
fn ways_out(first: &Terminal, script: &str, dir: &Path) -> Result<()> {
    signal(first, Signal::TERM)?;
    is_left(first, 130)?;
    let ways: [(&str, Leave<'_>, i32); 3] = [
        ("hup", &|terminal| signal(terminal, Signal::HUP), 130),
        ("quit", &|terminal| terminal.keys(&["q"]), 0),
        ("interrupt", &|terminal| terminal.keys(&["C-c"]), 0),
    ];
    for (name, leave, code) in ways {
        let terminal = Terminal::open(&dir.join(name), script)?;
        shows(&terminal, "penstock top")?;
        leave(&terminal).with_context(|| name.to_owned())?;
        is_left(&terminal, code).with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// Sends a signal to the program in the terminal, which is the only child of the shell there.
fn signal(terminal: &Terminal, signal: Signal) -> Result<()> {
    let shell = terminal.variable("pane_pid")?;
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"))?;
    let top = children.trim().parse().ok().and_then(Pid::from_raw);
    let top = top.with_context(|| format!("one child of the shell, not {children:?}"))?;
    Ok(kill_process(top, signal)?)
}

fn is_left(terminal: &Terminal, code: i32) -> Result<()> {
    let text = shows(terminal, "iexten")?;
    ensure!(text.contains(&format!("left with {code}")), "{text}");
    let flags: Vec<&str> = text.split_whitespace().collect();
    let is_cooked = ["icanon", "echo", "isig", "icrnl"];
    ensure!(
        is_cooked.iter().all(|flag| flags.contains(flag)),
        "not as it was: {text}"
    );
    ensure!(
        terminal.variable("alternate_on")? == "0",
        "still on the other screen"
    );
    ensure!(
        terminal.variable("cursor_flag")? == "1",
        "the cursor is hidden"
    );
    Ok(())
}

/// What scripts get.
fn scripts(program: &Path, state: &Path) -> Result<()> {
    let run = |flags: &[&str]| {
        let mut command = Command::new(program);
        command.arg("top").args(flags).arg("--state-dir").arg(state);
        output(&mut command)
    };
    let object: Value = serde_json::from_slice(&run(&["--json"])?)?;
    ensure!(object["exports"][0]["export"] == "/", "{object}");
    ensure!(
        object["all"]["operations"]
            .as_f64()
            .is_some_and(|rate| rate > 0.0),
        "{object}"
    );
    let page = String::from_utf8(run(&["--batch"])?)?;
    ensure!(!page.contains('\x1b') && page.contains("EXPORT"), "{page}");
    // No terminal: it says what to do instead.
    let done = Command::new(program)
        .arg("top")
        .arg("--state-dir")
        .arg(state)
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(
        done.status.code() == Some(2) && said.contains("--batch"),
        "{said}"
    );
    Ok(())
}
