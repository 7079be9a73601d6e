//! What the screen shows and what the keys do to it. Pure: keys and figures come in, an order to the server may come
//! out.

use nfs_server::exports::policy::Io;
use nfs_server::operate::control::{IoChanged, IoOrder, IoState};
use nfs_server::operate::live::Watch;
use nfs_server::operate::metrics::Snapshot;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::format::name;
use super::table::{self, Row, Tab};
use crate::limits::TOP_FILTER_CHARS_MAX;

/// What the screen shows, and what is chosen on it.
pub(super) struct View {
    /// Where the server is, for the first line.
    pub(super) place: String,
    pub(super) tab: Tab,
    /// The column that each tab is sorted by, and whether the other way round.
    sorts: [(usize, bool); Tab::ALL.len()],
    pub(super) filter: String,
    /// The row that the keys are about, by what it is of.
    selected: Option<String>,
    /// The first row of the table that is shown.
    pub(super) first_row: usize,
    pub(super) over: Over,
    /// What was done or failed last; until the next key.
    pub(super) message: Option<Message>,
    watch: Watch,
    /// What is shown while new figures are not.
    frozen: Option<Watch>,
    pub(super) policies: Vec<IoState>,
    /// Why the server cannot be asked, and since when by the clock of this process, in seconds.
    pub(super) lost: Option<Lost>,
    /// Only the socket may be used that changes nothing.
    pub(super) only_looks: bool,
}

/// The server does not answer.
pub(super) struct Lost {
    pub(super) why: String,
    pub(super) since: std::time::Instant,
}

/// A sentence in the last line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) is_bad: bool,
}

/// What lies over the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Over {
    #[default]
    Nothing,
    Help,
    /// The text of the filter is typed.
    Filter,
    /// A mode is chosen for an export.
    Mode(Choice),
}

/// A change of a mode, until it is confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) export: String,
    pub(super) io: Io,
    /// The place of the mode in [`MODES`].
    pub(super) mode: usize,
    /// The change is shown, and waits for a yes.
    pub(super) is_asked: bool,
}

/// The modes that can be chosen, in the words of the configuration.
pub(super) const MODES: [&str; 4] = ["auto", "buffered", "dontcache", "direct"];

/// What a key asks of the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Stop in the background, as every program does at Ctrl-Z.
    Suspend,
    /// Draw the whole screen anew.
    Redraw,
    Change(Box<IoOrder>),
}

impl View {
    pub(super) fn new(place: String) -> Self {
        Self {
            place,
            tab: Tab::default(),
            sorts: Tab::ALL.map(|tab| (tab.first_sort(), false)),
            filter: String::new(),
            selected: None,
            first_row: 0,
            over: Over::Nothing,
            message: None,
            watch: Watch::default(),
            frozen: None,
            policies: Vec::new(),
            lost: None,
            only_looks: false,
        }
    }

    /// Takes what the server told.
    pub(super) fn take(&mut self, snapshot: &Snapshot, policies: Vec<IoState>) {
        self.watch.add(snapshot);
        self.policies = policies;
        self.lost = None;
    }

    /// The server did not answer. What was known stays to be seen.
    pub(super) fn lose(&mut self, why: String) {
        let since = self.lost.take().map(|lost| lost.since);
        let since = since.unwrap_or_else(std::time::Instant::now);
        self.lost = Some(Lost { why, since });
    }

    /// What became of a change that was ordered.
    pub(super) fn changed(&mut self, result: Result<IoChanged, String>) {
        self.message = Some(match result {
            Ok(changed) => {
                let (before, now) = (&changed.before, &changed.now);
                let mut text = format!(
                    "{}: READs {} -> {}, WRITEs {} -> {}. {}",
                    name(&changed.export),
                    before.read,
                    now.read,
                    before.write,
                    now.write,
                    changed.lasts,
                );
                for warning in &changed.warnings {
                    text.push_str(" Note: ");
                    text.push_str(&name(warning));
                }
                Message {
                    text,
                    is_bad: false,
                }
            }
            Err(error) => bad(name(&error)),
        });
    }

