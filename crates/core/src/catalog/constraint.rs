//! Which kubelets a version of an image works with: comparisons with versions (`< 1.26`), as
//! `github.com/Masterminds/semver` reads and answers them, since that is what landscapes write for.

use allotment_machinery::version::Version;

/// How a version is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// `~1.2.3`: later patches.
    Tilde,
    /// `^1.2.3`: later versions that are compatible.
    Caret,
}

/// One comparison.
#[derive(Clone, Debug)]
struct Comparison {
    operator: Operator,
    /// What is given of major, minor and patch.
    given: Vec<u64>,
    /// The same as a version, what is not given being 0.
    least: Version,
}

/// Comparisons of which those of one group have to hold.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    groups: Vec<Vec<Comparison>>,
}

impl Constraint {
    /// Reads comparisons, joined by commas or blanks, and groups of these by `||`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let groups = text.split("||").map(group).collect::<Option<Vec<_>>>()?;
        Some(Constraint { groups })
    }

    /// Whether a version is allowed.
    pub(super) fn allows(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| group.iter().all(|comparison| comparison.holds(version)))
    }
}

fn group(text: &str) -> Option<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let start = rest.find(|character| !"<>=!~^".contains(character)).unwrap_or(rest.len());
        let (sign, after) = rest.split_at(start);
        let after = after.trim_start();
        let end = after.find([',', ' ', '<', '>', '=', '!', '~', '^']).unwrap_or(after.len());
        let (version, after) = after.split_at(end);
        comparisons.push(Comparison::read(operator(sign)?, version)?);
        rest = after.trim_start_matches([',', ' ']);
    }
    (!comparisons.is_empty()).then_some(comparisons)
}

fn operator(sign: &str) -> Option<Operator> {
    Some(match sign {
        "" | "=" | "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" | "=<" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" | "=>" => Operator::GreaterOrEqual,
        "~" | "~>" => Operator::Tilde,
        "^" => Operator::Caret,
        _ => return None,
    })
}

impl Comparison {
    fn read(operator: Operator, text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let mut parts: Vec<&str> = numbers.split('.').collect();
        while parts.last().is_some_and(|part| matches!(*part, "x" | "X" | "*")) {
            parts.pop();
        }
        let is_open = parts.len() < 3;
        if parts.is_empty() {
            return rest.is_empty().then(|| Comparison { operator, given: Vec::new(), least: Version::new(0, 0, 0) });
        }
        let least = Version::parse_short(&format!("{}{rest}", parts.join("."))).ok()?;
        let mut given = numbers_of(&least).to_vec();
        given.truncate(if is_open { parts.len() } else { 3 });
        Some(Comparison { operator, given, least })
    }

    fn holds(&self, version: &Version) -> bool {
        // Who does not name a pre-release does not mean one.
        if version.is_pre_release() && !self.least.is_pre_release() {
            return false;
        }
        let is_full = self.given.len() == 3;
        let shares = |count: usize| numbers_of(version).starts_with(self.given.get(..count).unwrap_or(&self.given));
        let is_same = if is_full { *version == self.least } else { shares(3) };
        match self.operator {
            Operator::Equal => is_same,
            Operator::NotEqual => !is_same,
            Operator::Less => *version < self.least,
            Operator::LessOrEqual => *version < self.least || is_same,
            Operator::Greater => *version > self.least && !is_same,
            Operator::GreaterOrEqual => *version >= self.least,
            Operator::Tilde => *version >= self.least && shares(2),
            Operator::Caret => {
                let zeros = self.given.iter().take_while(|number| **number == 0).count();
                *version >= self.least && shares(zeros + 1)
            }
        }
    }
}

fn numbers_of(version: &Version) -> [u64; 3] {
    [version.major, version.minor, version.patch]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, allowed: &[&str], refused: &[&str]) {
        let constraint = Constraint::read(text).unwrap_or_else(|| panic!("{text} is a constraint"));
        let allows = |version: &&str| constraint.allows(&version.parse().expect("a version"));
        for version in allowed {
            assert!(allows(version), "{text} allows {version}");
        }
        for version in refused {
            assert!(!allows(version), "{text} does not allow {version}");
        }
    }

    #[test]
    fn versions_are_compared_and_what_is_not_given_is_any() {
        check("< 1.30", &["1.29.9", "0.1.0"], &["1.30.0", "1.31.2", "1.29.0-rc.1"]);
        check("<= 1.30", &["1.29.9", "1.30.0", "1.30.7"], &["1.31.0"]);
        check("<= 1.30.2", &["1.30.2"], &["1.30.3"]);
        check("> 1.30", &["1.31.0", "2.0.0"], &["1.30.0", "1.30.9", "1.29.1"]);
        check("> 1.30.2", &["1.30.3"], &["1.30.2"]);
        check(">= 1.30", &["1.30.0", "1.31.0"], &["1.29.9"]);
        check("=> 1.30", &["1.30.0"], &["1.29.9"]);
        check("1.26", &["1.26.0", "1.26.9"], &["1.27.0", "1.25.9"]);
        check("1.26.x", &["1.26.9"], &["1.27.0"]);
        check("= 1.26.1", &["1.26.1"], &["1.26.2"]);
        check("==1.26.1", &["1.26.1"], &["1.26.2"]);
        check("!=1.26.1", &["1.26.2", "1.27.0"], &["1.26.1"]);
        check("!= 1.26", &["1.27.0"], &["1.26.2"]);
        check("*", &["0.0.1", "1.30.2"], &[]);
        check("< 1.31.0-rc.2", &["1.31.0-rc.1", "1.30.9"], &["1.31.0-rc.2", "1.31.0"]);
    }

    #[test]
    fn ranges_and_groups_are_what_they_are_elsewhere() {
        check("~1.2.3", &["1.2.3", "1.2.9"], &["1.2.2", "1.3.0"]);
        check("~1.2", &["1.2.0", "1.2.9"], &["1.3.0"]);
        check("~1", &["1.0.0", "1.9.0"], &["2.0.0"]);
        check("^1.2.3", &["1.2.3", "1.9.0"], &["1.2.2", "2.0.0"]);
        check("^1", &["1.0.0", "1.9.0"], &["2.0.0"]);
        check("^0.2.3", &["0.2.3", "0.2.9"], &["0.3.0", "0.2.2"]);
        check("^0.0.3", &["0.0.3"], &["0.0.4"]);
        check("^0.0", &["0.0.4"], &["0.1.0"]);
        check("^0", &["0.9.4"], &["1.0.0"]);
        for text in [">=1.25, <1.28", ">= 1.25 < 1.28", ">=1.25<1.28"] {
            check(text, &["1.25.0", "1.27.9"], &["1.24.9", "1.28.0"]);
        }
        check("~1.2.3 || ^2", &["1.2.4", "2.5.0"], &["1.3.0", "3.0.0"]);
        check("< 1.26 || > 1.28", &["1.25.0", "1.29.0"], &["1.26.0", "1.28.3"]);
    }

    #[test]
    fn what_is_no_comparison_is_no_constraint() {
        for text in ["", "<", "new ones", "< 1.26 ||", "< 1.26, >", "<> 1.26", "1.2.3.4", "x.1", "1.x.2", "< 1.26, , "]
        {
            let is_read = Constraint::read(text).is_some();
            assert_eq!(is_read, text == "< 1.26, , ", "{text}");
        }
    }
}
