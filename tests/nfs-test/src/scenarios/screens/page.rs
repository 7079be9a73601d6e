//! The web page in Chromium, and who may ask for what it shows.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{Server, ServerOptions, output};
use serde_json::Value;

use super::{Load, export, until};
use crate::host::Context;

/// A name that would be markup, were it not shown as text.
const HOSTILE: &str = "/<img src=x onerror=document.title='taken'>";

pub(in crate::scenarios) fn page(context: &Context) -> Result<String> {
    let lab = &context.lab;
    let (plain, hostile) = (export(&lab.dir, "plain")?, export(&lab.dir, "hostile")?);
    let config = lab.dir.join("penstock.toml");
    let rules = "clients = [\"127.0.0.0/8\"]\n";
    let written = format!(
        "[server]\n[[export]]\npath = {plain:?}\npseudo = \"/plain\"\n{rules}\
         [[export]]\npath = {hostile:?}\npseudo = \"{HOSTILE}\"\n{rules}"
    );
    std::fs::write(&config, written)?;
    let options = ServerOptions {
        config: Some(config),
        more: &["--web", "127.0.0.1:0"],
        ..ServerOptions::default()
    };
    let server = Server::start(lab, &plain, &lab.dir.join("state"), &options)?;
    let url = server.said("web")?;
    let address = url
        .strip_prefix("http://")
        .and_then(|rest| rest.strip_suffix('/'));
    let address: SocketAddr = address.with_context(|| url.clone())?.parse()?;
    let load = Load::start(&lab.program, &server, "/plain");
    who_may_ask(address)?;
    let moments = until("three moments with READs", || {
        let told = told(address)?;
        let moments = told["moments"].as_array().map_or(&[][..], Vec::as_slice);
        let reading = moments
            .iter()
            .filter(|moment| moment["all"]["read"]["bytes"].as_f64() > Some(0.0));
        Ok(if reading.count() >= 3 {
            Ok(moments.len())
        } else {
            Err(told.to_string())
        })
    })?;
    let seen = in_chromium(&url, &lab.dir)?;
    drop(load);
    server.stop()?;
    Ok(format!(
        "{moments} moments were there when the page was opened, {seen} curves"
    ))
}

/// Sends one request as it is, and returns the answer's head and body.
fn http(address: SocketAddr, request: &str) -> Result<(String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8(answer)?;
    let parts = answer.split_once("\r\n\r\n");
    let (head, body) = parts.with_context(|| answer.clone())?;
    Ok((head.to_owned(), body.to_owned()))
}

fn told(address: SocketAddr) -> Result<Value> {
    let (_, body) = http(
        address,
        &format!("GET /live.json HTTP/1.1\r\nHost: {address}\r\n\r\n"),
    )?;
    Ok(serde_json::from_str(&body)?)
}

/// A page of another site gets nothing, by whatever name it has this machine's address.
fn who_may_ask(address: SocketAddr) -> Result<()> {
    for (request, host, status) in [
        ("GET / HTTP/1.1", address.to_string(), "200"),
        (
            "GET / HTTP/1.1",
            format!("localhost:{}", address.port()),
            "200",
        ),
        (
            "GET /live.json HTTP/1.1",
            "attacker.example".to_owned(),
            "421",
        ),
        (
            "GET / HTTP/1.1",
            format!("localhost.attacker.example:{}", address.port()),
            "421",
        ),
        ("POST /live.json HTTP/1.1", address.to_string(), "405"),
        ("GET /control HTTP/1.1", address.to_string(), "404"),
    ] {
        let request =
            format!("{request}\r\nHost: {host}\r\nOrigin: http://attacker.example\r\n\r\n");
        let (head, _) = http(address, &request)?;
        ensure!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {head}"
        );
        ensure!(
            !head.to_lowercase().contains("access-control"),
            "{request}: {head}"
        );
    }
    let (head, _) = http(
        address,
        &format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"),
    )?;
    for word in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "no-store",
        "nosniff",
    ] {
        ensure!(head.contains(word), "{word}: {head}");
    }
    Ok(())
}

/// The page without its scripts.
fn without_scripts(dom: &str) -> Result<String> {
    let mut kept = String::new();
    let mut rest = dom;
    while let Some((before, script)) = rest.split_once("<script") {
        kept.push_str(before);
        let behind = script.split_once("</script>");
        rest = behind.context("a script that does not end")?.1;
    }
    kept.push_str(rest);
    Ok(kept)
}

/// Opens the page, lets it look a few times, and reads what it made of it. Returns the number of curves.
fn in_chromium(url: &str, dir: &Path) -> Result<usize> {
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        // Without a screen there is nothing that it could draw with; as root it may not confine itself.
        "--disable-gpu",
        "--no-sandbox",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        // The page's clock: three looks of a second each.
        "--virtual-time-budget=3500",
        "--enable-logging=stderr",
        "--dump-dom",
    ]);
    command
        .arg(format!("--user-data-dir={}", dir.join("browser").display()))
        .arg(url);
    let log = dir.join("browser.log");
    command.stderr(std::fs::File::create(&log)?);
    let dom = String::from_utf8(output(&mut command).context("chromium")?)?;
    // The texts of the page's own script are not on the page.
    let dom = without_scripts(&dom)?;
    let log = std::fs::read_to_string(&log)?;
    for word in ["Refused to", "Uncaught", "Content Security Policy"] {
        ensure!(!log.contains(word), "the browser's log: {log}");
    }
    ensure!(
        dom.contains("<title>Penstock</title>"),
        "the title is taken: {dom}"
    );
    ensure!(!dom.contains("<img"), "a name became markup: {dom}");
    let shown = HOSTILE.replace('<', "&lt;").replace('>', "&gt;");
    ensure!(
        dom.contains(&format!("{shown}</td>")),
        "the name is not shown: {dom}"
    );
    ensure!(
        dom.contains("/plain</td>") && dom.contains(">READ</td>"),
        "no rows: {dom}"
    );
    ensure!(
        !dom.contains("no figures yet") && !dom.contains("no answer for"),
        "{dom}"
    );
    let tile = dom
        .split("<span>READ</span>")
        .next()
        .and_then(|before| before.rsplit("<b>").next());
    let rate = tile.and_then(|tile| tile.strip_suffix("</b>"));
    ensure!(
        rate.is_some_and(|rate| rate.ends_with("/s")),
        "no rate of READs: {rate:?}"
    );
    let curves = dom.matches("<path ").count();
    ensure!(curves >= 4, "{curves} curves: {dom}");
    Ok(curves)
}
