//! The screens, drawn on a terminal of the tests' own.

use std::collections::BTreeMap;

use nfs_server::exports::policy::Io;
use nfs_server::operate::control::{IoChanged, IoState, IoView};
use nfs_server::operate::metrics::{Family, Histogram, Kind, Number, Sample, Snapshot, Value};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::draw::{self, Paint};
use super::table::Tab;
use super::view::{Action, Over, View};

const COLOURED: Paint = Paint { coloured: true };
const PLAIN: Paint = Paint { coloured: false };

fn sample(pairs: &[(&str, &str)], value: Value) -> Sample {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Sample {
        labels: pairs.iter().map(owned).collect(),
        value,
    }
}

fn number(pairs: &[(&str, &str)], number: f64) -> Sample {
    sample(pairs, Value::Number(Number::Real(number)))
}

/// `count` calls, nine of ten of which took up to 1 ms and the others up to 16.
fn took(export: &str, procedure: &str, mode: &str, count: u64) -> Sample {
    let pairs = [
        ("export", export),
        ("procedure", procedure),
        ("mode", mode),
        ("version", "3"),
    ];
    let buckets = vec![(0.000_5, 0), (0.001, count / 10 * 9), (0.016, count)];
    sample(
        &pairs,
        Value::Histogram(Histogram {
            buckets,
            sum: 0.0,
            count,
        }),
    )
}

/// A server with these exports, so many seconds after it began its work.
fn snapshot(exports: &[&str], seconds: u64) -> Snapshot {
    let mut families = BTreeMap::<&str, Vec<Sample>>::new();
    let mut put =
        |family: &'static str, sample: Sample| families.entry(family).or_default().push(sample);
    for (index, export) in exports.iter().enumerate() {
        let calls = seconds * (exports.len() - index) as u64 * 10;
        put(
            "penstock_operation_duration_seconds",
            took(export, "READ", "direct", calls),
        );
        put(
            "penstock_operation_duration_seconds",
            took(export, "GETATTR", "", calls),
        );
        let moved = [("export", *export), ("mode", "direct")];
        put(
            "penstock_read_bytes_total",
            number(&moved, calls as f64 * 1048576.0),
        );
        put(
            "penstock_page_cache_bytes",
            number(&[("export", export)], 3.0 * 1073741824.0),
        );
    }
    let failed = [
        ("export", exports[0]),
        ("procedure", "READ"),
        ("version", "3"),
        ("status", "NFS3ERR_IO"),
    ];
    put(
        "penstock_operation_errors_total",
        number(&failed, seconds as f64 * 2.0),
    );
    put(
        "penstock_client_operations_total",
        number(&[("client", "10.0.0.7")], seconds as f64 * 33.0),
    );
    put(
        "penstock_client_throttled_seconds_total",
        number(&[("client", "10.0.0.7")], seconds as f64 * 0.5),
    );
    put(
        "penstock_process_cpu_seconds_total",
        number(&[("mode", "user")], seconds as f64 * 0.5),
    );
    put(
        "penstock_process_cpu_seconds_total",
        number(&[("mode", "system")], seconds as f64 * 1.25),
    );
    put(
        "penstock_memory_used_bytes",
        number(&[], 6.0 * 1073741824.0),
    );
    put(
        "penstock_memory_limit_bytes",
        number(&[], 8.0 * 1073741824.0),
    );
    let waits = [("resource", "memory"), ("kind", "some")];
    put(
        "penstock_pressure_seconds_total",
        number(&waits, seconds as f64 * 0.25),
    );
    let family = |(name, samples): (&str, Vec<Sample>)| Family {
        name: name.to_owned(),
        kind: Kind::Counter,
        unit: String::new(),
        help: String::new(),
        samples,
    };
    Snapshot {
        at_unix_ms: 36_000_000 + seconds * 1000,
        families: families.into_iter().map(family).collect(),
    }
}

fn policy(export: &str) -> IoState {
    IoState {
        export: export.to_owned(),
        now: IoView {
            read: "auto".to_owned(),
            write: "buffered".to_owned(),
            ..IoView::default()
        },
        ..IoState::default()
    }
}

