//! Provider `existing`: what is made of what was seen of a cluster that somebody else runs. Looking, and talking to it,
//! is the controllers' part.
//!
//! # Guarantees
//! - A cluster is one Cluster at most: before anything is made in it, it bears the Cluster's UID, where every platform
//!   that has it in a ProviderConfig sees it.
//! - A Cluster is one cluster for good: a kubeconfig that comes to lead elsewhere makes it unhealthy, and nothing of its
//!   tenants is made there.

use std::time::Duration;

use allotment_api::names::FORCE_DELETE;
use allotment_api::reasons::ClusterConditionReason;

use super::Health;
use crate::requests::Version;

/// Trait of clusters that run Pods.
const COMPUTE: &str = "kubernetes.io/apis/compute";
/// Trait of clusters without nodes.
const WORKERLESS: &str = "cluster.openmcp.cloud/workerless";
/// How often a cluster is looked at that does well.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The first wait after a cluster did not answer; it doubles up to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// What was seen of a cluster when it was looked at last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Nobody has looked yet.
    #[default]
    NotLooked,
    /// There is no kubeconfig, or one that is not followed.
    NotUsable {
        /// What is wrong and what to do, for people.
        message: String,
    },
    /// It does not answer.
    Unreachable {
        /// Why, for people.
        message: String,
    },
    /// It answers, and does not let the platform in, or not with all rights.
    Refused {
        /// Why, for people.
        message: String,
    },
    /// It answers and does well.
    Seen(Seen),
}

/// A cluster that does well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it runs, `1.36.3`.
    pub version: String,
    /// What tells it from every other cluster: the UID of its namespace `kube-system`, which is made with it.
    pub identity: String,
    /// Whether it has a node.
    pub has_nodes: bool,
}

impl Sight {
    /// How long to wait before it is looked at again, after that many failures in a row.
    pub fn look_again(&self, failures: u32) -> Duration {
        match self {
            Sight::Seen(_) => LOOK_EVERY,
            Sight::NotLooked | Sight::NotUsable { .. } => FIRST_RETRY,
            Sight::Unreachable { .. } | Sight::Refused { .. } => {
                let doublings = failures.saturating_sub(1).min(5);
                FIRST_RETRY.saturating_mul(1 << doublings).min(LONGEST_RETRY)
            }
        }
    }

    /// Why it is of no use now; absent for one that does well.
    pub fn trouble(&self) -> Option<(ClusterConditionReason, &str)> {
        match self {
            Sight::NotLooked => Some((ClusterConditionReason::NotReported, "nobody has looked at the cluster yet")),
            Sight::NotUsable { message } => Some((ClusterConditionReason::ConfigNotUsable, message)),
            Sight::Unreachable { message } => Some((ClusterConditionReason::Unreachable, message)),
            Sight::Refused { message } => Some((ClusterConditionReason::AccessRefused, message)),
            Sight::Seen(_) => None,
        }
    }

    /// The traits of its profile: those that its ProviderConfig names, and what its nodes say where that says nothing.
    pub fn traits(&self, named: &[String]) -> Vec<String> {
        let mut traits: Vec<String> = named.to_vec();
        if let Sight::Seen(seen) = self
            && !named.iter().any(|name| name == COMPUTE || name == WORKERLESS)
        {
            traits.push(if seen.has_nodes { COMPUTE } else { WORKERLESS }.to_owned());
        }
        traits.sort_unstable();
        traits.dedup();
        traits
    }
}

/// The version that a server's `gitVersion` says, without what vendors add: `1.30.2` for `v1.30.2-gke.100` and
/// `v1.30.2+k3s1`.
pub fn served_version(git_version: &str) -> Option<String> {
    let text = git_version.strip_prefix('v').unwrap_or(git_version);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let numbers = text[..end].trim_end_matches('.');
    let is_whole = numbers.split('.').count() == 3;
    (is_whole && Version::parse(numbers).is_some()).then(|| numbers.to_owned())
}

/// Whose a cluster is, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    /// It was not read in this pass.
    #[default]
    NotRead,
    /// Nobody's.
    Free,
    /// This Cluster's.
    Ours,
    /// Another Cluster's.
    Others {
        /// Whose, for people.
        whose: String,
    },
}

