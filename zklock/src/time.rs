//! Times and durations as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const WANTED: &str = "give numbers with ms, s, m, h or d, as in 5s or 1m30s";

/// Reads `500ms`, `5s`, `1.5h`, `1m30s` as an [`age`] is printed, or a plain number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut seconds = 0.0;
    let mut rest = text;
    loop {
        let unit = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (digits, others) = rest.split_at(unit);
        let next = others.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(others.len());
        let (unit, others) = others.split_at(next);
        let seconds_of_unit = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            // By itself only.
            "" if rest.len() == text.len() => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(WANTED.into()),
        };
        // No sign.
        let number =
            digits.strip_prefix(|c: char| c.is_ascii_digit()).and_then(|_| digits.parse::<f64>().ok());
        seconds += number.ok_or(WANTED)? * seconds_of_unit;
        if others.is_empty() {
            return Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
        }
        rest = others;
    }
}

/// Formats an age in its two largest units.
pub(crate) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0 => format!("{}ms", age.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// Formats a time as RFC 3339 does, in UTC.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86400, since.as_secs() % 86400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date so many days after 1970-01-01. Years begin in March here, so that leap days are last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, millis) in [
            ("0", 0),
            ("5", 5000),
            ("5s", 5000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1.5h", 5_400_000),
            ("1m30s", 90_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "s", "5 s", "-1s", "5x", "1e400s", "nan", "inf", "5sm", "1m30", "1m-5s", "1m s", "30s1x"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn ages_are_short() {
        for (seconds, text) in [(59, "59s"), (61, "1m01s"), (3_660, "1h01m"), (90_000, "1d01h")] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)));
        }
    }
}