fn view_of(exports: &[&str]) -> View {
    let mut view = View::new("/var/lib/penstock/srv".to_owned());
    let policies: Vec<IoState> = exports.iter().map(|export| policy(export)).collect();
    // With thousands of exports two looks are enough.
    let first = if exports.len() > 100 { 28 } else { 1 };
    for seconds in first..30 {
        view.take(&snapshot(exports, seconds), policies.clone());
    }
    view
}

fn drawn(view: &mut View, (width, height): (u16, u16), paint: Paint) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| {
            draw::draw(frame, view, paint);
        })
        .unwrap();
    terminal
}

fn lines(view: &mut View, size: (u16, u16)) -> Vec<String> {
    let terminal = drawn(view, size, COLOURED);
    let buffer = terminal.backend().buffer();
    let row = |y| {
        let cells = (0..size.0).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..size.1).map(row).collect()
}

fn press(view: &mut View, code: KeyCode) -> Action {
    view.key(KeyEvent::new(code, KeyModifiers::NONE), 10)
}

fn type_in(view: &mut View, text: &str) {
    for char in text.chars() {
        press(view, KeyCode::Char(char));
    }
}

#[test]
fn exports_on_24_lines_of_80() {
    let mut view = view_of(&["/data", "/home"]);
    let lines = lines(&mut view, (80, 24));
    let text = lines.join("\n");
    assert!(
        lines[0].starts_with("penstock top /var/lib/penstock/srv"),
        "{text}"
    );
    assert!(lines[0].ends_with("10:00:29 UTC"), "{text}");
    assert_eq!(
        lines[1], "cpu 1.75  mem 6.00G/8.00G  waits mem 25%  ops/s 60  err/s 2",
        "{text}"
    );
    assert!(lines[2].starts_with("READ 30.0M/s"), "{text}");
    for title in ["WRITE 0/s", "P99 1", "CACHE 6.00G"] {
        assert!(lines[2].contains(title), "{title}: {text}");
    }
    assert!(
        lines[6].contains("1 Exports") && lines[6].contains("5 Latency"),
        "{text}"
    );
    let heading: Vec<&str> = lines[7].split_whitespace().collect();
    assert_eq!(
        heading.join(" "),
        "EXPORT READS WRITES OPS/s▾ READ/s WRITE/s P99 ERR/s CACHE",
        "{text}"
    );
    let first: Vec<&str> = lines[8].split_whitespace().collect();
    assert_eq!(
        first.join(" "),
        "/data auto buffered 40 20.0M 0 14.5ms 2 3.00G",
        "{text}"
    );
    assert!(lines[9].starts_with("/home"), "{text}");
    assert!(lines[23].starts_with("q quit"), "{text}");
}

