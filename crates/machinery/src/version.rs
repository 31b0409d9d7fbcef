//! Versions: of APIs (`v1`, `v2beta1`) in the order of their priority, and of releases (`1.30.2`) by their
//! numeric components. Which versions are offered is left to others.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The longest text that is read as a version, in bytes.
const MAX_LENGTH: usize = 256;

/// Orders API versions by priority: stable before beta before alpha, higher numbers first, and behind
/// them, by name, all that look otherwise (`CompareKubeAwareVersionStrings`).
pub fn by_priority(left: &str, right: &str) -> Ordering {
    match (api_version(left), api_version(right)) {
        (Some(left), Some(right)) => right.cmp(&left),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// Whether an API version is stable: `v1`, not `v1beta1`.
pub fn is_stable(version: &str) -> bool {
    api_version(version).is_some_and(|(stability, ..)| stability == Stability::Stable)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

fn api_version(text: &str) -> Option<(Stability, u64, u64)> {
    let text = text.strip_prefix('v')?;
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (major, rest) = (component(&text[..end])?, &text[end..]);
    if rest.is_empty() {
        return Some((Stability::Stable, major, 0));
    }
    let (stability, minor) = match rest.strip_prefix("beta") {
        Some(minor) => (Stability::Beta, minor),
        None => (Stability::Alpha, rest.strip_prefix("alpha")?),
    };
    Some((stability, major, component(minor)?))
}

/// Digits only; they may have leading zeros.
fn component(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Why a text is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a version: it has to be {expected}")]
pub struct VersionError {
    /// The text.
    pub text: String,
    /// What it has to be.
    pub expected: &'static str,
}

/// The version of a release, as semantic versioning has it: `1.30.2`, `1.31.0-rc.1+build`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// First component.
    pub major: u64,
    /// Second component.
    pub minor: u64,
    /// Third component.
    pub patch: u64,
    /// What follows a dash; empty for a release proper.
    pub pre_release: String,
    /// What follows a plus; tells nothing about order.
    pub build: String,
}

impl Version {
    /// A release proper.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Version { major, minor, patch, pre_release: String::new(), build: String::new() }
    }

    /// A version of which the second and third component may be absent, being 0 then: `15.4`.
    pub fn parse_short(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError { text: text.to_owned(), expected: "one to three numbers such as 15.4 or 1.30.2" };
        let (numbers, pre_release, build) = split(text).ok_or_else(error)?;
        let number = |index: usize| numbers.get(index).copied().unwrap_or_default();
        let (pre_release, build) = (pre_release.to_owned(), build.to_owned());
        Ok(Version { major: number(0), minor: number(1), patch: number(2), pre_release, build })
    }

    /// Whether it comes before the release proper.
    pub fn is_pre_release(&self) -> bool {
        !self.pre_release.is_empty()
    }
}

/// The numbers (one to three), what follows the dash, what follows the plus. A leading `v` is dropped.
fn split(text: &str) -> Option<(Vec<u64>, &str, &str)> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre_release) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let identifiers_ok = |text: Option<&str>| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        text.is_none_or(|text| text.split('.').all(|part| !part.is_empty() && part.bytes().all(plain)))
    };
    let has_leading_zero = |part: &str| part.len() > 1 && part.starts_with('0') && component(part).is_some();
    if !identifiers_ok(pre_release) || !identifiers_ok(build) {
        return None;
    }
    if pre_release.is_some_and(|text| text.split('.').any(has_leading_zero)) {
        return None;
    }
    let number = |part: &str| if has_leading_zero(part) { None } else { component(part) };
    let numbers: Vec<u64> = core.split('.').map(number).collect::<Option<_>>()?;
    (numbers.len() <= 3).then_some((numbers, pre_release.unwrap_or_default(), build.unwrap_or_default()))
}

impl FromStr for Version {
    type Err = VersionError;

    /// Reads three numbers and what may follow them; a leading `v` is dropped.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError { text: text.to_owned(), expected: "three numbers such as 1.30.2" };
        let (numbers, pre_release, build) = split(text).ok_or_else(error)?;
        let [major, minor, patch] = numbers[..] else { return Err(error()) };
        Ok(Version { major, minor, patch, pre_release: pre_release.to_owned(), build: build.to_owned() })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre_release.is_empty() {
            write!(f, "-{}", self.pre_release)?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

impl Ord for Version {
    /// The precedence of semantic versioning; versions that differ in their build alone by that, so that
    /// equal order means equal.
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Version| (version.major, version.minor, version.patch);
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| pre_release_order(&self.pre_release, &other.pre_release))
            .then_with(|| self.build.cmp(&other.build))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn pre_release_order(left: &str, right: &str) -> Ordering {
    // None at all is the release proper, which comes last.
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(left), Some(right)) => identifier_order(left, right),
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Numbers by value and before words. Without leading zeros, the longer number is the larger.
fn identifier_order(left: &str, right: &str) -> Ordering {
    let numeric = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match (numeric(left), numeric(right)) {
        (true, true) => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => left.cmp(right),
    }
}

/// Which versions are asked for: all (an empty text), those that begin with some numbers (`1`, `1.30`),
/// or one (`1.30.2`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct VersionRequest {
    numbers: Vec<u64>,
    pre_release: String,
}

impl VersionRequest {
    /// Whether it asks for one version.
    pub fn is_full(&self) -> bool {
        self.numbers.len() == 3
    }

