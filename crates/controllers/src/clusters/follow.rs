//! Follows the policy and the binding that keep tenants to their prefixes in one Cluster, so that it is known at once that
//! somebody changed or deleted them. What is done about it whoever looks at the Cluster decides.

use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta, WatchEvent, WatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use tracing::debug;

use crate::frame::chain;

/// How long one watch lasts: less than what servers and what lies between cut off.
const WATCH_SECS: u32 = 240;
/// When one is over though nobody says so: the way there may be gone.
pub(super) const LIMIT: Duration = Duration::from_secs(WATCH_SECS as u64 + 10);

/// Which of the two an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Policy,
    Binding,
}

/// The part and its resourceVersion, with each change from those versions on. Ends when the server ends either watch, or with
/// the first error: whoever looks at the Cluster next follows both anew.
pub(super) async fn changes(
    admin: &Client,
    name: &str,
    versions: &Versions,
) -> Result<impl Stream<Item = (Part, String)> + Send + use<>, kube::Error> {
    let policies = watch::<ValidatingAdmissionPolicy>(admin, name, &versions.policy).await?;
    let bindings = watch::<ValidatingAdmissionPolicyBinding>(admin, name, &versions.binding).await?;
    Ok(until_one_ends(policies, bindings))
}

/// What is watched of one kind, as it comes.
async fn watch<K: Resource<DynamicType = ()>>(
    admin: &Client,
    name: &str,
    since: &str,
) -> Result<
    impl Stream<Item = Result<WatchEvent<PartialObjectMeta<DynamicObject>>, kube::Error>> + Send + use<K>,
    kube::Error,
> {
    let api: Api<DynamicObject> = Api::all_with(admin.clone(), &ApiResource::erase::<K>(&()));
    let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECS);
    api.watch_metadata(&params, since).await
}

/// Both, until either ends: nobody would begin it anew beside the other.
fn until_one_ends<K: ResourceExt + Clone + std::fmt::Debug + Send>(
    policies: impl Stream<Item = Result<WatchEvent<K>, kube::Error>> + Send,
    bindings: impl Stream<Item = Result<WatchEvent<K>, kube::Error>> + Send,
) -> impl Stream<Item = (Part, String)> + Send {
    let policies = policies.map(|event| (Part::Policy, Some(event))).chain(ended(Part::Policy));
    let bindings = bindings.map(|event| (Part::Binding, Some(event))).chain(ended(Part::Binding));
    let told = futures::stream::select(policies, bindings).map(|(part, event)| match event {
        Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object))) => {
            Some(object.resource_version().map(|version| (part, version)))
        }
        Some(Ok(WatchEvent::Bookmark(_))) => Some(None),
        // Such as a version that the server does not have any more: nothing comes after it.
        Some(Ok(WatchEvent::Error(status))) => {
            debug!(?part, code = status.code, "the watch ends with an error");
            None
        }
        Some(Err(error)) => {
            debug!(?part, error = %chain(&error), "the watch broke");
            None
        }
        None => None,
    });
    told.take_while(|told| std::future::ready(told.is_some())).filter_map(|told| std::future::ready(told.flatten()))
}

fn ended<E>(part: Part) -> impl Stream<Item = (Part, Option<E>)> {
    futures::stream::once(std::future::ready((part, None)))
}

/// What was last seen of both, as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) policy: String,
    pub(super) binding: String,
}

impl Versions {
    /// Whether an object of that version came after what was seen.
    pub(super) fn is_news(&self, part: Part, version: &str) -> bool {
        let seen = match part {
            Part::Policy => &self.policy,
            Part::Binding => &self.binding,
        };
        // Resource versions are numbers that grow (KEP-5504); where they are none, any other one is looked at.
        match (seen.parse::<u64>(), version.parse::<u64>()) {
            (Ok(seen), Ok(version)) => version > seen,
            _ => seen != version,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of watches that tell this and then, if they do not go on, end.
    async fn told(
        policies: Vec<WatchEvent<DynamicObject>>,
        goes_on: bool,
        bindings: Vec<WatchEvent<DynamicObject>>,
    ) -> Vec<(Part, String)> {
        let all = |events: Vec<_>| futures::stream::iter(events.into_iter().map(Ok::<_, kube::Error>));
        let rest: futures::stream::BoxStream<'static, _> = match goes_on {
            true => futures::stream::pending().boxed(),
            false => futures::stream::empty().boxed(),
        };
        let bindings = all(bindings).chain(futures::stream::pending());
        let both = until_one_ends(all(policies).chain(rest), bindings).collect::<Vec<_>>();
        tokio::time::timeout(Duration::from_secs(1), both).await.unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn both_are_followed_until_either_ends() {
        let object = |version: &str| {
            let object = serde_json::json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "resourceVersion": version}});
            serde_json::from_value::<DynamicObject>(object).expect("an object")
        };
        let expired = || {
            let status = serde_json::json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1",
                "metadata": {}, "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}});
            serde_json::from_value::<WatchEvent<DynamicObject>>(status).expect("an event")
        };
        let both = vec![(Part::Policy, "8".to_owned()), (Part::Binding, "9".to_owned())];
        let (changed, gone) = (WatchEvent::Modified(object("8")), WatchEvent::Deleted(object("9")));
        assert_eq!(told(vec![changed.clone()], false, vec![gone.clone()]).await, both, "one ended");
        assert_eq!(told(vec![changed.clone(), expired()], true, vec![gone.clone()]).await, both, "an error ends it");
        assert_eq!(told(vec![changed], true, vec![gone]).await, [], "it goes on");
    }

    #[test]
    fn what_came_before_is_no_news() {
        let seen = Versions { policy: "9".to_owned(), binding: "b".to_owned() };
        for (part, version, expect) in [
            (Part::Policy, "8", false),
            (Part::Policy, "9", false),
            (Part::Policy, "10", true),
            (Part::Binding, "b", false),
            (Part::Binding, "a", true),
        ] {
            assert_eq!(seen.is_news(part, version), expect, "{part:?} {version}");
        }
    }
}
