//! Modes as chmod(1) takes them: octal (`644`, `2755`) or symbolic (`u+rwX,g-w,o=`).

use std::str::FromStr;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const SETIDS: u32 = SETUID | SETGID;
const ALL: u32 = 0o7777;

/// A change of permission bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModeChange {
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    op: Op,
    /// The bits of those who are named; 0 where nobody is, which means all but what the umask has.
    who: u32,
    value: Value,
    /// Bits that are changed on a directory, too, where set-user-ID and set-group-ID stay unless they
    /// were written out.
    mentioned: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    Remove,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// These bits, for all three of user, group and others; with `x_if_any` execution, too, where it is
    /// a directory or anybody may execute it already.
    Bits { bits: u32, x_if_any: bool },
    /// What these bits, one class of three, have.
    Copy(u32),
}

impl ModeChange {
    /// The mode of a file of mode `old` after the change. `umask` counts where the change names nobody
    /// (`+w`).
    pub(crate) fn apply(&self, old: u32, is_dir: bool, umask: u32) -> u32 {
        self.steps.iter().fold(old & ALL, |mode, step| {
            let kept = if is_dir { SETIDS & !step.mentioned } else { 0 };
            let mut value = match step.value {
                Value::Bits { bits, x_if_any } => {
                    let executable = is_dir || mode & 0o111 != 0;
                    bits | if x_if_any && executable { 0o111 } else { 0 }
                }
                Value::Copy(class) => spread(mode & class),
            };
            value &= if step.who == 0 { !umask } else { step.who };
            value &= !kept;
            match step.op {
                Op::Add => mode | value,
                Op::Remove => mode & !value,
                Op::Set => {
                    let others = if step.who == 0 { 0 } else { !step.who };
                    (mode & (others | kept)) | value
                }
            }
        }) & ALL
    }
}

/// The permissions of one class, given to all three.
fn spread(class: u32) -> u32 {
    let has = |bits: u32| class & bits != 0;
    let mut all = 0;
    for bits in [0o444, 0o222, 0o111] {
        if has(bits) {
            all |= bits;
        }
    }
    all
}

const CURE: &str = "write 644, or u+rwX,g-w,o=";

impl FromStr for ModeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return octal(text);
        }
        let mut steps = Vec::new();
        for clause in text.split(',') {
            clause_steps(clause, &mut steps)?;
        }
        Ok(Self { steps })
    }
}

fn octal(text: &str) -> Result<ModeChange, String> {
    let bits = u32::from_str_radix(text, 8)
        .ok()
        .filter(|&bits| bits <= ALL);
    let bits = bits.ok_or_else(|| format!("'{text}' is not an octal mode up to 7777: {CURE}"))?;
    // As chmod(1): 755 leaves a directory's set-group-ID as it is, 00755 does not.
    let mentioned = if text.len() > 4 { ALL } else { bits };
    let value = Value::Bits {
        bits,
        x_if_any: false,
    };
    let step = Step {
        op: Op::Set,
        who: ALL,
        value,
        mentioned,
    };
    Ok(ModeChange { steps: vec![step] })
}

/// One clause: `[ugoa]*` and then one or more of `[-+=][rwxXst]*` or `[-+=][ugo]`.
fn clause_steps(clause: &str, steps: &mut Vec<Step>) -> Result<(), String> {
    let bad = || format!("'{clause}' is not a change of mode: {CURE}");
    let op_at = clause.find(['+', '-', '=']).ok_or_else(bad)?;
    let (who_text, mut rest) = clause.split_at(op_at);
    let mut who = 0;
    for letter in who_text.chars() {
        who |= match letter {
            'u' => SETUID | 0o700,
            'g' => SETGID | 0o070,
            'o' => STICKY | 0o007,
            'a' => ALL,
            _ => return Err(bad()),
        };
    }
    while let Some(letter) = rest.chars().next() {
        let after = rest.get(letter.len_utf8()..).unwrap_or_default();
        let op = match letter {
            '+' => Op::Add,
            '-' => Op::Remove,
            '=' => Op::Set,
            _ => return Err(bad()),
        };
        let end = after.find(['+', '-', '=']).unwrap_or(after.len());
        let (what, next) = after.split_at(end);
        let value = value(what).ok_or_else(bad)?;
        let mentioned = match value {
            Value::Bits { bits, .. } if who == 0 => bits,
            Value::Bits { bits, .. } => bits & who,
            Value::Copy(_) => 0,
        };
        steps.push(Step {
            op,
            who,
            value,
            mentioned,
        });
        rest = next;
    }
    Ok(())
}

fn value(what: &str) -> Option<Value> {
    match what {
        "u" => return Some(Value::Copy(0o700)),
        "g" => return Some(Value::Copy(0o070)),
        "o" => return Some(Value::Copy(0o007)),
        _ => {}
    }
    let (mut bits, mut x_if_any) = (0, false);
    for letter in what.chars() {
        match letter {
            'r' => bits |= 0o444,
            'w' => bits |= 0o222,
            'x' => bits |= 0o111,
            'X' => x_if_any = true,
            's' => bits |= SETIDS,
            't' => bits |= STICKY,
            _ => return None,
        }
    }
    Some(Value::Bits { bits, x_if_any })
}

/// This process's umask, which cannot be asked for without setting it, but by /proc; 022 where there is none.
pub(crate) fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok())
        .unwrap_or(0o022)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_do_what_chmod_does() {
        // Change, old mode, directory or not, new mode; the umask is 022.
        let table: &[(&str, u32, bool, u32)] = &[
            ("644", 0o4755, false, 0o644),
            ("4755", 0, false, 0o4755),
            ("755", 0o2700, true, 0o2755),
            ("00755", 0o2700, true, 0o755),
            ("7777", 0, false, 0o7777),
            ("u+x", 0o644, false, 0o744),
            ("u+rwX,g-w,o=", 0o664, false, 0o640),
            ("u+rwX,g-w,o=", 0o010, false, 0o710),
            ("a+X", 0o644, false, 0o644),
            ("a+X", 0o644, true, 0o755),
            ("+w", 0o444, false, 0o644),
            ("-w", 0o666, false, 0o466),
            ("=r", 0o777, false, 0o444),
            ("go=u", 0o750, false, 0o777),
            ("g=o", 0o604, false, 0o644),
            ("u=g", 0o4050, false, 0o550),
            ("u+s", 0o755, false, 0o4755),
            ("g-s", 0o2755, true, 0o755),
            ("g=rx", 0o2700, true, 0o2750),
            ("g=rx", 0o2700, false, 0o750),
            ("+t", 0o777, true, 0o1777),
            ("u=rw,go=r", 0o777, false, 0o644),
            ("a-x+X", 0o755, false, 0o644),
            ("u=", 0o777, false, 0o077),
            ("ug+rw-x", 0o111, false, 0o661),
        ];
        for &(change, old, is_dir, new) in table {
            let made: ModeChange = change.parse().unwrap();
            let result = made.apply(old, is_dir, 0o022);
            assert_eq!(result, new, "{change} on {old:o}: {result:o}, not {new:o}");
        }
    }

    #[test]
    fn what_is_no_mode_is_refused() {
        for text in [
            "", "8", "99", "10000", "77777", "u", "+q", "u+rwx,", "u+ug", "z+r", "rwx", "0x7",
            "u r", "u+r w", "6 4", ",", "u+é", "é+r",
        ] {
            let result = text.parse::<ModeChange>();
            assert!(result.is_err(), "{text:?} is taken as {result:?}");
        }
    }
}
