//! Our server as a run starts it: the mode of its READs and WRITEs, and what is switched on with it.

/// How our server is started for a run: in words, `direct` or `direct+staging`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    mode: &'static str,
    with: Option<&'static str>,
}

/// The modes of our server that are compared.
const MODES: [&str; 4] = ["buffered", "dontcache", "direct", "auto"];
/// What may be switched on with a mode, behind a `+`: the option of `penstock serve` that has this name.
const EXTRAS: [&str; 6] = [
    STAGING,
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
        MODES.map(|mode| Self { mode, with: None })
    }

    /// What the words say.
    ///
    /// # Errors
    /// There is no such mode, nothing of this name to switch on, or it does nothing in the mode: the text says what there
    /// is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mode, with) = match text.split_once('+') {
            Some((mode, with)) => (mode, Some(with)),
            None => (text, None),
        };
        let named = |words: &[&'static str], text| words.iter().copied().find(|word| *word == text);
        let give = || {
            format!(
                "give some of {}, separated by commas, each alone or with +{} behind it",
                MODES.join(", "),
                EXTRAS.join(" or +")
            )
        };
        let mode = named(&MODES, mode).ok_or_else(give)?;
        let with = with
            .map(|with| named(&EXTRAS, with).ok_or_else(give))
            .transpose()?;
        if with == Some(STAGING) && !["direct", "auto"].contains(&mode) {
            return Err(format!(
                "+{STAGING} does nothing in {mode}, which has no direct WRITEs: give direct+{STAGING} or auto+{STAGING}"
            ));
        }
        if with == Some(SPLICE) && !["buffered", "auto"].contains(&mode) {
            return Err(format!(
                "+{SPLICE} does nothing in {mode}, which has no buffered READs: give buffered+{SPLICE} or auto+{SPLICE}"
            ));
        }
        Ok(Self { mode, with })
    }

    /// The words that say it.
    #[must_use]
    pub fn words(&self) -> String {
        match self.with {
            Some(with) => format!("{}+{with}", self.mode),
            None => self.mode.to_owned(),
        }
    }

    /// The options of `penstock serve` that make it so.
    pub(crate) fn options(&self) -> Vec<String> {
        let mode = self.mode;
        let modes = [format!("--read={mode}"), format!("--write={mode}")];
        let with = self.with.map(|with| format!("--{with}"));
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
        let polling = Own::parse("auto+busy-poll=50us").unwrap();
        assert_eq!(polling.options()[2], "--busy-poll=50us");
    }

    #[test]
    fn words_that_say_nothing_are_refused_with_those_that_do() {
        for text in ["", "fast", "direct+", "direct+fast", "direct+staging+async"] {
            let refused = Own::parse(text).unwrap_err();
            assert!(refused.contains("dontcache") && refused.contains("+staging"));
        }
        let refused = Own::parse("buffered+staging").unwrap_err();
        assert!(refused.contains("direct+staging"), "{refused}");
        let refused = Own::parse("direct+splice").unwrap_err();
        assert!(refused.contains("buffered+splice"), "{refused}");
    }
}
