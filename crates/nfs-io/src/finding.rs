//! What a look at something came to, in words for the person who asked: one form for whatever is looked
//! at. Pure data; how it is judged stands beside what is looked at.

/// One thing that was found out, with what it means and how to cure it. `Section` says which part of a
/// report it belongs to, `Level` how much it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding<Section, Level> {
    /// The part of the report it belongs to.
    pub section: Section,
    /// How much it matters to the person who asked.
    pub level: Level,
    /// What it is about within the section, in a word or two. Part of the report as JSON: it does not
    /// change.
    pub subject: &'static str,
    /// What is so, in the operator's words.
    pub fact: String,
    /// What the fact means for those who use what was looked at; empty where the fact says it.
    pub meaning: String,
    /// What to do about it, where something can be done.
    pub cure: Option<String>,
}

impl<Section, Level> Finding<Section, Level> {
    /// Says what the fact means.
    pub fn meaning(&mut self, text: impl Into<String>) -> &mut Self {
        self.meaning = text.into();
        self
    }

    /// Says what can be done about it.
    pub fn cure(&mut self, text: impl Into<String>) -> &mut Self {
        self.cure = Some(text.into());
        self
    }
}

/// The findings so far, in the order in which they were made.
#[derive(Clone, Debug)]
pub struct Findings<Section, Level>(Vec<Finding<Section, Level>>);

impl<Section, Level> Default for Findings<Section, Level> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<Section, Level> Findings<Section, Level> {
    /// Adds a finding, to which [`Finding::meaning`] and [`Finding::cure`] add.
    pub fn add(
        &mut self,
        section: Section,
        level: Level,
        subject: &'static str,
        fact: impl Into<String>,
    ) -> &mut Finding<Section, Level> {
        self.0.push(Finding {
            section,
            level,
            subject,
            fact: fact.into(),
            meaning: String::new(),
            cure: None,
        });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// All findings, in the order in which they were made.
    pub fn into_vec(self) -> Vec<Finding<Section, Level>> {
        self.0
    }
}
