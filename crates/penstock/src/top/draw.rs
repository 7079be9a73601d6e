//! How the screen looks: from a [`View`] to cells, for terminals of any size.
//!
//! Text is in the terminal's own colours, so that it can be read on a light and on a dark one; what is coloured is in
//! colours that are neither light nor dark.

use std::borrow::Cow;

use nfs_server::exports::policy::Io;
use nfs_server::operate::live::Moment;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Widget as _, Wrap};

use super::curves;
use super::format::{bytes, clock, count, name, percent};
use super::spread;
use super::table::{Column, Row, Tab};
use super::view::{Choice, MODES, Over, View};

/// The colours, or none of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    pub(super) coloured: bool,
}

/// Mid-tones of the 256 colours: readable on black and on white.
const BLUE: Color = Color::Indexed(33);
const ORANGE: Color = Color::Indexed(166);
const VIOLET: Color = Color::Indexed(134);
const GREEN: Color = Color::Indexed(35);
const RED: Color = Color::Indexed(160);

impl Paint {
    fn colour(self, colour: Color) -> Style {
        match self.coloured {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub(super) fn read(self) -> Style {
        self.colour(BLUE)
    }

    pub(super) fn write(self) -> Style {
        self.colour(ORANGE)
    }

    pub(super) fn latency(self) -> Style {
        self.colour(VIOLET)
    }

    pub(super) fn memory(self) -> Style {
        self.colour(GREEN)
    }

    /// Something that should not be. Without colours it is bold.
    pub(super) fn bad(self) -> Style {
        self.colour(RED).add_modifier(Modifier::BOLD)
    }
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Rows of a terminal from which the curves are drawn.
const HEIGHT_WITH_CURVES: u16 = 16;
/// Rows of the curves: a title, and what lies below it.
const CURVES_HEIGHT: u16 = 4;
/// The same where there is room.
const CURVES_HEIGHT_TALL: u16 = 8;

/// Draws `view`; returns how many rows of the table are shown at once.
pub(super) fn draw(frame: &mut Frame, view: &mut View, paint: Paint) -> usize {
    let area = frame.area();
    let curves = match area.height {
        height if height < HEIGHT_WITH_CURVES => 0,
        height if height < 40 => CURVES_HEIGHT,
        _ => CURVES_HEIGHT_TALL,
    };
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(curves),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [first, second, middle, tabs, table, last] = parts.areas(area);
    let buffer = frame.buffer_mut();
    title(buffer, first, view, paint);
    let latest = view.watch().moments().next_back().cloned();
    host(buffer, second, latest.as_ref(), paint);
    if curves > 0 {
        curves::draw(buffer, middle, view.watch(), paint);
    }
    tab_bar(buffer, tabs, view);
    let page = usize::from(table.height.saturating_sub(1));
    if view.tab == Tab::Latency {
        spread::draw(buffer, table, view.watch().now(), paint);
    } else {
        body(buffer, table, view, paint);
    }
    last_line(buffer, last, view, paint);
    match &view.over {
        Over::Help => help(buffer, area),
        Over::Mode(choice) => mode(buffer, area, view, choice, paint),
        Over::Nothing | Over::Filter => {}
    }
    page
}

/// Where it is, whether it lives, and what time it is there.
fn title(buffer: &mut Buffer, area: Rect, view: &View, paint: Paint) {
    let at = view.watch().moments().next_back();
    let at = at.map_or_else(String::new, |moment| {
        format!("{} UTC", clock(moment.at_unix_ms))
    });
    let state = match (&view.lost, view.is_paused()) {
        (Some(lost), _) => {
            let seconds = lost.since.elapsed().as_secs();
            Span::styled(format!(" NO ANSWER for {seconds} s "), paint.bad())
        }
        (None, true) => Span::styled(" PAUSED ", REVERSED),
        (None, false) if view.only_looks => Span::styled("read-only ", FAINT),
        (None, false) => Span::raw(""),
    };
    let right = Line::from(vec![state, Span::raw(at)]).right_aligned();
    let width = u16::try_from(right.width())
        .unwrap_or(u16::MAX)
        .min(area.width);
    let left = Rect {
        width: area.width.saturating_sub(width + 1),
        ..area
    };
    let place = Line::from(vec![
        Span::styled("penstock top ", BOLD),
        Span::styled(
            shortened_left(
                &name(&view.place),
                usize::from(left.width).saturating_sub(13),
            ),
            FAINT,
        ),
    ]);
    place.render(left, buffer);
    right.render(area, buffer);
}

/// The end of a path says more than its beginning.
fn shortened_left(text: &str, width: usize) -> String {
    let chars = text.chars().count();
    if chars <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(chars + 1 - width.max(1)).collect();
    format!("…{kept}")
}

/// The process and its machine in one line: what matters most first, for narrow terminals.
fn host(buffer: &mut Buffer, area: Rect, moment: Option<&Moment>, paint: Paint) {
    let Some(moment) = moment else { return };
    let host = &moment.host;
    let mut line = Line::default();
    let mut put = |label: &str, value: String, is_bad: bool| {
        let gap = if line.width() > 0 { "  " } else { "" };
        // No half of a figure at the edge: what has no room is left out.
        if line.width() + gap.len() + label.len() + 1 + value.len() > usize::from(area.width) {
            return;
        }
        line.push_span(Span::raw(gap));
        line.push_span(Span::styled(format!("{label} "), FAINT));
        line.push_span(Span::styled(value, if is_bad { paint.bad() } else { BOLD }));
    };
    if let (Some(user), Some(system)) = (host.cpu_user, host.cpu_system) {
        put("cpu", format!("{:.2}", user + system), false);
    }
    if let Some(used) = host.memory_used_bytes {
        let limit = host.memory_limit_bytes.filter(|limit| *limit > 0.0);
        let shown = match limit {
            Some(limit) => format!("{}/{}", bytes(used), bytes(limit)),
            None => bytes(used),
        };
        put("mem", shown, false);
    }
    let waits = [
        ("waits mem", host.memory_some, 0.05),
        ("io", host.io_some, 0.5),
        ("cpu", host.cpu_some, 0.5),
    ];
    for (label, part, worth_a_look) in waits {
        if let Some(part) = part {
            put(label, percent(part), part >= worth_a_look);
        }
    }
    if moment.seconds > 0.0 {
        put("ops/s", count(moment.all.operations), false);
        put("err/s", count(moment.all.errors), moment.all.errors > 0.0);
        if moment.all.fallbacks > 0.0 {
            put("fallbacks/s", count(moment.all.fallbacks), true);
        }
    }
    if let Some(connections) = host.connections {
        put("conn", count(connections), false);
    }
    if let Some(resident) = host.resident_bytes {
        put("rss", bytes(resident), false);
    }
    line.render(area, buffer);
}

fn tab_bar(buffer: &mut Buffer, area: Rect, view: &View) {
    let mut spans = Vec::new();
    for (index, tab) in Tab::ALL.iter().enumerate() {
        let style = if *tab == view.tab {
            REVERSED
        } else {
            Style::new()
        };
        spans.push(Span::styled(
            format!(" {} {} ", index + 1, tab.title()),
            style,
        ));
    }
    if !view.filter.is_empty() && view.over != Over::Filter {
        spans.push(Span::styled(
            format!("  filter: {}", name(&view.filter)),
            BOLD,
        ));
    }
    Line::from(spans).render(area, buffer);
}

/// The table's heading and those of its rows that there is room for.
fn body(buffer: &mut Buffer, area: Rect, view: &mut View, paint: Paint) {
    let columns = fitting(view.tab.columns(), area.width);
    heading(buffer, area, view, &columns);
    let place = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    let rows = view.rows();
    if rows.is_empty() {
        let style = FAINT;
        let text = nothing(view);
        Paragraph::new(text)
            .style(style)
            .wrap(Wrap { trim: true })
            .render(place, buffer);
        return;
    }
    let selected = view.selected(&rows);
    let height = usize::from(place.height);
    view.first_row = view
        .first_row
        .min(selected)
        .max((selected + 1).saturating_sub(height));
    view.first_row = view.first_row.min(rows.len().saturating_sub(height));
    for (line, (index, row)) in rows
        .iter()
        .enumerate()
        .skip(view.first_row)
        .take(height)
        .enumerate()
    {
        let y = place
            .y
            .saturating_add(u16::try_from(line).unwrap_or(u16::MAX));
        table_row(buffer, (place.x, y), &columns, row, (view.tab, paint));
        if index == selected {
            buffer.set_style(
                Rect {
                    y,
                    height: 1,
                    ..place
                },
                REVERSED,
            );
        }
    }
}

/// The titles of the columns; the one that the rows are sorted by is marked.
fn heading(buffer: &mut Buffer, area: Rect, view: &View, columns: &[(usize, u16)]) {
    let (sorted_by, reversed) = view.sort();
    let mut x = area.x;
    for (index, width) in columns {
        let Some(column) = view.tab.columns().get(*index) else {
            continue;
        };
        let arrow = match (sorted_by == *index, reversed) {
            (true, false) => "▾",
            (true, true) => "▴",
            (false, _) => "",
        };
        let is_first = *index == 0;
        let title = format!("{}{arrow}", column.title);
        let style = if sorted_by == *index {
            BOLD.add_modifier(Modifier::UNDERLINED)
        } else {
            BOLD
        };
        put(
            buffer,
            (x, area.y),
            *width,
            &title,
            style,
            !is_first && is_figure(view.tab, *index),
        );
        x = x.saturating_add(width + 1);
    }
}

fn table_row(
    buffer: &mut Buffer,
    at: (u16, u16),
    columns: &[(usize, u16)],
    row: &Row,
    (tab, paint): (Tab, Paint),
) {
    let (mut x, y) = at;
    for (index, width) in columns {
        if let Some(cell) = row.cells.get(*index) {
            let style = match cell.is_bad {
                true => paint.bad(),
                false if *index == 0 => BOLD,
                false => Style::new(),
            };
            put(
                buffer,
                (x, y),
                *width,
                &cell.shown,
                style,
                is_figure(tab, *index),
            );
        }
        x = x.saturating_add(width + 1);
    }
}

/// Whether a column is of figures, which stand at its right.
fn is_figure(tab: Tab, index: usize) -> bool {
    let title = tab.columns().get(index).map(|column| column.title);
    !matches!(
        title,
        None | Some(
            "EXPORT" | "CLIENT" | "PROCEDURE" | "READS" | "WRITES" | "CALL" | "MODE" | "NFS"
        )
    )
}

/// Writes `text` into `width` columns; what does not fit ends with an ellipsis.
fn put(
    buffer: &mut Buffer,
    at: (u16, u16),
    width: u16,
    text: &str,
    style: Style,
    to_the_right: bool,
) {
    let needed = Span::raw(text).width();
    let room = usize::from(width);
    let (x, y) = at;
    let inside = buffer.area;
    if x >= inside.right() || y >= inside.bottom() {
        return;
    }
    let room = room.min(usize::from(inside.right() - x));
    if needed <= room {
        let shift = if to_the_right { room - needed } else { 0 };
        let x = x.saturating_add(u16::try_from(shift).unwrap_or(0));
        buffer.set_stringn(x, y, text, room, style);
    } else if room > 0 {
        let (end, _) = buffer.set_stringn(x, y, text, room - 1, style);
        buffer.set_stringn(end, y, "…", 1, style);
    }
}

/// The columns that there is room for, by number, each with its width.
fn fitting(columns: &[Column], width: u16) -> Vec<(usize, u16)> {
    let mut chosen: Vec<usize> = (0..columns.len()).collect();
    let needed = |chosen: &[usize]| {
        let widths = chosen.iter().filter_map(|index| columns.get(*index));
        let widths = widths.map(|column| column.width + 1).sum::<u16>();
        widths.saturating_sub(1)
    };
    while needed(&chosen) > width {
        let spare = |index: &usize| columns.get(*index).map_or(0, |column| column.spare);
        let Some(most) = chosen
            .iter()
            .copied()
            .max_by_key(spare)
            .filter(|index| spare(index) > 0)
        else {
            break;
        };
        chosen.retain(|index| *index != most);
    }
    let left = width.saturating_sub(needed(&chosen));
    let own = |index: usize| {
        let own = columns.get(index).map_or(0, |column| column.width);
        // Names take what is left, as far as the eye still finds the figures.
        if index == 0 { own + left.min(40) } else { own }
    };
    chosen
        .into_iter()
        .map(|index| (index, own(index)))
        .collect()
}

/// Why there is no row.
fn nothing(view: &View) -> Cow<'static, str> {
    if view.watch().now().is_none() {
        return match &view.lost {
            // The last line may have no room for all of it.
            Some(lost) => format!("The server has not answered yet: {}", name(&lost.why)).into(),
            None => "Rates are known after the second look.".into(),
        };
    }
    if !view.filter.is_empty() {
        return "Nothing here has that text in its name. Esc takes the filter away.".into();
    }
    let text = match view.tab {
        Tab::Clients => "No client is known to the server.",
        Tab::Exports | Tab::Procedures => "No call was answered in the last interval.",
        Tab::Modes | Tab::Latency => "No READ or WRITE was answered in the last interval.",
    };
    text.into()
}

fn last_line(buffer: &mut Buffer, area: Rect, view: &View, paint: Paint) {
    let line = if let Over::Filter = view.over {
        Line::from(vec![
            Span::styled("Filter: ", BOLD),
            Span::raw(name(&view.filter)),
            Span::styled(" ", REVERSED),
            Span::styled("  Enter keeps it, Esc takes it away", FAINT),
        ])
    } else if let Some(message) = &view.message {
        let style = if message.is_bad { paint.bad() } else { BOLD };
        Line::styled(message.text.clone(), style)
    } else if let Some(lost) = &view.lost {
        Line::styled(name(&lost.why), paint.bad())
    } else {
        let keys = [
            ("q", "quit"),
            ("?", "help"),
            ("Tab", "next view"),
            ("< >", "sort"),
            ("r", "reverse"),
            ("/", "filter"),
            ("p", "pause"),
            ("m", "mode"),
        ];
        let spans = keys.iter().flat_map(|(key, what)| {
            [
                Span::styled(*key, BOLD),
                Span::styled(format!(" {what}  "), FAINT),
            ]
        });
        spans.collect()
    };
    line.render(area, buffer);
}

/// A window in the middle, with room for `height` lines of `width` columns.
fn window(buffer: &mut Buffer, area: Rect, title: &str, (width, height): (u16, u16)) -> Rect {
    let place = area.centered(
        Constraint::Length(width.saturating_add(4).min(area.width)),
        Constraint::Length(height.saturating_add(2).min(area.height)),
    );
    Clear.render(place, buffer);
    let block = Block::bordered().title(Span::styled(format!(" {title} "), BOLD));
    let inner = block.inner(place);
    block.render(place, buffer);
    Rect {
        x: inner.x + 1,
        width: inner.width.saturating_sub(2),
        ..inner
    }
}

const HELP: &[&str] = &[
    "1 to 5, Tab, arrows  exports, clients, procedures, modes, latency",
    "up and down, PgUp .. choose a row",
    "< and >, s           sort by the column left or right of this one",
    "r                    sort the other way round",
    "/                    show rows whose name has a text in it; Esc: all",
    "p, space             pause: figures stand still",
    "m                    change the mode of the export that is chosen",
    "q, Ctrl-C            quit",
    "",
    "Rates are per second, K M G are powers of 1024 for bytes and of 1000",
    "for calls. P99: 99 of 100 calls took less, as Prometheus reckons it.",
    "cpu: processors kept busy.  waits: share of the time in which tasks",
    "waited for memory, I/O or a processor (the kernel's PSI, some).",
    "CACHE: page cache of open files.  HELD BACK: share of the time for",
    "which limits made the client wait. OTHER/s: neither READ nor WRITE.",
];

fn help(buffer: &mut Buffer, area: Rect) {
    let height = u16::try_from(HELP.len()).unwrap_or(u16::MAX);
    let place = window(buffer, area, "Keys and figures", (68, height));
    let lines: Vec<Line> = HELP.iter().map(|line| Line::raw(*line)).collect();
    Paragraph::new(lines).render(place, buffer);
}

fn mode(buffer: &mut Buffer, area: Rect, view: &View, choice: &Choice, paint: Paint) {
    let policy = view
        .policies
        .iter()
        .find(|policy| policy.export == choice.export);
    let now = policy.map_or("?", |policy| match choice.io {
        Io::Read => policy.now.read.as_str(),
        Io::Write => policy.now.write.as_str(),
    });
    let (what, other) = match choice.io {
        Io::Read => ("READs", "WRITEs"),
        Io::Write => ("WRITEs", "READs"),
    };
    let export = name(&choice.export);
    let rules = policy.map_or(0, |policy| policy.now.rules.len());
    let mut lines = vec![
        Line::from(vec![Span::raw("Export "), Span::styled(export, BOLD)]),
        Line::from(vec![
            Span::styled(what, BOLD),
            Span::raw(format!(" are {now} now")),
        ]),
        Line::raw(""),
    ];
    if choice.is_asked {
        lines.push(Line::styled(
            format!("Make {what} {}?", choice.word()),
            paint.bad(),
        ));
        lines.push(Line::raw("It lasts until the next reload or restart."));
        lines.push(Line::raw(""));
        lines.push(Line::from(vec![
            Span::styled("y", BOLD),
            Span::raw(" yes   "),
            Span::styled("n", BOLD),
            Span::raw(" no"),
        ]));
    } else {
        for (index, mode) in MODES.iter().enumerate() {
            let style = if index == choice.mode {
                REVERSED
            } else {
                Style::new()
            };
            lines.push(Line::from(vec![
                Span::raw("  "),
                Span::styled(format!(" {mode} "), style),
            ]));
        }
        lines.push(Line::raw(""));
        if rules > 0 {
            lines.push(Line::raw(format!(
                "{rules} rules come before it (penstock ctl io)"
            )));
        }
        lines.push(Line::styled(
            format!("Tab {other}  Enter choose  Esc leave"),
            FAINT,
        ));
    }
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let place = window(buffer, area, "Change a mode", (46, height));
    Paragraph::new(lines).render(place, buffer);
}
