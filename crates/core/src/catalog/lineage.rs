//! Whether what a private profile names as its parent can be one, and why it has none: told alike by admission, conditions
//! and commands.

use allotment_api::catalog::ParentRef;
use allotment_machinery::field::{FieldError, Path};

use super::reference::check_name;

const MULTI_LEVEL: &str = "multi-level inheritance is not supported";

/// What there is where a parent should be.
#[derive(Clone, Copy, Debug)]
pub enum NoParent<'a> {
    /// Nothing of that name; what is said of that.
    Missing(&'a str),
    /// A private profile of that namespace.
    Private(&'a str),
}

/// Whether the kind is the one that there is, be it said or not.
pub(super) fn names_a_cloud_profile(parent: &ParentRef) -> bool {
    matches!(parent.kind.as_deref(), None | Some("" | "CloudProfile"))
}

/// Whether two references name the same parent, in whichever form.
fn is_same_parent(left: &ParentRef, right: &ParentRef) -> bool {
    let kind = |parent: &ParentRef| parent.kind.clone().filter(|_| !names_a_cloud_profile(parent));
    left.name == right.name && kind(left) == kind(right)
}

/// What is wrong with the reference by itself; `old` is what was stored.
pub(super) fn faults_of_reference(parent: &ParentRef, old: Option<&ParentRef>) -> Vec<FieldError> {
    let path = Path::new("spec").child("parent");
    let mut faults = Vec::new();
    if parent.name.is_empty() {
        faults.push(FieldError::required(&path, "name the CloudProfile that this adds to"));
    } else if let Err(fault) = check_name(&path, &parent.name) {
        faults.push(fault);
    }
    if let Some(kind) = parent.kind.as_deref().filter(|_| !names_a_cloud_profile(parent)) {
        let detail = format!("{MULTI_LEVEL}: name a CloudProfile");
        faults.push(FieldError::invalid(&path.child("kind"), kind, detail));
    }
    if let Some(old) = old.filter(|old| !is_same_parent(old, parent)) {
        let detail = format!("is immutable, and was {:?}: make another PrivateCloudProfile", old.name);
        faults.push(FieldError::invalid(&path, &parent.name, detail));
    }
    faults
}

/// Why there is no parent of the name that a private profile says; `old` is what was stored.
pub fn why_no_parent(parent: &ParentRef, old: Option<&ParentRef>, there: NoParent<'_>) -> FieldError {
    let path = Path::new("spec").child("parent");
    let by_itself = faults_of_reference(parent, old).into_iter().next();
    by_itself.unwrap_or_else(|| match there {
        NoParent::Private(namespace) => {
            let what = format!("{:?} is a PrivateCloudProfile of namespace {namespace:?}", parent.name);
            FieldError::invalid(&path, &parent.name, format!("{MULTI_LEVEL}: {what}; name a CloudProfile"))
        }
        NoParent::Missing(detail) => FieldError::invalid(&path, &parent.name, detail),
    })
}

/// What a condition says of a parent that none can be; nothing where one may be there.
pub(super) fn said_of_reference(parent: &ParentRef) -> Option<String> {
    let (name, kind) = (&parent.name, parent.kind.as_deref());
    let is_wrong = !names_a_cloud_profile(parent);
    kind.filter(|_| is_wrong).map(|kind| format!("{kind} {name:?} is no CloudProfile: {MULTI_LEVEL}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Option<&str>, name: &str, old: Option<&str>, there: NoParent<'_>, expect: &[&str]) {
        let parent = ParentRef { kind: kind.map(str::to_owned), ..ParentRef::named(name) };
        let old = old.map(ParentRef::named);
        let said = why_no_parent(&parent, old.as_ref(), there).to_string();
        for part in expect {
            assert!(said.contains(part), "{part:?} is not in {said:?}");
        }
    }

    #[test]
    fn why_there_is_no_parent_is_told_in_one_order() {
        let missing = NoParent::Missing("make it before");
        let private = NoParent::Private("team");
        check(None, "", None, missing, &["spec.parent: Required value"]);
        check(
            None,
            "central?",
            None,
            missing,
            &["spec.parent: Invalid value: \"central?\": a lowercase RFC 1123 subdomain"],
        );
        check(None, "central?", Some("central"), private, &["a lowercase RFC 1123 subdomain"]);
        check(Some("Base"), "central", None, missing, &["spec.parent.kind: Invalid value: \"Base\"", MULTI_LEVEL]);
        check(Some("PrivateCloudProfile"), "base", None, missing, &["spec.parent.kind", MULTI_LEVEL]);
        check(None, "central", Some("second"), private, &["is immutable, and was \"second\""]);
        check(None, "base", None, private, &["is a PrivateCloudProfile of namespace \"team\"", MULTI_LEVEL]);
        for kind in [None, Some(""), Some("CloudProfile")] {
            check(
                kind,
                "central",
                Some("central"),
                missing,
                &["spec.parent: Invalid value: \"central\": make it before"],
            );
        }
    }
}
