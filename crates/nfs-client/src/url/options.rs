//! The options of an NFS URL: their names, values and text form.

use std::fmt::{self, Display};
use std::time::Duration;

use super::{NfsUrl, UrlError, Version, parse_digits, parse_id, parse_port};
use crate::connection::Reconnect;
use crate::limits::{INTERFACE_BYTES_MAX, NCONNECT_MAX, URL_TIMEOUT_SECONDS_MAX};

/// The options that have an effect, for messages.
pub(super) const NAMES: &str = "version, nfsport, mountport, uid, gid, nconnect, rsize, wsize, \
    readdir-buffer, hint, timeout, timeo, retrans, autoreconnect, readonly, if";

pub(super) const ID_CURE: &str = "give a number from 0 to 4294967294";
pub(super) const VERSION_CURE: &str = "give 3, 4, 4.1 or 4.2";
pub(super) const NCONNECT_CURE: &str = "give a number from 1 to 16";
const BYTES_CURE: &str = "give a number of bytes, at least 512";
pub(super) const HINT_CURE: &str = "give sequential, random, noreuse, willneed or normal";
const TIMEOUT_CURE: &str = "give whole seconds, 1 to 1000000";
const TIMEO_CURE: &str = "give tenths of a second, 1 to 10000000";
const NUMBER_CURE: &str = "give a number";
const SWITCH_CURE: &str = "give 0 or 1";
const MOUNTS_CURE: &str =
    "exports below exports are not mounted by themselves: name them in the URL";
const SEC_CURE: &str = "sec=sys is the only one so far";
const XPRTSEC_CURE: &str = "xprtsec=none is the only one so far";
const READONLY_CURE: &str = "it takes no value but 0 or 1";
const INTERFACE_CURE: &str = "give the name of a network interface, as `ip link` shows it";

/// The smallest transfer that may be asked for, bytes: a disk sector.
const BYTES_MIN: u32 = 512;