    /// Whether it asks for nothing in particular.
    pub fn is_any(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether `version` is asked for. Pre-releases are only if named in full.
    pub fn matches(&self, version: &Version) -> bool {
        let numbers = [version.major, version.minor, version.patch];
        numbers.starts_with(&self.numbers) && version.pre_release == self.pre_release
    }
}

impl FromStr for VersionRequest {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || {
            let expected = "empty or one to three numbers such as 1.30 or 1.30.2";
            VersionError { text: text.to_owned(), expected }
        };
        if text.is_empty() {
            return Ok(VersionRequest::default());
        }
        let (numbers, pre_release, build) = split(text).ok_or_else(error)?;
        if !build.is_empty() || (!pre_release.is_empty() && numbers.len() < 3) {
            return Err(error());
        }
        Ok(VersionRequest { numbers, pre_release: pre_release.to_owned() })
    }
}

impl fmt::Display for VersionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, number) in self.numbers.iter().enumerate() {
            let dot = if index > 0 { "." } else { "" };
            write!(f, "{dot}{number}")?;
        }
        if !self.pre_release.is_empty() {
            write!(f, "-{}", self.pre_release)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn api_versions_are_ordered_by_stability_and_number() {
        let mut versions = vec![
            "foo10",
            "v1",
            "v10beta2",
            "v3beta1",
            "v12alpha1",
            "foo1",
            "v11alpha2",
            "v2",
            "v10",
            "v11beta2",
            "v1betax",
        ];
        versions.sort_by(|left, right| by_priority(left, right));
        let expect = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta2",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v1betax",
        ];
        assert_eq!(versions, expect);
        assert!(is_stable("v2") && !is_stable("v2beta1") && !is_stable("v"));
    }

    #[track_caller]
    fn matching(request: &str, expect: &[&str]) {
        let offered = ["1.3.7", "1.30.1", "1.30.2", "1.31.0-rc.1", "2.0.0"];
        let wanted: VersionRequest = request.parse().expect(request);
        let matched = offered.into_iter().filter(|text| wanted.matches(&text.parse().expect(text)));
        assert_eq!(matched.collect::<Vec<_>>(), expect, "{request}");
    }

    #[test]
    fn requests_match_by_whole_components() {
        matching("", &["1.3.7", "1.30.1", "1.30.2", "2.0.0"]);
        matching("1", &["1.3.7", "1.30.1", "1.30.2"]);
        matching("v1.3", &["1.3.7"]);
        matching("1.30", &["1.30.1", "1.30.2"]);
        matching("v1.30.2", &["1.30.2"]);
        matching("1.31", &[]);
        matching("1.31.0-rc.1", &["1.31.0-rc.1"]);
        for text in ["1.30.x", "x", "1.", ".1", "1..2", "1.2.3.4", "vv1", "1.30-rc.1", "01", "1.30.2+b", " 1", "-1"] {
            assert!(text.parse::<VersionRequest>().is_err(), "{text}");
        }
        let error = "1.30.x".parse::<VersionRequest>().expect_err("not a version").to_string();
        assert_eq!(
            error,
            "\"1.30.x\" is not a version: it has to be empty or one to three numbers such as 1.30 or 1.30.2"
        );
    }

    #[test]
    fn versions_are_ordered_as_semantic_versioning_says() {
        let ordered = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.3.0",
            "1.30.0",
            "1.30.0+b",
            "2.0.0",
        ];
        for pair in ordered.windows(2) {
            let read = |text: &str| text.parse::<Version>().expect(text);
            assert!(read(pair[0]) < read(pair[1]), "{pair:?}");
        }
        for text in
            ["1.30", "1", "", "1.2.3-", "1.2.3-a..b", "1.2.3-01", "1.02.3", "1.2.3+", "99999999999999999999.0.0"]
        {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
        assert_eq!(Version::parse_short("15.4"), Ok(Version::new(15, 4, 0)));
        assert!(Version::parse_short("15.x").is_err());
    }

    proptest! {
        #[test]
        fn versions_and_requests_print_what_they_read(text in "v?[0-9]{1,3}(\\.[0-9]{1,3}){0,2}(-[a-z1.]{1,4})?") {
            if let Ok(version) = text.parse::<Version>() {
                prop_assert_eq!(version.to_string().parse::<Version>(), Ok(version.clone()));
                prop_assert!(text.parse::<VersionRequest>().is_ok_and(|request| request.matches(&version)));
            }
            if let Ok(request) = text.parse::<VersionRequest>() {
                prop_assert_eq!(request.to_string().parse::<VersionRequest>(), Ok(request));
            }
        }

        #[test]
        fn priority_is_an_order(mut versions in proptest::collection::vec("v?[0-2]((alpha|beta)[0-2])?", 0..12)) {
            versions.sort_by(|left, right| by_priority(left, right));
            for pair in versions.windows(2) {
                prop_assert_ne!(by_priority(&pair[1], &pair[0]), Ordering::Less);
            }
        }
    }
}
