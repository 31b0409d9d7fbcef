//! Schedules of CronJobs, read as `github.com/robfig/cron` reads them, with its words for what is wrong.

use allotment_machinery::duration::Duration;

/// What a field may be.
struct Bounds {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minute, hour, day of the month, month, day of the week. The first name stands for the least number.
const FIELDS: [Bounds; 5] = [
    Bounds { least: 0, most: 59, names: &[] },
    Bounds { least: 0, most: 23, names: &[] },
    Bounds { least: 1, most: 31, names: &[] },
    Bounds { least: 1, most: 12, names: MONTHS },
    Bounds { least: 0, most: 6, names: DAYS },
];

const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What is wrong with a schedule; `None` for one that can be kept.
pub(crate) fn fault(schedule: &str) -> Option<String> {
    read(schedule).err()
}

fn read(schedule: &str) -> Result<(), String> {
    let fields = match schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ=")) {
        Some(rest) => match rest.split_once(' ') {
            Some((_, fields)) => fields.trim(),
            None => return Err("invalid schedule format: runtime error: slice bounds out of range".to_owned()),
        },
        None => schedule,
    };
    if fields.starts_with('@') {
        return descriptor(fields);
    }
    let parts: Vec<&str> = fields.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        let found = parts.len();
        return Err(format!("expected exactly {} fields, found {found}: [{}]", FIELDS.len(), parts.join(" ")));
    }
    parts.iter().zip(&FIELDS).try_for_each(|(field, bounds)| {
        field.split(',').filter(|range| !range.is_empty()).try_for_each(|range| bounds.range(range))
    })
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) => duration
            .parse::<Duration>()
            .map(|_| ())
            .map_err(|_| format!("failed to parse duration {text}: time: invalid duration {duration:?}")),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

impl Bounds {
    /// `*`, `5`, `mon-fri`, `*/10`, `5-10/2`
    fn range(&self, range: &str) -> Result<(), String> {
        let (span, step) = range.split_once('/').map_or((range, None), |(span, step)| (span, Some(step)));
        let mut ends = span.split('-');
        let first = ends.next().unwrap_or_default();
        let (start, mut end) = if matches!(first, "*" | "?") {
            (self.least, self.most)
        } else {
            let start = self.number(first)?;
            let end = ends.next().map(|end| self.number(end)).transpose()?;
            if ends.next().is_some() {
                return Err(format!("too many hyphens: {range}"));
            }
            (start, end.unwrap_or(start))
        };
        let step = match step {
            None => 1,
            Some(step) if step.contains('/') => return Err(format!("too many slashes: {range}")),
            Some(step) => {
                // `5/10` means from five to the most.
                if !span.contains('-') {
                    end = self.most;
                }
                number(step)?
            }
        };
        match () {
            () if start < self.least => {
                Err(format!("beginning of range ({start}) below minimum ({}): {range}", self.least))
            }
            () if end > self.most => Err(format!("end of range ({end}) above maximum ({}): {range}", self.most)),
            () if start > end => Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}")),
            () if step == 0 => Err(format!("step of range should be a positive number: {range}")),
            () => Ok(()),
        }
    }

    fn number(&self, text: &str) -> Result<u64, String> {
        let lower = text.to_lowercase();
        match self.names.iter().position(|name| *name == lower) {
            Some(index) => Ok(self.least + u64::try_from(index).unwrap_or_default()),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(value) => u64::try_from(value).map_err(|_| format!("negative number ({value}) not allowed: {text}")),
        Err(error) => {
            let why = match error.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn schedules_are_five_fields_or_a_descriptor() {
        for schedule in ["* * * * *", "*/5 0-3,8 1 jan-Mar MON", "0 0 ? * 0", "5/10 * * * *", "@daily", "@every 1h30m"]
        {
            assert_eq!(fault(schedule), None, "{schedule}");
        }
        for (schedule, expect) in [
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            ("", "expected exactly 5 fields, found 0: []"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("9-3 * * * *", "beginning of range (9) beyond end of range (3): 9-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("*/1/2 * * * *", "too many slashes: */1/2"),
            ("@noon", "unrecognized descriptor: @noon"),
        ] {
            assert_eq!(fault(schedule).as_deref(), Some(expect), "{schedule}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(schedule in "[-*/,0-9a-z@= ?]{0,40}") {
            let _ = fault(&schedule);
        }
    }
}
