//! Sizes: a file holds one thing, a function fits a screen, a module says what it is.

use super::Finding;
use super::source::Source;

/// Lines of a file from which it is refused.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function from which it is worth a look; the style asks for 70.
const FUNCTION_LINES_WARN: usize = 100;

/// Checks the shape of one file: its length, that of its functions, and whether it says at its beginning what
/// it is. Adds what is wrong to `findings`.
pub(crate) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let lines = source.text.len();
    if lines > FILE_LINES_MAX {
        let rule = "a file holds one thing, in at most 800 lines";
        let cure =
            format!("it has {lines}: split it along its concepts, tests into a tests.rs beside it");
        findings.push(Finding::new(&source.path, 0, rule, cure));
    }
    for (number, length) in long_functions(source) {
        let rule = "a function fits a screen";
        let cure = format!("it has {length} lines: push ifs up, loops down");
        findings.push(Finding::new(&source.path, number, rule, cure).warning());
    }
    let documented = source
        .text
        .iter()
        .take(20)
        .any(|line| line.starts_with("//!"));
    let test_file = source.test.iter().all(|t| *t);
    if !documented && !test_file {
        let rule =
            "a file begins with a `//!` comment: what it owns, for how long, what it never does";
        findings.push(Finding::new(&source.path, 1, rule, "add it"));
    }
}

/// Functions longer than the warning's bound: first line and length.
fn long_functions(source: &Source) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    for (number, line) in source.numbered() {
        let indent = line.len() - line.trim_start().len();
        if let Some((start, level)) = open
            && line.trim_end() == format!("{}}}", " ".repeat(level))
        {
            let length = number - start + 1;
            if length > FUNCTION_LINES_WARN {
                found.push((start, length));
            }
            open = None;
        }
        if open.is_none() && begins_function(line) {
            open = Some((number, indent));
        }
    }
    found
}

fn begins_function(line: &str) -> bool {
    let words = line.trim_start();
    let head = words.split("fn ").next().unwrap_or_default();
    let qualifiers = ["pub", "async", "const", "unsafe", "extern", "\"C\""];
    let qualified = head
        .split_whitespace()
        .all(|w| qualifiers.iter().any(|q| w.starts_with(q)));
    words.contains("fn ")
        && qualified
        && !words.trim_end().ends_with(';')
        && !words.trim_end().ends_with('}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        check(&Source::parse("crates/a/src/b.rs", text), &mut findings);
        findings
    }

    #[test]
    fn long_files_are_refused() {
        let text = format!("//! Doc.\n{}", "const A: u8 = 0;\n".repeat(FILE_LINES_MAX));
        assert!(found(&text).iter().any(|f| !f.warning && f.line == 0));
    }

    #[test]
    fn long_functions_are_a_warning() {
        let body = "    step();\n".repeat(FUNCTION_LINES_WARN);
        let text = format!("//! Doc.\npub(crate) async fn f() {{\n{body}}}\nfn g() {{}}\n");
        let findings = found(&text);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].warning && findings[0].line == 2);
    }

    #[test]
    fn a_file_without_a_module_comment_is_caught() {
        assert_eq!(found("fn f() {}\n").len(), 1);
        assert!(found("//! What it is.\nfn f() {}\n").is_empty());
    }
}
