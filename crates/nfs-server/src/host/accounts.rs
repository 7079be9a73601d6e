//! What the machine's user database (NSS) says: the groups of users, and the names of users and groups.
//!
//! Nobody asks it where others wait: it may be a directory server that answers late or never. It is asked on the
//! helper threads, in a lane of its own, so that a database that hangs takes no more of them than a file system that
//! does; each question once, however many wait for it; and who waits does so for a bounded time. Answers are kept for
//! a while, those about accounts that there are apart from the others: whoever asks for names that nobody has cannot
//! push out what is known.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nfs_io::turns::Rule;
use nfs_io::{Lane, Pool, Queue, Share, Sharer, Shares};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::limits;

/// The lane of questions to the user database: no file system has this number.
pub(crate) const LANE: Lane = Lane(u64::MAX);

/// What names and numbers are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    User,
    Group,
}

/// A question to the user database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// Which groups is a user in?
    Groups(u32),
    Name(Kind, u32),
    Id(Kind, Box<[u8]>),
}

impl Question {
    /// A name that is shown may be that of some minutes ago while it is asked for anew. What decides about rights may
    /// not.
    const fn may_be_stale(&self) -> bool {
        matches!(self, Self::Name(..))
    }
}

/// What the user database answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Groups(Arc<[u32]>),
    Name(Arc<str>),
    Id(u32),
    /// It knows no such account.
    Unknown,
    /// It could not be asked.
    Failed,
}

impl Answer {
    /// How long it holds.
    const fn lasts(&self) -> Duration {
        Duration::from_secs(match self {
            Self::Groups(_) | Self::Name(_) | Self::Id(_) => limits::ACCOUNT_SECONDS,
            Self::Unknown => limits::ACCOUNT_UNKNOWN_SECONDS,
            Self::Failed => limits::ACCOUNT_FAILED_SECONDS,
        })
    }
}

/// Asks the user database; may wait for as long as that likes.
type Database = dyn Fn(&Question) -> Answer + Send + Sync;

/// What is known of the accounts of this machine.
pub(crate) struct Accounts {
    database: Box<Database>,
    told: RwLock<Told>,
    /// Questions under way; each receiver hears when the asking is over.
    asked: Mutex<HashMap<Question, watch::Receiver<()>>>,
    /// Who may have how many of them.
    asked_shares: Shares,
    /// Somebody has waited in vain, and nothing was answered since.
    is_stalled: AtomicBool,
}

/// Answers, with the time of each.
#[derive(Default)]
struct Told {
    known: HashMap<Question, (Instant, Answer)>,
    unknown: HashMap<Question, (Instant, Answer)>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self::new(Box::new(of_system))
    }
}

impl Accounts {
    fn new(database: Box<Database>) -> Self {
        Self {
            database,
            told: RwLock::default(),
            asked: Mutex::default(),
            asked_shares: Shares::new(
                limits::ACCOUNTS_ASKED_MAX,
                Rule::TimesFree(limits::ACCOUNTS_ASKED_TIMES_FREE_MAX),
            ),
            is_stalled: AtomicBool::new(false),
        }
    }

    /// What was answered, if it is recent enough to go by.
    pub(crate) fn recall(&self, question: &Question) -> Option<Answer> {
        self.told.read().find(question).map(|(answer, _)| answer)
    }

    /// Whether there is an answer that need not be asked for anew.
    pub(crate) fn is_fresh(&self, question: &Question) -> bool {
        matches!(self.told.read().find(question), Some((_, Age::Fresh)))
    }

    /// Asks what is not known of `questions`, and waits for the answers: `Err` if they do not come in time or too
    /// much waits already. They are found by [`Accounts::recall`] then, and those that come later, too. An answer
    /// that may be stale is asked for anew, and not waited for.
    ///
    /// # Errors
    /// [`Late`].
    pub(crate) async fn learn(
        self: &Arc<Self>,
        pool: &Pool,
        by: (Queue, Sharer),
        questions: &[Question],
    ) -> Result<(), Late> {
        let (waits, is_urgent) = self.ask(pool, by, questions);
        let patience = match is_urgent {
            true => Duration::from_secs(limits::ACCOUNT_WAIT_SECONDS_MAX),
            // A number does for a name: who shows names does not wait for a database that is known to hang.
            false if self.is_stalled.load(Ordering::Relaxed) => Duration::ZERO,
            false => Duration::from_millis(limits::ACCOUNT_NAME_WAIT_MS_MAX),
        };
        let all = async {
            for mut wait in waits {
                // Nothing is ever sent: the sender goes when the asking is over.
                let _over = wait.changed().await;
            }
        };
        if tokio::time::timeout(patience, all).await.is_err() {
            self.is_stalled.store(true, Ordering::Relaxed);
            return Err(Late);
        }
        let is_known = |question| self.told.read().find(question).is_some();
        questions.iter().all(is_known).then_some(()).ok_or(Late)
    }

