//! Who is who: what the server makes of root, of strangers and of calls without credentials.

use super::{Level, List, Section, untold};
use crate::doctor::facts::{IdentityTrial, Trials};

const SECTION: Section = Section::Identity;

pub(super) fn judge(list: &mut List, trials: &Trials) {
    let trial = match &trials.identities {
        Ok(trial) => trial,
        Err(refusal) => return untold(list, SECTION, "identities", refusal),
    };
    root(list, trial);
    stranger(list, trial);
    match &trial.nobody {
        Ok(()) => list
            .add(
                SECTION,
                Level::Note,
                "no credentials",
                "GETATTR is answered without credentials (AUTH_NONE)",
            )
            .meaning("whoever reaches the server can ask as nobody"),
        Err(refusal) => {
            let fact = format!("AUTH_NONE is refused: {refusal}");
            list.add(SECTION, Level::Ok, "no credentials", fact)
        }
    };
}

fn root(list: &mut List, trial: &IdentityTrial) {
    const SUBJECT: &str = "root";
    match &trial.root {
        Ok(0) => list
            .add(SECTION, Level::Note, SUBJECT, "a file that uid 0 makes belongs to uid 0: root is not squashed")
            .meaning(
                "whoever is root on a host that may mount can do everything here, to everybody's files",
            )
            .cure("root_squash in the export, unless these clients have to be trusted that far"),
        Ok(uid) => {
            let fact = format!("a file that uid 0 makes belongs to uid {uid}: root is squashed");
            list.add(SECTION, Level::Ok, SUBJECT, fact)
        }
        Err(refusal) => {
            let fact = format!("uid 0 cannot make a file where everybody may: {refusal}");
            list.add(SECTION, Level::Ok, SUBJECT, fact)
                .meaning("root is squashed, or has no access at all")
        }
    };
}

fn stranger(list: &mut List, trial: &IdentityTrial) {
    const SUBJECT: &str = "unknown users";
    const STRANGER: u32 = IdentityTrial::STRANGER;
    match &trial.stranger {
        Ok(STRANGER) => {
            let fact = format!("uid {STRANGER}, whom nobody knows, is believed");
            list.add(SECTION, Level::Note, SUBJECT, fact)
                .meaning("as AUTH_SYS has it: the server believes the numbers that clients send")
        }
        Ok(uid) => {
            let fact = format!("what uid {STRANGER} makes belongs to uid {uid}");
            list.add(SECTION, Level::Note, SUBJECT, fact)
                .meaning("all users are one here (all_squash), or are mapped")
        }
        Err(refusal) => {
            let fact = format!("uid {STRANGER}, whom nobody knows, is refused: {refusal}");
            list.add(SECTION, Level::Note, SUBJECT, fact)
        }
    };
}
