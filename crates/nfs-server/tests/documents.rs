//! The configurations that the documents show are ones that the server takes.

use std::path::Path;

use nfs_server::exports::config::Config;

/// The TOML blocks of a document, with their directories replaced by one that exists.
fn examples(document: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in document.lines() {
        match (&mut open, line.trim()) {
            (None, "```toml") => open = Some(String::new()),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some(block), line) if line.starts_with("path = ") => block.push_str("path = \"/\"\n"),
            (Some(block), line) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

#[test]
fn every_example_of_a_configuration_is_valid() {
    for name in ["docs/exports.md", "docs/io-modes.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name);
        let document = std::fs::read_to_string(&path).expect(name);
        let blocks = examples(&document);
        assert!(!blocks.is_empty(), "{name} shows no configuration");
        for block in blocks {
            if let Err(errors) = Config::parse(Path::new(name), &block) {
                panic!("{errors}\n{block}");
            }
        }
    }
}
