//! A page as one file of HTML, without scripts and without anything from elsewhere.

use std::fmt::Write as _;

use super::page::{Page, Section};
use super::svg::{Chart, escaped};

/// The page as HTML. It follows the reader's light or dark scheme, and prints on paper.
#[must_use]
pub fn html(page: &Page) -> String {
    let title = escaped(&page.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header><p class=\"what\">{title}</p>\n<h1>{}</h1>\n<p class=\"answer\">{}</p></header>\n",
        escaped(&page.question),
        escaped(&page.answer)
    );
    for section in &page.sections {
        put_section(&mut out, section);
    }
    if !page.notes.is_empty() {
        out.push_str("<section>\n<h2>Notes</h2>\n<ul>\n");
        for note in &page.notes {
            let _ = writeln!(out, "<li>{}</li>", escaped(note));
        }
        out.push_str("</ul>\n</section>\n");
    }
    out.push_str("<section>\n<h2>Environment</h2>\n<dl>\n");
    for [name, text] in &page.environment {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(text));
    }
    let _ = write!(
        out,
        "</dl>\n</section>\n<section>\n<h2>Again</h2>\n<pre>{}</pre>\n</section>\n</main>\n</body>\n</html>\n",
        escaped(&page.command)
    );
    out
}

/// A picture as a file of its own, for a light or a dark page that shows it as an image.
#[must_use]
pub fn picture(chart: &Chart, is_dark: bool) -> String {
    let colours = match is_dark {
        true => "dark) { :root {",
        false => "color-scheme: light dark;",
    };
    let rest = STYLE.split_once(colours).map_or("", |(_, rest)| rest);
    let colours = rest.split_once('}').map_or("", |(colours, _)| colours);
    // The rules of the page that are about pictures.
    let is_of_pictures = |line: &&str| ["svg ", ".c0", ".s0"].iter().any(|of| line.starts_with(of));
    let rules: Vec<&str> = STYLE.lines().filter(is_of_pictures).collect();
    let rules = rules.join("\n");
    let svg = chart.svg();
    let (head, inside) = svg.split_once('>').unwrap_or((&svg, ""));
    format!(
        "{head} width=\"480\" xmlns=\"http://www.w3.org/2000/svg\">\
         <style>svg {{{colours}}}\n{rules}\n</style>{inside}"
    )
}