    /// The figures that are shown.
    pub(super) fn watch(&self) -> &Watch {
        self.frozen.as_ref().unwrap_or(&self.watch)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// The column that the table is sorted by, and whether the other way round.
    pub(super) fn sort(&self) -> (usize, bool) {
        let (_, sort) = self.tab_and_sort();
        sort
    }

    fn tab_and_sort(&self) -> (usize, (usize, bool)) {
        let index = Tab::ALL.iter().position(|tab| *tab == self.tab);
        let index = index.unwrap_or(0);
        (index, self.sorts.get(index).copied().unwrap_or_default())
    }

    fn set_sort(&mut self, sort: (usize, bool)) {
        let (index, _) = self.tab_and_sort();
        if let Some(own) = self.sorts.get_mut(index) {
            *own = sort;
        }
    }

    /// The rows of the table, filtered and sorted.
    pub(super) fn rows(&self) -> Vec<Row> {
        let Some(interval) = self.watch().now() else {
            return Vec::new();
        };
        let mut rows = self.tab.rows(interval, &self.policies);
        rows.retain(|row| table::matches(row, &self.filter));
        let (column, reversed) = self.sort();
        table::sort(&mut rows, column, reversed);
        rows
    }

    /// Which of `rows` the keys are about: the first one until another is chosen.
    pub(super) fn selected(&self, rows: &[Row]) -> usize {
        let of = |key: &String| rows.iter().position(|row| row.key == *key);
        self.selected.as_ref().and_then(of).unwrap_or(0)
    }

    /// What a key does. `page` is how many rows are shown at once.
    pub(super) fn key(&mut self, key: KeyEvent, page: usize) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Action::Quit,
                KeyCode::Char('z') => return Action::Suspend,
                KeyCode::Char('l') => return Action::Redraw,
                _ => return Action::Nothing,
            }
        }
        match std::mem::take(&mut self.over) {
            Over::Nothing => self.plain_key(key.code, page),
            Over::Help => match key.code {
                KeyCode::Char('q') => Action::Quit,
                _ => Action::Nothing,
            },
            Over::Filter => self.filter_key(key.code),
            Over::Mode(choice) => self.mode_key(choice, key.code),
        }
    }

    fn plain_key(&mut self, code: KeyCode, page: usize) -> Action {
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.over = Over::Help,
            KeyCode::Char('/') => self.over = Over::Filter,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p' | ' ') => {
                self.frozen = match self.frozen {
                    Some(_) => None,
                    None => Some(self.watch.clone()),
                };
            }
            KeyCode::Char('m') => self.choose_mode(),
            KeyCode::Char('r') => {
                let (column, reversed) = self.sort();
                self.set_sort((column, !reversed));
            }
            KeyCode::Char('>' | 's' | '.') => self.sort_by_next(1),
            KeyCode::Char('<' | ',') => self.sort_by_next(-1),
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.go_to_tab(1),
            KeyCode::BackTab | KeyCode::Left => self.go_to_tab(-1),
            KeyCode::Char(digit @ '1'..='5') => {
                let index = digit.to_digit(10).unwrap_or(1) as usize;
                self.show_tab(index.saturating_sub(1));
            }
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(isize::try_from(page).unwrap_or(isize::MAX)),
            KeyCode::PageUp => self.select(-isize::try_from(page).unwrap_or(isize::MAX)),
            KeyCode::Home | KeyCode::Char('g') => self.select(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.select(isize::MAX),
            _ => {}
        }
        Action::Nothing
    }

    fn filter_key(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Enter => return Action::Nothing,
            KeyCode::Esc => {
                self.filter.clear();
                return Action::Nothing;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(char) if self.filter.chars().count() < TOP_FILTER_CHARS_MAX => {
                self.filter.push(char);
            }
            _ => {}
        }
        self.over = Over::Filter;
        Action::Nothing
    }

    fn mode_key(&mut self, mut choice: Choice, code: KeyCode) -> Action {
        if choice.is_asked {
            match code {
                KeyCode::Char('y' | 'Y') => return Action::Change(Box::new(choice.order())),
                KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => {
                    self.message = Some(Message {
                        text: "nothing was changed".to_owned(),
                        is_bad: false,
                    });
                    return Action::Nothing;
                }
                // Enter is no yes: it may have been meant for the choice.
                _ => {}
            }
            self.over = Over::Mode(choice);
            return Action::Nothing;
        }
        match code {
            KeyCode::Esc | KeyCode::Char('q') => return Action::Nothing,
            KeyCode::Left | KeyCode::Right | KeyCode::Tab => {
                choice.io = match choice.io {
                    Io::Read => Io::Write,
                    Io::Write => Io::Read,
                };
                choice.mode = self.mode_now(&choice.export, choice.io);
            }
            KeyCode::Down | KeyCode::Char('j') => choice.mode = (choice.mode + 1) % MODES.len(),
            KeyCode::Up | KeyCode::Char('k') => {
                choice.mode = (choice.mode + MODES.len() - 1) % MODES.len();
            }
            KeyCode::Enter => choice.is_asked = true,
            _ => {}
        }
        self.over = Over::Mode(choice);
        Action::Nothing
    }

    fn choose_mode(&mut self) {
        if self.only_looks {
            self.message = Some(bad(
                "the status socket changes nothing; run this as the user that the server runs as"
                    .to_owned(),
            ));
            return;
        }
        let rows = self.rows();
        let selected = rows.get(self.selected(&rows));
        let known = |export: &&String| self.policies.iter().any(|policy| policy.export == **export);
        let export = selected.and_then(|row| row.export.as_ref()).filter(known);
        match export {
            Some(export) => {
                self.over = Over::Mode(Choice {
                    export: export.clone(),
                    io: Io::Read,
                    mode: self.mode_now(export, Io::Read),
                    is_asked: false,
                });
            }
            None => {
                self.message = Some(bad(
                    "choose an export first: 1, then the arrow keys".to_owned()
                ));
            }
        }
    }

    /// Which of [`MODES`] the export has.
    fn mode_now(&self, export: &str, io: Io) -> usize {
        let policy = self.policies.iter().find(|policy| policy.export == export);
        let now = policy.map(|policy| match io {
            Io::Read => policy.now.read.as_str(),
            Io::Write => policy.now.write.as_str(),
        });
        let known = MODES.iter().position(|mode| Some(*mode) == now);
        known.unwrap_or(0)
    }

    fn sort_by_next(&mut self, step: isize) {
        let columns = self.tab.columns().len();
        if columns > 0 {
            let (column, _) = self.sort();
            let next = (column + columns).wrapping_add_signed(step) % columns;
            self.set_sort((next, false));
        }
    }

    fn go_to_tab(&mut self, step: isize) {
        let (index, _) = self.tab_and_sort();
        let count = Tab::ALL.len();
        self.show_tab((index + count).wrapping_add_signed(step) % count);
    }

    fn show_tab(&mut self, index: usize) {
        if let Some(tab) = Tab::ALL.get(index) {
            self.tab = *tab;
            self.selected = None;
            self.first_row = 0;
        }
    }

    fn select(&mut self, step: isize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let index = self.selected(&rows).saturating_add_signed(step).min(last);
        self.selected = rows.get(index).map(|row| row.key.clone());
    }
}

impl Choice {
    /// The mode that was chosen.
    pub(super) fn word(&self) -> &'static str {
        MODES.get(self.mode).copied().unwrap_or("auto")
    }

    fn order(&self) -> IoOrder {
        let mode = Some(self.word().to_owned());
        let (read, write) = match self.io {
            Io::Read => (mode, None),
            Io::Write => (None, mode),
        };
        IoOrder {
            export: Some(self.export.clone()),
            read,
            write,
            ..IoOrder::default()
        }
    }
}

fn bad(text: String) -> Message {
    Message { text, is_bad: true }
}
