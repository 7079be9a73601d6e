//! The measurements that the documents name are ones that can be made: each command is read with all its options, and
//! not carried out.

use std::path::Path;
use std::process::Command;

/// The commands `cargo xtask bench ...` of a document, in blocks and in code spans, without those words.
fn commands(document: &str) -> Vec<String> {
    let spans = document.split('`').flat_map(|span| {
        // A span may go on in the next line; a block has a command a line.
        let is_block = span.starts_with("sh\n");
        let lines: Vec<String> = match is_block {
            true => span.lines().map(str::to_owned).collect(),
            false => vec![span.split_whitespace().collect::<Vec<_>>().join(" ")],
        };
        lines
    });
    let commands =
        spans.filter_map(|span| Some(span.strip_prefix("cargo xtask bench ")?.to_owned()));
    commands.collect()
}

#[test]
fn the_measurements_of_the_documents_have_these_options() {
    let mut found = 0;
    for name in [
        "benchmarking.md",
        "client.md",
        "io-modes.md",
        "which-mode.md",
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(name);
        let document = std::fs::read_to_string(path).unwrap();
        for command in commands(&document) {
            // The shell takes words apart; `--help` ends it when all before it was understood.
            let script = format!("exec \"$0\" {command} --help");
            let program = env!("CARGO_BIN_EXE_nfs-bench");
            let output = Command::new("sh")
                .args(["-c", &script, program])
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}: {command}: {errors}");
            found += 1;
        }
    }
    assert!(found > 15, "{found} commands");
}
