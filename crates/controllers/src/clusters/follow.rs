//! Follows the policy and the binding that keep tenants to their prefixes in one Cluster, so that it is known at once that
//! somebody changed or deleted them. What is done about it whoever looks at the Cluster decides.

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::{ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::{Api, Client, Resource, ResourceExt};

/// How long one watch lasts: less than what servers and what lies between cut off.
const WATCH_SECS: u32 = 240;

/// Which of the two an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Policy,
    Binding,
}

/// The part and its resourceVersion, with each change from those versions on. Ends when the server ends it, or with the
/// first error: whoever looks at the Cluster next follows it anew.
pub(super) async fn changes(
    admin: &Client,
    name: &str,
    versions: &Versions,
) -> Result<impl Stream<Item = (Part, String)> + Send + use<>, kube::Error> {
    let policies = watch::<ValidatingAdmissionPolicy>(admin, name, Part::Policy, &versions.policy).await?;
    let bindings = watch::<ValidatingAdmissionPolicyBinding>(admin, name, Part::Binding, &versions.binding).await?;
    Ok(futures::stream::select(policies, bindings))
}

async fn watch<K: Resource<DynamicType = ()>>(
    admin: &Client,
    name: &str,
    part: Part,
    since: &str,
) -> Result<impl Stream<Item = (Part, String)> + Send + use<K>, kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(admin.clone(), &ApiResource::erase::<K>(&()));
    let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECS);
    let events = api.watch_metadata(&params, since).await?.boxed();
    let versions = events.try_filter_map(async |event| {
        Ok(match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.resource_version()
            }
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
        })
    });
    let sound = versions.take_while(|version| std::future::ready(version.is_ok()));
    Ok(sound.filter_map(move |version| std::future::ready(version.ok().map(|version| (part, version)))))
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