impl NfsUrl {
    /// Takes the text behind the `?`.
    pub(super) fn read_options(&mut self, options: &str) -> Result<(), UrlError> {
        let mut seen: Vec<&str> = Vec::new();
        for pair in options.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if seen.contains(&name) {
                return Err(UrlError::RepeatedOption(name.to_owned()));
            }
            let bad = |cure| UrlError::BadValue {
                option: name.to_owned(),
                value: value.to_owned(),
                cure,
            };
            if !self.read_place(name, value)? && !self.read_setting(name, value).map_err(bad)? {
                check_without_effect(name, value)
                    .unwrap_or_else(|| Err(UrlError::UnknownOption(name.to_owned())))?;
            }
            seen.push(name);
        }
        Ok(())
    }

    /// Ports. False for another option.
    fn read_place(&mut self, name: &str, value: &str) -> Result<bool, UrlError> {
        match name {
            "nfsport" => {
                let nfsport = parse_port(value)?;
                match self.port {
                    Some(port) if port != nfsport => {
                        return Err(UrlError::TwoPorts { port, nfsport });
                    }
                    _ => self.port = Some(nfsport),
                }
            }
            "mountport" => self.mount_port = Some(parse_port(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What changes how the server is called. False for another option, the cure for a bad value.
    fn read_setting(&mut self, name: &str, value: &str) -> Result<bool, &'static str> {
        match name {
            "version" => {
                let mut known = Version::ALL.into_iter();
                let found = known.find(|version| version.word() == value);
                self.version = found.ok_or(VERSION_CURE)?;
            }
            "uid" => self.uid = Some(parse_id(value).ok_or(ID_CURE)?),
            "gid" => self.gid = Some(parse_id(value).ok_or(ID_CURE)?),
            "nconnect" => {
                let count = parse_digits(value).filter(|&n| n <= u64::from(NCONNECT_MAX));
                match count.and_then(|n| u8::try_from(n).ok()) {
                    Some(count) if count > 0 => self.nconnect = Some(count),
                    _ => return Err(NCONNECT_CURE),
                }
            }
            "rsize" => self.read_bytes = Some(parse_bytes(value)?),
            "wsize" => self.write_bytes = Some(parse_bytes(value)?),
            "readdir-buffer" => {
                let (one, other) = value.split_once(',').unwrap_or((value, value));
                self.directory_bytes = Some(parse_bytes(one)?.max(parse_bytes(other)?));
            }
            "hint" => self.hint = Some(value.parse().map_err(|_| HINT_CURE)?),
            "timeout" => {
                let seconds = parse_within(value, 1, URL_TIMEOUT_SECONDS_MAX);
                self.call_timeout = Some(Duration::from_secs(seconds.ok_or(TIMEOUT_CURE)?));
            }
            "timeo" => {
                let tenths = parse_within(value, 1, URL_TIMEOUT_SECONDS_MAX * 10);
                self.retry_after = Some(Duration::from_millis(100 * tenths.ok_or(TIMEO_CURE)?));
            }
            "retrans" => {
                if parse_digits(value).ok_or(NUMBER_CURE)? == 0 {
                    self.reconnect.get_or_insert(Reconnect::ForNewCalls);
                }
            }
            "autoreconnect" => {
                let count = value.strip_prefix('-').unwrap_or(value);
                if parse_digits(count).ok_or(NUMBER_CURE)? == 0 {
                    self.reconnect = Some(Reconnect::Never);
                }
            }
            "readonly" => match value {
                "" | "1" => self.read_only = true,
                "0" => self.read_only = false,
                _ => return Err(READONLY_CURE),
            },
            "if" => {
                let fits = (1..=INTERFACE_BYTES_MAX).contains(&value.len());
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
                if !fits || !value.bytes().all(plain) {
                    return Err(INTERFACE_CURE);
                }
                self.interface = Some(value.to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes the options, so that they parse to the same values.
    pub(super) fn write_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = '?';
        let mut write = |name: &str, value: Option<&dyn Display>| {
            let Some(value) = value else { return Ok(()) };
            write!(f, "{before}{name}={value}")?;
            before = '&';
            Ok(())
        };
        fn shown<T: Display>(value: &Option<T>) -> Option<&dyn Display> {
            value.as_ref().map(|value| value as &dyn Display)
        }
        let version = Some(self.version).filter(|version| *version != Version::V3);
        write("version", shown(&version))?;
        write("mountport", shown(&self.mount_port))?;
        write("uid", shown(&self.uid))?;
        write("gid", shown(&self.gid))?;
        write("nconnect", shown(&self.nconnect))?;
        write("rsize", shown(&self.read_bytes))?;
        write("wsize", shown(&self.write_bytes))?;
        write("readdir-buffer", shown(&self.directory_bytes))?;
        write("hint", shown(&self.hint))?;
        let seconds = self.call_timeout.map(|time| time.as_secs());
        write("timeout", shown(&seconds))?;
        let tenths = self.retry_after.map(|time| time.as_millis() / 100);
        write("timeo", shown(&tenths))?;
        match self.reconnect {
            Some(Reconnect::ForNewCalls) => write("retrans", Some(&0))?,
            Some(Reconnect::Never) => write("autoreconnect", Some(&0))?,
            Some(Reconnect::Resend) | None => {}
        }
        write("readonly", self.read_only.then_some(&1 as &dyn Display))?;
        write("if", shown(&self.interface))
    }
}

/// Options of libnfs that ask for what is done anyway. `None` for a name that is none of them.
fn check_without_effect(name: &str, value: &str) -> Option<Result<(), UrlError>> {
    let (fits, cure) = match name {
        "tcp-syncnt" | "debug" => (parse_digits(value).is_some(), NUMBER_CURE),
        "dircache" => (matches!(value, "0" | "1"), SWITCH_CURE),
        "auto-traverse-mounts" => (value == "0", MOUNTS_CURE),
        "sec" => (value == "sys", SEC_CURE),
        "xprtsec" => (value == "none", XPRTSEC_CURE),
        _ => return None,
    };
    let bad = || UrlError::BadValue {
        option: name.to_owned(),
        value: value.to_owned(),
        cure,
    };
    Some(if fits { Ok(()) } else { Err(bad()) })
}

/// A number of bytes; what is more than a `u32` holds is as good as the most that it does.
fn parse_bytes(text: &str) -> Result<u32, &'static str> {
    let bytes = parse_digits(text).ok_or(BYTES_CURE)?;
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    if bytes < BYTES_MIN {
        return Err(BYTES_CURE);
    }
    Ok(bytes)
}

fn parse_within(text: &str, min: u64, max: u64) -> Option<u64> {
    parse_digits(text).filter(|number| (min..=max).contains(number))
}