fn put_section(out: &mut String, section: &Section) {
    let table = &section.table;
    let _ = write!(
        out,
        "<section>\n<h2>{}</h2>\n<div class=\"charts\">\n",
        escaped(&table.title)
    );
    for chart in &section.charts {
        let _ = writeln!(out, "<figure>{}</figure>", chart.svg().trim_end());
    }
    out.push_str("</div>\n<div class=\"wide\"><table>\n<thead><tr>");
    for heading in &table.heading {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(heading));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (column, text) in row.iter().enumerate() {
            let text = escaped(text);
            let _ = match column {
                0 => write!(out, "<th scope=\"row\">{text}</th>"),
                _ => write!(out, "<td>{text}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
}

const STYLE: &str = "
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --soft: #5d636b; --line: #d9dce1; --card: #f6f7f9;
  --c0: #0369a1; --c1: #c2410c; --c2: #15803d; --c3: #7c3aed; --c4: #a16207; --c5: #64748b; --good: #16a34a; --bad: #dc2626 }
@media (prefers-color-scheme: dark) { :root { --paper: #14161a; --ink: #e6e8eb; --soft: #a0a7b0; --line: #343a43; --card: #1d2026;
  --c0: #38bdf8; --c1: #fb923c; --c2: #4ade80; --c3: #c4b5fd; --c4: #facc15; --c5: #94a3b8; --good: #4ade80; --bad: #f87171 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 3rem }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .25rem 0 .75rem }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
.what { margin: 0; color: var(--soft); font-family: ui-monospace, monospace; font-size: .9rem }
.answer { margin: 0; padding: .75rem 1rem; background: var(--card); border-left: 4px solid var(--c0) }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); gap: .75rem; align-items: start }
.charts:has(> :nth-child(2):last-child), .charts:has(> :nth-child(4):last-child) { grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)) }
figure { margin: 0; padding: .25rem; border: 1px solid var(--line); border-radius: 6px; break-inside: avoid }
svg { display: block; width: 100%; max-width: 30rem; height: auto; font: 12px system-ui, sans-serif }
svg text { fill: var(--ink) } svg .head { font-weight: 600; font-size: 12.5px } svg .tick { fill: var(--soft); text-anchor: middle; font-size: 11px }
svg .tick.ink { fill: var(--ink); font-size: 12px }
svg .tick.end { text-anchor: end } svg .line { fill: none; stroke-width: 1.6; stroke-linejoin: round }
svg .mark { fill: var(--paper) } svg .grid { stroke: var(--line) } svg .range { stroke: var(--ink); stroke-width: 1.3; fill: none }
.c0 { fill: var(--c0) } .c1 { fill: var(--c1) } .c2 { fill: var(--c2) } .c3 { fill: var(--c3) } .c4 { fill: var(--c4) } .c5 { fill: var(--c5) }
.s0 { stroke: var(--c0) } .s1 { stroke: var(--c1) } .s2 { stroke: var(--c2) } .s3 { stroke: var(--c3) } .s4 { stroke: var(--c4) } .s5 { stroke: var(--c5) }
.s0, .s1, .s2, .s3, .s4, .s5 { stroke-width: 2 } .good { fill: var(--good) } .bad { fill: var(--bad) }
.wide { overflow-x: auto; margin-top: .75rem }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .5rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top }
th:first-child { text-align: left; font-weight: 500; white-space: nowrap } thead th { color: var(--soft); font-weight: 600 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: 0; font-size: .9rem }
dt { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
pre { margin: 0; padding: .75rem 1rem; background: var(--card); white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem }
@media (max-width: 32rem) { dl { grid-template-columns: 1fr } dt { margin-top: .4rem } }
@media print { :root { --paper: #fff; --ink: #000; --soft: #444; --line: #bbb; --card: #f2f2f2;
  --c0: #0369a1; --c1: #c2410c; --c2: #15803d; --c3: #7c3aed; --c4: #a16207; --c5: #64748b; --good: #16a34a; --bad: #dc2626 }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact }
  body { font-size: 10pt } main { max-width: none; padding: 0 } .charts, .charts:has(> :nth-child(2):last-child), .charts:has(> :nth-child(4):last-child) { grid-template-columns: 1fr 1fr }
  tr, dt, dd, li, pre { break-inside: avoid } thead { display: table-header-group } .wide { overflow: visible }
  h2 { break-after: avoid } table { font-size: 8pt } th, td { padding: .15rem .4rem } }
";

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::{Report, number, tests::report};
    use super::*;
    use crate::workload::Workload;

    #[test]
    fn json_page_and_markdown_have_the_same_figures() {
        for workload in Workload::ALL {
            let json = serde_json::to_string(&report(workload, 2)).unwrap();
            let read: Report = serde_json::from_str(&json).unwrap();
            let page = Page::of(&read);
            let (html, markdown, text) = (html(&page), page.markdown(), page.text());
            let json: Value = serde_json::from_str(&json).unwrap();
            let rows = json["rows"].as_array().unwrap();
            for row in rows {
                let names: &[&str] = match workload {
                    Workload::Iozone => &["us_per_call"],
                    Workload::MkfileDd | Workload::OutOfOrder | Workload::Connections => {
                        &["throughput"]
                    }
                    Workload::Ceiling => &["throughput", "p50_us", "p99_us"],
                    _ => &["throughput", "p50_us", "p99_us", "p999_us", "max_us", "cpu"],
                };
                for name in names {
                    let figure = |which: &str| row["figures"][name][which].as_f64().unwrap();
                    let all = ["median", "min", "max"].map(|which| number(figure(which)));
                    let shown = match all[1] == all[2] {
                        true => all[0].clone(),
                        false => format!("{} ({}..{})", all[0], all[1], all[2]),
                    };
                    let at = format!("{} {} {name}: {shown}", workload.name(), row["step"]);
                    assert!(html.contains(&format!("<td>{shown}</td>")), "{at}");
                    assert!(markdown.contains(&format!(" {shown} |")), "{at}");
                    assert!(text.contains(&shown), "{at}");
                }
            }
            // The cells of every table, in their order, are the same in all of them.
            for table in page.sections.iter().map(|section| &section.table) {
                for row in &table.rows {
                    let cells = row[1..]
                        .iter()
                        .map(|cell| format!("<td>{}</td>", escaped(cell)));
                    let first = format!("<th scope=\"row\">{}</th>", escaped(&row[0]));
                    assert!(
                        html.contains(&(first + &cells.collect::<String>())),
                        "{row:?}"
                    );
                    assert!(
                        markdown.contains(&format!("| {} |", row.join(" | "))),
                        "{row:?}"
                    );
                }
            }
            for shown in [&html, &markdown, &text] {
                assert!(shown.contains(&escaped(&read.question)) || shown.contains(&read.question));
            }
            assert!(html.contains(&escaped(&read.command)) && markdown.contains(&read.command));
        }
    }

    #[test]
    fn a_picture_stands_alone_on_light_and_dark() {
        let page = Page::of(&report(Workload::SeqRead, 2));
        let chart = &page.sections[0].charts[0];
        let (light, dark) = (picture(chart, false), picture(chart, true));
        for (svg, paper, other) in [(&light, "#fff", "#14161a"), (&dark, "#14161a", "#fff")] {
            assert!(svg.starts_with("<svg viewBox=") && svg.ends_with("</svg>\n"));
            assert!(svg.contains("xmlns=\"http://www.w3.org/2000/svg\""));
            assert!(svg.contains(&format!("--paper: {paper};")) && svg.contains(".c0 { fill"));
            assert!(!svg.contains(&format!("--paper: {other};")) && !svg.contains("table"));
        }
    }

    #[test]
    fn the_page_stands_alone() {
        let mut report = report(Workload::SeqRead, 2);
        report.command = "penstock bench '<script>alert(1)</script>'".to_owned();
        report.missing.push("<img src=x>".to_owned());
        let html = html(&Page::of(&report));
        for foreign in [
            "<script", "<img", "<link", "http:", "https:", "url(", "@import",
        ] {
            assert!(!html.contains(foreign), "{foreign}");
        }
        assert_eq!(
            html.matches("<section>").count(),
            html.matches("</section>").count()
        );
        assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
    }
}