    /// Sees to it that everything is asked that is not known; returns what there is to wait for, and whether some of
    /// it cannot be done without.
    fn ask(
        self: &Arc<Self>,
        pool: &Pool,
        (queue, sharer): (Queue, Sharer),
        questions: &[Question],
    ) -> (Vec<watch::Receiver<()>>, bool) {
        let (mut waits, mut new) = (Vec::new(), Vec::new());
        let (mut is_missing, mut is_urgent) = (false, false);
        let (sender, receiver) = watch::channel(());
        let share;
        {
            let told = self.told.read();
            let mut asked = self.asked.lock();
            for question in questions {
                let is_stale = match told.find(question) {
                    Some((_, Age::Fresh)) => continue,
                    Some((_, Age::Stale)) => true,
                    None => false,
                };
                is_urgent |= !is_stale && !question.may_be_stale();
                if let Some(under_way) = asked.get(question) {
                    if !is_stale {
                        waits.push(under_way.clone());
                    }
                    continue;
                }
                is_missing |= !is_stale;
                asked.insert(question.clone(), receiver.clone());
                new.push(question.clone());
            }
            if new.is_empty() {
                return (waits, is_urgent);
            }
            // What is not asked for want of a place is not known: late.
            share = match self.asked_shares.try_take(sharer, new.len() as u64) {
                Some(share) => share,
                None => {
                    for question in &new {
                        asked.remove(question);
                    }
                    return (waits, is_urgent);
                }
            };
        }
        if is_missing {
            waits.push(receiver);
        }
        let asking = Asking {
            accounts: Arc::clone(self),
            questions: new,
            _share: share,
            _over: sender,
        };
        // Where it is refused or pushed out, the asking is over with it.
        drop(pool.run(queue, move || asking.run()));
        (waits, is_urgent)
    }

    fn remember(&self, question: Question, answer: Answer) {
        if answer != Answer::Failed {
            self.is_stalled.store(false, Ordering::Relaxed);
        }
        let mut told = self.told.write();
        match answer {
            Answer::Unknown | Answer::Failed => {
                let was_known = told.known.get(&question);
                let outlives = answer == Answer::Failed && question.may_be_stale();
                if was_known.is_some() && outlives {
                    return;
                }
                told.known.remove(&question);
                insert(
                    &mut told.unknown,
                    limits::ACCOUNTS_UNKNOWN_MAX,
                    question,
                    answer,
                );
            }
            Answer::Groups(_) | Answer::Name(_) | Answer::Id(_) => {
                told.unknown.remove(&question);
                insert(&mut told.known, limits::ACCOUNTS_MAX, question, answer);
            }
        }
    }
}

/// The user database does not answer, or not this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late;

/// How much an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Fresh,
    /// To be asked for anew.
    Stale,
}

impl Told {
    fn find(&self, question: &Question) -> Option<(Answer, Age)> {
        let (when, answer) = match self.known.get(question) {
            Some(known) => known,
            None => self.unknown.get(question)?,
        };
        let (age, lasts) = (when.elapsed(), answer.lasts());
        if age < lasts {
            return Some((answer.clone(), Age::Fresh));
        }
        let most = lasts * limits::ACCOUNT_STALE_TIMES;
        (question.may_be_stale() && age < most).then(|| (answer.clone(), Age::Stale))
    }
}

/// Puts an answer in, for which others may have to go: those whose time is over or, if there are none, all.
fn insert(
    answers: &mut HashMap<Question, (Instant, Answer)>,
    most: usize,
    question: Question,
    answer: Answer,
) {
    if answers.len() >= most && !answers.contains_key(&question) {
        answers.retain(|_, (when, answer)| when.elapsed() < answer.lasts());
        if answers.len() >= most {
            answers.clear();
        }
    }
    answers.insert(question, (Instant::now(), answer));
}

/// Questions that are asked now. When it goes, they are under way no more, and who waits hears of it.
struct Asking {
    accounts: Arc<Accounts>,
    questions: Vec<Question>,
    _share: Share,
    _over: watch::Sender<()>,
}

impl Asking {
    fn run(self) {
        for question in &self.questions {
            let answer = (self.accounts.database)(question);
            self.accounts.remember(question.clone(), answer);
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut asked = self.accounts.asked.lock();
        for question in &self.questions {
            asked.remove(question);
        }
    }
}

fn of_system(question: &Question) -> Answer {
    use nfs_io::accounts;
    fn answer<T>(found: nfs_io::Result<Option<T>>, told: impl FnOnce(T) -> Answer) -> Answer {
        match found {
            Ok(Some(found)) => told(found),
            Ok(None) => Answer::Unknown,
            Err(_not_to_be_had) => Answer::Failed,
        }
    }
    // What is no text is sent as a number.
    let name =
        |name| String::from_utf8(name).map_or(Answer::Unknown, |name| Answer::Name(name.into()));
    match question {
        Question::Groups(uid) => answer(accounts::group_list(*uid), |gids| {
            Answer::Groups(gids.into())
        }),
        Question::Name(Kind::User, uid) => answer(accounts::user_name(*uid), name),
        Question::Name(Kind::Group, gid) => answer(accounts::group_name(*gid), name),
        Question::Id(Kind::User, name) => answer(accounts::user_id(name), Answer::Id),
        Question::Id(Kind::Group, name) => answer(accounts::group_id(name), Answer::Id),
    }
}

#[cfg(test)]
mod tests;
