//! Slips of the pen in manifests: versions that are written as numbers, dates that lack a digit. They are found in the
//! object as it was written, before it is read as one of its kind, with what they were meant to be.

use std::fmt;

use allotment_api::catalog::Date;
use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::Value;

use super::dates;

/// One slip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slip {
    path: Path,
    /// As JSON.
    written: String,
    corrected: String,
    /// What is wrong with it, and what to write.
    detail: String,
}

impl Slip {
    /// The text that was meant.
    pub fn corrected(&self) -> &str {
        &self.corrected
    }

    /// The same for those who refuse it.
    pub fn error(&self) -> FieldError {
        FieldError::invalid(&self.path, ShownValue::raw(self.written.as_str()), &*self.detail)
    }
}

impl fmt::Display for Slip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.path, self.written, self.detail)
    }
}

/// Puts right what is slipped in a CloudProfile or a private one, and says what.
pub fn correct(object: &mut Value) -> Vec<Slip> {
    let mut slips = Vec::new();
    let Some(spec) = object.get_mut("spec") else { return slips };
    let path = Path::new("spec");
    if let Some(kubernetes) = spec.get_mut("kubernetes") {
        versions(kubernetes, &path.child("kubernetes"), &mut slips);
    }
    let images = spec.get_mut("machineImages").and_then(Value::as_array_mut);
    for (index, image) in images.into_iter().flatten().enumerate() {
        let list = path.child("machineImages");
        let at = image.get("name").and_then(Value::as_str).map_or_else(|| list.index(index), |name| list.key(name));
        versions(image, &at, &mut slips);
    }
    if let Some(image) = spec.get_mut("bastion").and_then(|bastion| bastion.get_mut("machineImage")) {
        let path = path.child("bastion").child("machineImage");
        slips.extend(image.get_mut("version").and_then(|version| number(version, &path.child("version"))));
    }
    slips
}

fn versions(holder: &mut Value, path: &Path, slips: &mut Vec<Slip>) {
    let entries = holder.get_mut("versions").and_then(Value::as_array_mut);
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let list = path.child("versions");
        let slip = entry.get_mut("version").and_then(|version| number(version, &list));
        let at = entry.get("version").and_then(Value::as_str).map_or_else(|| list.index(index), |key| list.key(key));
        slips.extend(slip.map(|slip| Slip { path: at.child("version"), ..slip }));
        if let Some(Value::String(date)) = entry.get_mut("expirationDate") {
            let corrected = if Date::new(date.as_str()).at().is_some() { None } else { dates::corrected(date) };
            if let Some(corrected) = corrected {
                let written = std::mem::replace(date, corrected.clone());
                let (path, detail) = (at.child("expirationDate"), dates::fault(&written));
                slips.push(Slip { path, written: format!("{written:?}"), corrected, detail });
            }
        }
    }
}

fn number(version: &mut Value, path: &Path) -> Option<Slip> {
    let Value::Number(number) = version else { return None };
    let written = number.as_str().to_owned();
    *version = Value::from(written.as_str());
    let detail = format!("a version is a text, and this a number: quote the version, {written:?}");
    Some(Slip { path: path.clone(), corrected: written.clone(), written, detail })
}