/// What is known when a Cluster of provider `existing` is served.
#[derive(Clone, Debug)]
pub struct ExistingObserved<'a> {
    /// The version that the Cluster asks for; empty for any.
    pub asked: &'a str,
    /// The Cluster is being deleted.
    pub going: bool,
    /// What was seen of the cluster last.
    pub sight: &'a Sight,
    /// The identity of the cluster that the Cluster was when it was taken, if it was.
    pub taken: Option<&'a str>,
    /// Whose the cluster is.
    pub claim: &'a Claim,
}

/// The next step towards serving a Cluster of provider `existing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExistingPlan {
    /// Nothing; so it does.
    Say(Health),
    /// Read whose the cluster is, and decide again.
    ReadClaim,
    /// Note which cluster this Cluster is, before anything is made in it.
    Take {
        /// What tells the cluster from others.
        identity: String,
    },
    /// Write into the cluster whose it is, unless somebody else's is written there.
    Claim,
}

/// The next step towards serving a Cluster of provider `existing`.
pub fn decide_existing(observed: &ExistingObserved<'_>) -> ExistingPlan {
    let unhealthy = |reason, message: String| ExistingPlan::Say(Health::Unhealthy { reason, message });
    let seen = match observed.sight {
        Sight::Seen(seen) => seen,
        Sight::NotLooked => {
            return ExistingPlan::Say(Health::Progressing { message: "the cluster is being looked at".to_owned() });
        }
        other => {
            let (reason, message) = other.trouble().unwrap_or((ClusterConditionReason::NotHealthy, ""));
            return unhealthy(reason, message.to_owned());
        }
    };
    if observed.taken.is_some_and(|identity| identity != seen.identity) {
        let message =
            "its ProviderConfig leads to another cluster than before (another namespace kube-system): nothing \
                       is done there; set the kubeconfig back, or delete the Cluster"
                .to_owned();
        return unhealthy(ClusterConditionReason::AnotherCluster, message);
    }
    match (observed.taken, observed.claim) {
        (None, _) if observed.going => {
            let message = "the cluster was never taken, and the Cluster is being deleted".to_owned();
            ExistingPlan::Say(Health::Progressing { message })
        }
        (None, _) if !fits(observed.asked, &seen.version) => {
            let (asked, runs) = (observed.asked, &seen.version);
            let message = format!("spec.kubernetes.version: {asked:?} is asked for, and the cluster runs {runs}");
            unhealthy(ClusterConditionReason::VersionNotOffered, message)
        }
        (_, Claim::NotRead) => ExistingPlan::ReadClaim,
        (_, Claim::Others { whose }) => {
            let message = format!(
                "the cluster is {whose} already; if there is no such Cluster any more, delete ConfigMap \
                 allot-access/allot-cluster in it"
            );
            unhealthy(ClusterConditionReason::Taken, message)
        }
        (None, Claim::Free | Claim::Ours) => ExistingPlan::Take { identity: seen.identity.clone() },
        (Some(_), Claim::Free) if !observed.going => ExistingPlan::Claim,
        (Some(_), Claim::Free | Claim::Ours) => ExistingPlan::Say(Health::Healthy { version: seen.version.clone() }),
    }
}

/// What is known when a Cluster of provider `existing` leaves its cluster.
#[derive(Clone, Debug)]
pub struct ExistingLeaving<'a> {
    /// What was seen of the cluster last.
    pub sight: &'a Sight,
    /// The identity of the cluster that was taken.
    pub taken: &'a str,
    /// Why the platform's objects could not be taken out just now, where that was tried.
    pub failed: Option<&'a str>,
    /// The Cluster is deleted by force.
    pub forced: bool,
}

/// The next step towards leaving a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExistingRemoval {
    /// Nobody has looked at the cluster yet; wait for that.
    Wait,
    /// Take the platform's objects out, unless the cluster is another Cluster's by now.
    TakeOut,
    /// Tell that they may be left, and forget the cluster.
    LeaveBehind {
        /// Why, for people.
        why: String,
    },
    /// They cannot be taken out as things are.
    Say {
        /// Why, for machines.
        reason: ClusterConditionReason,
        /// For people, with what to do.
        message: String,
    },
}