#[test]
fn a_wide_terminal_shows_every_column_and_curve() {
    let mut view = view_of(&["/data"]);
    let text = lines(&mut view, (160, 48)).join("\n");
    for word in ["P99.9", "OTHER/s", "CPU 1.75", "WAITS MEM 25%"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn curves_show_all_that_is_kept_however_narrow_they_are() {
    let mut view = View::new(String::new());
    // Five minutes with one second of READs at their beginning.
    for seconds in 1..300 {
        let mut told = snapshot(&["/data"], seconds);
        for family in &mut told.families {
            if family.name == "penstock_read_bytes_total" {
                let bytes = if seconds < 3 {
                    seconds as f64 * 1e6
                } else {
                    3e6
                };
                family.samples = vec![number(&[("export", "/data"), ("mode", "direct")], bytes)];
            }
        }
        view.take(&told, Vec::new());
    }
    let shown = lines(&mut view, (80, 24));
    let curve: String = shown[5].chars().take(19).collect();
    assert_eq!(curve.trim_start().trim_end(), "█", "{}", shown.join("\n"));
    assert!(
        curve.find('█').is_some_and(|at| at < 5),
        "at the left: {curve:?}"
    );
}

#[test]
fn every_view_is_drawn_in_every_size_and_without_figures() {
    for mut view in [View::new(String::new()), view_of(&["/data"])] {
        for over in [
            KeyCode::Null,
            KeyCode::Char('?'),
            KeyCode::Char('m'),
            KeyCode::Char('/'),
        ] {
            press(&mut view, KeyCode::Esc);
            press(&mut view, over);
            for tab in Tab::ALL {
                view.tab = tab;
                for size in [(1, 1), (2, 3), (10, 5), (20, 16), (80, 24), (300, 90)] {
                    drawn(&mut view, size, COLOURED);
                }
            }
        }
    }
}

#[test]
fn without_figures_it_says_why() {
    let mut view = View::new(String::new());
    let text = lines(&mut view, (80, 24)).join("\n");
    assert!(text.contains("after the second look"), "{text}");
    let directory = "d".repeat(60);
    view.lose(format!(
        "no server answers on /{directory}/control.sock; is it running, and are you its user?"
    ));
    let shown = lines(&mut view, (80, 24));
    let text = shown.join("\n");
    assert!(text.contains("NO ANSWER for 0 s"), "{text}");
    assert!(text.contains("its user?"), "the whole of it: {text}");
    assert!(shown[23].starts_with("no server answers on"), "{text}");
}

#[test]
fn a_server_that_comes_back_is_shown_again() {
    let mut view = view_of(&["/data"]);
    view.lose("gone".to_owned());
    assert!(lines(&mut view, (80, 24))[0].contains("NO ANSWER"));
    view.take(&snapshot(&["/data"], 31), vec![policy("/data")]);
    assert!(!lines(&mut view, (80, 24))[0].contains("NO ANSWER"));
}

#[test]
fn thousands_of_rows_scroll_and_are_filtered() {
    let names: Vec<String> = (0..5000)
        .map(|number| format!("/export/{number:04}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut view = view_of(&names);
    press(&mut view, KeyCode::End);
    let bottom = lines(&mut view, (80, 24));
    assert!(
        bottom[22].starts_with("/export/4999"),
        "{}",
        bottom.join("\n")
    );
    press(&mut view, KeyCode::Home);
    assert!(lines(&mut view, (80, 24))[8].starts_with("/export/0000"));
    press(&mut view, KeyCode::Char('/'));
    type_in(&mut view, "T/123");
    let filtered = lines(&mut view, (80, 24));
    assert!(
        filtered[8].starts_with("/export/1230"),
        "{}",
        filtered.join("\n")
    );
    assert!(filtered[23].starts_with("Filter: T/123"));
    press(&mut view, KeyCode::Enter);
    assert_eq!(view.rows().len(), 10);
    press(&mut view, KeyCode::Esc);
    assert_eq!(view.rows().len(), 5000);
}

#[test]
fn no_name_speaks_to_the_terminal_and_long_ones_end_with_an_ellipsis() {
    let long = format!("/{}", "語".repeat(500));
    let mut view = view_of(&["/a\x1b]0;x\x07\u{9b}31m\u{202e}b\n", &long]);
    for tab in Tab::ALL {
        view.tab = tab;
        let shown = lines(&mut view, (120, 24));
        let text = shown.join("\n");
        assert!(
            !text.replace('\n', "").contains(char::is_control),
            "{text:?}"
        );
        assert!(!text.contains('\u{202e}'), "{text:?}");
    }
    view.tab = Tab::Exports;
    let text = lines(&mut view, (120, 24)).join("\n");
    assert!(text.contains("/a\\x1b]0;x\\x07"), "{text}");
    assert!(text.contains('…'), "{text}");
}

#[test]
fn the_order_can_be_chosen_and_the_row_stays_chosen() {
    let mut view = view_of(&["/busy", "/idle"]);
    press(&mut view, KeyCode::Down);
    let rows = view.rows();
    assert_eq!(rows[view.selected(&rows)].key, "/idle");
    press(&mut view, KeyCode::Char('r'));
    let rows = view.rows();
    assert_eq!((rows[0].key.as_str(), view.selected(&rows)), ("/idle", 0));
    for _ in 0..3 {
        press(&mut view, KeyCode::Char('<'));
    }
    assert_eq!(view.rows()[0].key, "/busy", "by name");
}

#[test]
fn other_views_show_clients_procedures_modes_and_latencies() {
    let mut view = view_of(&["/data"]);
    let expected = [
        ('2', vec!["10.0.0.7", "33", "50%"]),
        ('3', vec!["GETATTR", "READ", "14.5ms"]),
        ('4', vec!["/data", "READ", "direct", "10.0M"]),
        ('5', vec!["READ 10/s", "UP TO", "1.00ms", "16.0ms", "█"]),
    ];
    for (key, words) in expected {
        press(&mut view, KeyCode::Char(key));
        let text = lines(&mut view, (80, 24)).join("\n");
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

#[test]
fn pause_keeps_the_figures_and_goes_on_with_the_latest() {
    let mut view = view_of(&["/data"]);
    press(&mut view, KeyCode::Char('p'));
    view.take(&snapshot(&["/data"], 40), vec![policy("/data")]);
    let paused = lines(&mut view, (80, 24));
    assert!(
        paused[0].contains("PAUSED") && paused[0].ends_with("10:00:29 UTC"),
        "{paused:?}"
    );
    press(&mut view, KeyCode::Char('p'));
    assert!(lines(&mut view, (80, 24))[0].ends_with("10:00:40 UTC"));
}

#[test]
fn a_mode_is_changed_after_a_yes_and_not_before() {
    let mut view = view_of(&["/data"]);
    press(&mut view, KeyCode::Char('m'));
    let text = lines(&mut view, (80, 24)).join("\n");
    assert!(
        text.contains("Export /data") && text.contains("READs are auto now"),
        "{text}"
    );
    press(&mut view, KeyCode::Tab);
    let text = lines(&mut view, (80, 24)).join("\n");
    assert!(text.contains("WRITEs are buffered now"), "{text}");
    press(&mut view, KeyCode::Down);
    press(&mut view, KeyCode::Down);
    assert_eq!(press(&mut view, KeyCode::Enter), Action::Nothing);
    let text = lines(&mut view, (80, 24)).join("\n");
    assert!(text.contains("Make WRITEs direct?"), "{text}");
    assert_eq!(
        press(&mut view, KeyCode::Enter),
        Action::Nothing,
        "Enter is no yes"
    );
    assert!(matches!(&view.over, Over::Mode(choice) if choice.io == Io::Write));
    let Action::Change(order) = press(&mut view, KeyCode::Char('y')) else {
        panic!("a yes changes it");
    };
    assert_eq!(
        (order.export.as_deref(), order.write.as_deref()),
        (Some("/data"), Some("direct"))
    );
    assert_eq!(order.read, None);
    view.changed(Ok(IoChanged {
        export: "/data".to_owned(),
        lasts: "It lasts until the next reload or restart.".to_owned(),
        ..IoChanged::default()
    }));
    assert!(lines(&mut view, (80, 24))[23].starts_with("/data: READs"));
}

#[test]
fn a_no_changes_nothing() {
    let mut view = view_of(&["/data"]);
    for code in ['m', 'j']
        .map(KeyCode::Char)
        .into_iter()
        .chain([KeyCode::Enter, KeyCode::Char('n')])
    {
        assert_eq!(press(&mut view, code), Action::Nothing);
    }
    assert_eq!(view.over, Over::Nothing);
    assert!(lines(&mut view, (80, 24))[23].contains("nothing was changed"));
}

#[test]
fn whoever_may_only_look_is_told_so() {
    let mut view = view_of(&["/data"]);
    view.only_looks = true;
    press(&mut view, KeyCode::Char('m'));
    assert_eq!(view.over, Over::Nothing);
    let shown = lines(&mut view, (80, 24));
    assert!(shown[0].contains("read-only"), "{shown:?}");
    assert!(shown[23].contains("changes nothing"), "{shown:?}");
}

#[test]
fn without_colours_there_are_none() {
    let mut view = view_of(&["/data"]);
    for (paint, expected) in [(PLAIN, false), (COLOURED, true)] {
        let terminal = drawn(&mut view, (120, 40), paint);
        let cells = terminal.backend().buffer().content();
        let is_coloured = cells.iter().any(|cell| cell.fg != Color::Reset);
        assert_eq!(is_coloured, expected);
        assert!(
            cells.iter().all(|cell| cell.bg == Color::Reset),
            "the ground is the terminal's"
        );
    }
}
