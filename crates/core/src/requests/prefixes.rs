//! Prefixes of cluster-scoped names on shared Clusters.
//!
//! Canonical: a letter, 2 to 18 letters and digits, one hyphen at the end. Then no prefix begins
//! another, so that being unique is being different, and one compare-and-swap of the Cluster checks it.

use allotment_api::reasons::PrefixReason;
use allotment_api::requests::Tenant;

/// How many random prefixes are tried. One that is taken is a chance in billions; the bound is there
/// for a source of proposals that repeats itself.
const MOST_PROPOSALS: usize = 16;

/// What names that belong to Kubernetes and to the platform begin with: `kube-system`, `system-node-critical`,
/// `allot-access`, in which the identities of all tenants lie, `access-…`, the roles of each of them, and the policy
/// `allotment-prefixes`. And those that Kubernetes makes for everybody, whatever is there when a tenant comes: PersistentVolumes
/// (`pvc-…`, external-provisioner), VolumeSnapshotContents (`snapcontent-…`, external-snapshotter), and the
/// CertificateSigningRequests of kubelets (`csr-…`, `node-csr-…`).
const RESERVED: [&str; 9] =
    ["access-", "allot-", "allotment-", "csr-", "kube-", "node-", "pvc-", "snapcontent-", "system-"];

/// Whether a prefix is never a tenant's, since names that belong to the cluster itself begin with it.
pub(crate) fn is_reserved(prefix: &str) -> bool {
    RESERVED.contains(&prefix)
}

/// Whether a name is one of the tenant that was given that prefix. Who was given a reserved one owns nothing by it.
pub fn owns(prefix: &str, name: &str) -> bool {
    !prefix.is_empty() && !is_reserved(prefix) && name.starts_with(prefix)
}

/// Whether a text may be proposed at all: `[a-z][a-z0-9]{0,18}-`.
pub fn is_well_formed(prefix: &str) -> bool {
    let Some(name) = prefix.strip_suffix('-') else { return false };
    let mut bytes = name.bytes();
    name.len() <= 19
        && bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Whether a well-formed prefix is long enough to be given: `[a-z][a-z0-9]{2,18}-`.
pub fn is_canonical(prefix: &str) -> bool {
    is_well_formed(prefix) && prefix.len() >= 4
}

/// Why a proposed prefix is not given on a shared Cluster with these tenants; `None` if it is.
pub(crate) fn obstacle<'a>(proposed: &str, mut tenants: impl Iterator<Item = &'a Tenant>) -> Option<PrefixReason> {
    if !is_canonical(proposed) {
        return Some(PrefixReason::TooShort);
    }
    if is_reserved(proposed) {
        return Some(PrefixReason::Taken);
    }
    tenants.find(|tenant| tenant.prefix == proposed).map(|tenant| match tenant.released {
        true => PrefixReason::Quarantined,
        false => PrefixReason::Taken,
    })
}

/// The prefix for a new tenant of a shared Cluster: the one proposed, or a random one; `None` where
/// the proposals give none that is free.
pub(crate) fn choose(
    proposed: Option<&str>,
    tenants: &[Tenant],
    proposals: &mut dyn Iterator<Item = String>,
) -> Option<String> {
    match proposed {
        Some(proposed) if obstacle(proposed, tenants.iter()).is_none() => Some(proposed.to_owned()),
        _ => proposals
            .take(MOST_PROPOSALS)
            .map(|text| format!("{text}-"))
            .find(|prefix| obstacle(prefix, tenants.iter()).is_none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_letter_then_letters_and_digits_and_one_hyphen_at_the_end() {
        for (prefix, well_formed, canonical) in [
            ("foo-", true, true),
            ("f00-", true, true),
            ("fo-", true, false),
            ("a-", true, false),
            ("foo", false, false),
            ("-", false, false),
            ("", false, false),
            ("0oo-", false, false),
            ("Foo-", false, false),
            ("fo-o-", false, false),
            ("foo--", false, false),
            ("abcdefghijklmnopqrs-", true, true),
            ("abcdefghijklmnopqrst-", false, false),
            ("föö-", false, false),
        ] {
            assert_eq!((is_well_formed(prefix), is_canonical(prefix)), (well_formed, canonical), "{prefix:?}");
        }
    }

    #[test]
    fn nobody_owns_what_belongs_to_the_cluster_itself() {
        for (prefix, name, expect) in [
            ("foo-", "foo-a", true),
            ("foo-", "food", false),
            ("", "foo-a", false),
            ("allot-", "allot-access", false),
            ("kube-", "kube-system", false),
            ("access-", "access-3c2a", false),
            ("allotment-", "allotment-prefixes", false),
            ("pvc-", "pvc-1b4e28ba-2fa1-11d2-883f-0016d3cca427", false),
            ("snapcontent-", "snapcontent-1b4e28ba-2fa1-11d2-883f-0016d3cca427", false),
            ("csr-", "csr-8b9xk", false),
            ("node-", "node-csr-3hc7d", false),
            ("kubes-", "kubes-a", true),
        ] {
            assert_eq!(owns(prefix, name), expect, "{prefix} {name}");
        }
    }

    #[test]
    fn what_is_taken_quarantined_or_too_short_is_replaced_by_a_random_one() {
        let tenant = |prefix: &str, released| Tenant { prefix: prefix.into(), released, ..Tenant::default() };
        let tenants = [tenant("foo-", false), tenant("bar-", true), tenant("bcdfghjklm-", false)];
        for (proposed, expect, reason) in [
            (Some("baz-"), "baz-", None),
            (Some("foo-"), "bcdfghjkln-", Some(PrefixReason::Taken)),
            (Some("bar-"), "bcdfghjkln-", Some(PrefixReason::Quarantined)),
            (Some("ab-"), "bcdfghjkln-", Some(PrefixReason::TooShort)),
            (Some("kube-"), "bcdfghjkln-", Some(PrefixReason::Taken)),
            (Some("allot-"), "bcdfghjkln-", Some(PrefixReason::Taken)),
            (Some("system-"), "bcdfghjkln-", Some(PrefixReason::Taken)),
            (Some("pvc-"), "bcdfghjkln-", Some(PrefixReason::Taken)),
            (Some("node-"), "bcdfghjkln-", Some(PrefixReason::Taken)),
            (Some("snapcontent-"), "bcdfghjkln-", Some(PrefixReason::Taken)),
            (None, "bcdfghjkln-", None),
        ] {
            let mut proposals = ["bcdfghjklm", "bcdfghjkln"].map(str::to_owned).into_iter();
            assert_eq!(choose(proposed, &tenants, &mut proposals).as_deref(), Some(expect), "{proposed:?}");
            assert_eq!(proposed.and_then(|text| obstacle(text, tenants.iter())), reason);
        }
        let mut same = std::iter::repeat("bcdfghjklm".to_owned());
        assert_eq!(choose(None, &tenants, &mut same), None, "bounded, and never a prefix that is taken");
    }
}