/// The next step towards leaving a cluster that was taken.
pub fn decide_existing_removal(leaving: &ExistingLeaving<'_>) -> ExistingRemoval {
    let (reason, why) = match (leaving.sight, leaving.failed) {
        (Sight::NotLooked, _) => return ExistingRemoval::Wait,
        (Sight::Seen(seen), _) if seen.identity != leaving.taken => {
            (ClusterConditionReason::AnotherCluster, "its ProviderConfig leads to another cluster than before")
        }
        (Sight::Seen(_), None) => return ExistingRemoval::TakeOut,
        (Sight::Seen(_), Some(why)) => (ClusterConditionReason::Unreachable, why),
        (other, _) => other.trouble().unwrap_or((ClusterConditionReason::Unreachable, "")),
    };
    if leaving.forced {
        return ExistingRemoval::LeaveBehind { why: why.to_owned() };
    }
    let message = format!(
        "what the platform made in the cluster cannot be taken out: {why}. Annotation {FORCE_DELETE}: \"true\" leaves it \
         there"
    );
    ExistingRemoval::Say { reason, message }
}

/// Whether what runs is what is asked for.
fn fits(asked: &str, runs: &str) -> bool {
    asked.is_empty()
        || match (Version::parse(asked), Version::parse(runs)) {
            (Some(asked), Some(runs)) => asked.matches(&runs),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(identity: &str) -> Sight {
        Sight::Seen(Seen { version: "1.36.3".to_owned(), identity: identity.to_owned(), has_nodes: false })
    }

    fn word(plan: &ExistingPlan) -> String {
        match plan {
            ExistingPlan::Say(Health::Healthy { version }) => format!("healthy {version}"),
            ExistingPlan::Say(Health::Progressing { .. }) => "progressing".to_owned(),
            ExistingPlan::Say(Health::Unhealthy { reason, .. }) => reason.to_string(),
            ExistingPlan::ReadClaim => "read".to_owned(),
            ExistingPlan::Take { identity } => format!("take {identity}"),
            ExistingPlan::Claim => "claim".to_owned(),
        }
    }

    #[test]
    fn a_cluster_is_noted_then_claimed_and_never_taken_from_somebody_else() {
        let message = || "m".to_owned();
        let others = || Claim::Others { whose: "that of Cluster n/c".to_owned() };
        for (asked, going, sight, taken, claim, expect) in [
            ("", false, Sight::NotLooked, None, Claim::NotRead, "progressing"),
            ("", false, Sight::NotUsable { message: message() }, None, Claim::NotRead, "ConfigNotUsable"),
            ("", false, Sight::Unreachable { message: message() }, Some("a"), Claim::NotRead, "Unreachable"),
            ("", false, Sight::Refused { message: message() }, Some("a"), Claim::NotRead, "AccessRefused"),
            ("", false, seen("a"), None, Claim::NotRead, "read"),
            ("", false, seen("a"), None, Claim::Free, "take a"),
            ("", false, seen("a"), None, Claim::Ours, "take a"),
            ("", false, seen("a"), None, others(), "Taken"),
            ("1.36", false, seen("a"), None, Claim::Free, "take a"),
            ("1.3", false, seen("a"), None, Claim::Free, "VersionNotOffered"),
            ("1.35.0", false, seen("a"), Some("a"), Claim::Ours, "healthy 1.36.3"),
            ("", false, seen("a"), Some("a"), Claim::NotRead, "read"),
            ("", false, seen("a"), Some("a"), Claim::Free, "claim"),
            ("", false, seen("a"), Some("a"), Claim::Ours, "healthy 1.36.3"),
            ("", false, seen("a"), Some("a"), others(), "Taken"),
            ("", false, seen("b"), Some("a"), Claim::Ours, "AnotherCluster"),
            ("", true, seen("a"), None, Claim::NotRead, "progressing"),
            ("", true, seen("a"), Some("a"), Claim::Free, "healthy 1.36.3"),
            ("", true, seen("a"), Some("a"), Claim::Ours, "healthy 1.36.3"),
        ] {
            let observed = ExistingObserved { asked, going, sight: &sight, taken, claim: &claim };
            assert_eq!(word(&decide_existing(&observed)), expect, "{observed:?}");
        }
    }

    #[test]
    fn a_version_is_three_numbers_whatever_a_vendor_adds() {
        for (git, expect) in [
            ("v1.36.3", Some("1.36.3")),
            ("1.30.2", Some("1.30.2")),
            ("v1.30.2-gke.100", Some("1.30.2")),
            ("v1.30.2+k3s1", Some("1.30.2")),
            ("v1.34.0-rc.1", Some("1.34.0")),
            ("v1.30", None),
            ("v1.30.", None),
            ("v1.30.2.4", None),
            ("", None),
            ("master", None),
        ] {
            assert_eq!(served_version(git).as_deref(), expect, "{git:?}");
        }
    }

    #[test]
    fn nodes_say_whether_pods_run_unless_the_config_does() {
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let with_nodes = Sight::Seen(Seen { version: String::new(), identity: String::new(), has_nodes: true });
        for (sight, names, expect) in [
            (&seen("a"), &["infrastructure/vendor/x"][..], &[WORKERLESS, "infrastructure/vendor/x"][..]),
            (&with_nodes, &[], &[COMPUTE]),
            (&with_nodes, &[WORKERLESS], &[WORKERLESS]),
            (&seen("a"), &[COMPUTE, COMPUTE], &[COMPUTE]),
            (&Sight::NotLooked, &["x"], &["x"]),
        ] {
            assert_eq!(sight.traits(&named(names)), named(expect), "{sight:?} {names:?}");
        }
    }

    #[test]
    fn a_cluster_is_left_by_taking_out_what_is_ours_and_by_force_without_that() {
        let dead = Sight::Unreachable { message: "no route".to_owned() };
        for (sight, failed, plainly, by_force) in [
            (Sight::NotLooked, None, "wait", "wait"),
            (seen("a"), None, "take out", "take out"),
            (seen("a"), Some("no answer"), "Unreachable", "leave"),
            (seen("b"), None, "AnotherCluster", "leave"),
            (dead, None, "Unreachable", "leave"),
            (Sight::Refused { message: String::new() }, None, "AccessRefused", "leave"),
            (Sight::NotUsable { message: String::new() }, None, "ConfigNotUsable", "leave"),
        ] {
            for (forced, expect) in [(false, plainly), (true, by_force)] {
                let leaving = ExistingLeaving { sight: &sight, taken: "a", failed, forced };
                let word = match decide_existing_removal(&leaving) {
                    ExistingRemoval::Wait => "wait".to_owned(),
                    ExistingRemoval::TakeOut => "take out".to_owned(),
                    ExistingRemoval::LeaveBehind { .. } => "leave".to_owned(),
                    ExistingRemoval::Say { reason, message } => {
                        assert!(message.contains(FORCE_DELETE), "{message}");
                        reason.to_string()
                    }
                };
                assert_eq!(word, expect, "{leaving:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn waits_double_up_to_a_bound_and_never_end(failures in 0_u32..100) {
            let dead = Sight::Unreachable { message: String::new() };
            let (now, next) = (dead.look_again(failures), dead.look_again(failures + 1));
            prop_assert!(now >= FIRST_RETRY && now <= next && next <= LONGEST_RETRY);
        }

        #[test]
        fn nothing_is_done_in_a_cluster_that_is_not_the_one_that_was_taken(
            identity in "[ab]", taken in "[ab]", going in any::<bool>(), claim in 0..4_u8,
        ) {
            let claim = match claim {
                0 => Claim::NotRead,
                1 => Claim::Free,
                2 => Claim::Ours,
                _ => Claim::Others { whose: String::new() },
            };
            let sight = seen(&identity);
            let plan = decide_existing(&ExistingObserved {
                asked: "", going, sight: &sight, taken: Some(&taken), claim: &claim,
            });
            if identity != taken {
                prop_assert_eq!(word(&plan), "AnotherCluster");
            }
            if matches!(plan, ExistingPlan::Claim) {
                prop_assert_eq!(claim, Claim::Free);
            }
        }
    }
}
