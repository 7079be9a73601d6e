//! Our server as a run starts it: the mode of its READs and WRITEs, and what is switched on with it.

/// How our server is started for a run: in words, `direct` or `direct+staging+order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    mode: &'static str,
    /// Which of [`EXTRAS`] are switched on.
    with: [bool; EXTRAS.len()],
}

/// The modes of our server that are compared.
const MODES: [&str; 4] = ["buffered", "dontcache", "direct", "auto"];
/// What may be switched on with a mode, each behind a `+`: the option of `penstock serve` that has this name.
const EXTRAS: [&str; 8] = [
    STAGING,
    "order",
    "reserve",
    "async",
    "no-stable-write-attributes",
    SPLICE,
    BUSY_POLL,
    NO_BUSY_POLL,
];
/// The ends of WRITEs wait for their neighbours: nothing but direct WRITEs has any.
const STAGING: &str = "staging";
/// Large READs are sent from the page cache without a copy: buffered ones alone.
const SPLICE: &str = "splice";
/// Its shards look for more calls before they sleep.
const BUSY_POLL: &str = "busy-poll=50us";
/// They sleep as soon as there is nothing to do.
const NO_BUSY_POLL: &str = "busy-poll=0";

impl Own {
    /// The server in each of its modes, with nothing switched on.
    #[must_use]
    pub fn each() -> [Self; 4] {
        MODES.map(|mode| Self {
            mode,
            with: [false; EXTRAS.len()],
        })
    }

    /// What the words say.
    ///
    /// # Errors
    /// There is no such mode, nothing of this name to switch on, or it does nothing in the mode: the text says what there
    /// is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let give = || {
            format!(
                "give some of {}, separated by commas, each alone or with +{} behind it, each once at most",
                MODES.join(", "),
                EXTRAS.join(" or +")
            )
        };
        let mut words = text.split('+');
        let mode = words.next().unwrap_or_default();
        let mode = MODES.into_iter().find(|known| *known == mode);
        let mode = mode.ok_or_else(give)?;
        let mut with = [false; EXTRAS.len()];
        for word in words {
            let extra = EXTRAS.iter().position(|known| *known == word);
            let extra = extra.and_then(|extra| with.get_mut(extra));
            match extra {
                Some(extra) if !*extra => *extra = true,
                _ => return Err(give()),
            }
        }
        let own = Self { mode, with };
        if own.has(STAGING) && !["direct", "auto"].contains(&mode) {
            return Err(format!(
                "+{STAGING} does nothing in {mode}, which has no direct WRITEs: give direct+{STAGING} or auto+{STAGING}"
            ));
        }
        if own.has(SPLICE) && !["buffered", "auto"].contains(&mode) {
            return Err(format!(
                "+{SPLICE} does nothing in {mode}, which has no buffered READs: give buffered+{SPLICE} or auto+{SPLICE}"
            ));
        }
        if own.has(BUSY_POLL) && own.has(NO_BUSY_POLL) {
            return Err(format!("give +{BUSY_POLL} or +{NO_BUSY_POLL}, not both"));
        }
        Ok(own)
    }

    fn has(&self, extra: &str) -> bool {
        self.extras().any(|word| word == extra)
    }

    /// What is switched on, always in the same order.
    fn extras(&self) -> impl Iterator<Item = &'static str> {
        let is_on = self.with.into_iter();
        EXTRAS
            .into_iter()
            .zip(is_on)
            .filter_map(|(word, is_on)| is_on.then_some(word))
    }

    /// The words that say it.
    #[must_use]
    pub fn words(&self) -> String {
        let words: Vec<&str> = std::iter::once(self.mode).chain(self.extras()).collect();
        words.join("+")
    }

    /// The options of `penstock serve` that make it so.
    pub(crate) fn options(&self) -> Vec<String> {
        let mode = self.mode;
        let modes = [format!("--read={mode}"), format!("--write={mode}")];
        let with = self.extras().map(|with| format!("--{with}"));
        modes.into_iter().chain(with).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_the_server_is_started_with() {
        for own in Own::each() {
            assert_eq!(Own::parse(&own.words()), Ok(own));
        }
        let staged = Own::parse("direct+staging").unwrap();
        assert_eq!(staged.words(), "direct+staging");
        let options = ["--read=direct", "--write=direct", "--staging"];
        assert_eq!(staged.options(), options);
        let bare = Own::parse("direct+no-stable-write-attributes").unwrap();
        assert_eq!(bare.options()[2], "--no-stable-write-attributes");
        let spliced = Own::parse("buffered+splice").unwrap();
        assert_eq!(spliced.options()[2], "--splice");
        let both = Own::parse("direct+order+staging").unwrap();
        assert_eq!(both.words(), "direct+staging+order");
        assert_eq!(both.options()[2..], ["--staging", "--order"]);
        let polling = Own::parse("auto+busy-poll=50us").unwrap();
        assert_eq!(polling.options()[2], "--busy-poll=50us");
    }

    #[test]
    fn words_that_say_nothing_are_refused_with_those_that_do() {
        let twice = "direct+order+order";
        for text in [
            "",
            "fast",
            "direct+",
            "direct+fast",
            "direct+staging+",
            twice,
        ] {
            let refused = Own::parse(text).unwrap_err();
            assert!(refused.contains("dontcache") && refused.contains("+staging"));
        }
        let refused = Own::parse("buffered+staging").unwrap_err();
        assert!(refused.contains("direct+staging"), "{refused}");
        let refused = Own::parse("auto+busy-poll=0+busy-poll=50us").unwrap_err();
        assert!(refused.contains("not both"), "{refused}");
        let refused = Own::parse("direct+splice").unwrap_err();
        assert!(refused.contains("buffered+splice"), "{refused}");
    }
}
