//! What the documents show is what happens: each page's commands are run as they stand, one after the other, in a
//! copy of this machine that has what the page speaks of. Configurations are checked, and of each line
//! that a page says its commands print, the words are looked for in a line that they do print; figures vary. What is not run stands in
//! [`pages`] with the reason, and a new block that is neither fails.

mod blocks;
mod pages;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use self::blocks::{Block, Language, words};
use self::pages::{GoingOn, NOT_PRINTED, NOT_RUN, PREPARED};
use super::machine_copy::MachineCopy;
use crate::host::Context;

/// How long the commands of one page may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs the blocks of all pages.
pub(super) fn run(context: &Context) -> Result<String> {
    let (mut commands, mut others) = (0, 0);
    for (number, (page, blocks)) in blocks::pages()?.iter().enumerate() {
        let run: Vec<&Block> = blocks.iter().filter(|block| is_run(page, block)).collect();
        if run.is_empty() {
            continue;
        }
        let name = format!("page-{number}");
        one(context, &name, page, &run).with_context(|| page.clone())?;
        let is_shell = |block: &&&Block| block.language == Language::Shell;
        let shell = run.iter().filter(is_shell).count();
        commands += shell;
        others += run.len() - shell;
    }
    Ok(format!(
        "{commands} blocks of commands were run, {others} of other kinds are as they are shown"
    ))
}

/// Whether a block is run, checked or compared.
fn is_run(page: &str, block: &Block) -> bool {
    let named = |list: &[(&str, &str, &str)]| {
        let mut found = list.iter();
        found.any(|(its, beginning, _)| *its == page && block.begins(beginning))
    };
    match block.language {
        Language::Shell | Language::Configuration => !named(NOT_RUN),
        Language::Text => !named(NOT_PRINTED),
        Language::Other => false,
    }
}

/// Runs the commands of one page, and compares what they print.
fn one(context: &Context, name: &str, page: &str, blocks: &[&Block]) -> Result<()> {
    let mut copy = MachineCopy::new(context, name)?;
    copy.give(&context.lab.program, "penstock")?;
    copy.give(&blocks::root(), "source")?;
    let configurations = of(blocks, Language::Configuration);
    for (number, block) in configurations.enumerate() {
        std::fs::write(copy.put(&format!("toml.{}", number + 1)), &block.text)?;
    }
    let ran = copy.run(&script(page, blocks), DEADLINE);
    let printed = std::fs::read_to_string(copy.put("printed")).unwrap_or_default();
    ran.with_context(|| format!("its commands printed {printed}"))?;
    let printed: Vec<Vec<&str>> = printed.lines().map(|line| words(line).collect()).collect();
    for block in of(blocks, Language::Text) {
        for line in block.text.lines() {
            let is_like = |other: &Vec<&str>| words(line).all(|word| other.contains(&word));
            ensure!(
                printed.iter().any(is_like),
                "the block in line {} has what no command of the page prints: {line}\n{printed:#?}",
                block.line
            );
        }
    }
    Ok(())
}

fn of<'a>(blocks: &'a [&Block], language: Language) -> impl Iterator<Item = &'a Block> {
    let its = move |block: &&&Block| block.language == language;
    blocks.iter().filter(its).copied()
}

/// What every page finds, what this one does, and its commands.
fn script(page: &str, blocks: &[&Block]) -> String {
    let prepared = PREPARED.iter().find(|prepared| prepared.page == page);
    let (before, going_on) = prepared.map_or(("", &[][..]), |it| (it.before, it.going_on));
    let mut script = format!("{}\n{before}\nexec > /run/given/printed\n", pages::COMMON);
    let mut configurations = 0;
    for block in blocks {
        match block.language {
            Language::Shell => {
                let _infallible = writeln!(script, ": {page}:{}", block.line);
                for line in block.text.lines() {
                    command(&mut script, line, going_on);
                }
            }
            Language::Configuration => {
                configurations += 1;
                let _infallible = writeln!(script, "check {configurations}");
            }
            Language::Text | Language::Other => {}
        }
    }
    script.push_str("end\n");
    script
}

/// A line as it stands; one that goes on runs beside those after it, until the next that does.
fn command(script: &mut String, line: &str, going_on: &[GoingOn]) {
    let bare = line.split("  #").next().unwrap_or(line).trim_end();
    let found = going_on.iter().find(|(begins, _)| bare == *begins);
    let _infallible = match found {
        None => writeln!(script, "{line}"),
        Some((_, until)) => writeln!(
            script,
            "end\n{bare} &\ngoing_on=$!\nuntil {until}; do kill -0 $going_on; sleep 0.1; done >&2"
        ),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exception_is_for_a_block_and_every_preparation_for_a_page() {
        let pages = blocks::pages().unwrap();
        let exists = |page: &str, beginning: &str, languages: &[Language]| {
            let mut blocks = pages.iter().filter(|(name, _)| name == page);
            blocks.any(|(_, blocks)| {
                let mut blocks = blocks.iter();
                blocks.any(|it| languages.contains(&it.language) && it.begins(beginning))
            })
        };
        for (page, beginning, reason) in NOT_RUN {
            let languages = [Language::Shell, Language::Configuration];
            assert!(exists(page, beginning, &languages), "{page}: {beginning}");
            assert!(!reason.is_empty(), "{page}: {beginning}");
        }
        for (page, beginning, reason) in NOT_PRINTED {
            assert!(
                exists(page, beginning, &[Language::Text]),
                "{page}: {beginning}"
            );
            assert!(!reason.is_empty(), "{page}: {beginning}");
        }
        for prepared in PREPARED {
            let page = prepared.page;
            assert!(
                exists(page, "", &[Language::Shell, Language::Configuration]),
                "{page}"
            );
            for (line, _) in prepared.going_on {
                let path = blocks::root().join(page);
                let text = std::fs::read_to_string(path).unwrap();
                assert!(text.contains(line), "{page}: {line}");
            }
        }
    }
}
