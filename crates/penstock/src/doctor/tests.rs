//! The judgement of facts.
