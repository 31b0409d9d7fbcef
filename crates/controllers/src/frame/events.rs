//! Events: what people should know of that no status keeps. Told once, by a name that follows from what
//! is said.

use std::fmt::Write as _;

use allotment_api::reasons::EventReason;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt};

use super::Seams;

/// Longest message that Kubernetes takes (`validateEvent` of k8s.io/kubernetes/pkg/apis/core/validation).
const MOST_MESSAGE_BYTES: usize = 1024;
/// Longest part of an object's name in the name of an Event.
const MOST_NAME_BYTES: usize = 200;
const COMPONENT: &str = "allot";

/// Tells of an object that something is wrong or has to be done by somebody. Told again, also by another
/// instance, it is one Event.
pub async fn warn_of<K>(
    client: &Client,
    seams: &Seams,
    about: &K,
    reason: EventReason,
    message: &str,
) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()>,
{
    let namespace = about.namespace().unwrap_or_else(|| "default".to_owned());
    let params = PostParams { field_manager: Some(COMPONENT.to_owned()), ..PostParams::default() };
    let event = warning(seams, about, &namespace, reason, message);
    match Api::<Event>::namespaced(client.clone(), &namespace).create(&params, &event).await {
        // Nothing can be told in a namespace that is going, and that must hold nobody up.
        Err(kube::Error::Api(status)) if [403, 404, 409].contains(&status.code) => Ok(()),
        answer => answer.map(drop),
    }
}

fn warning<K>(seams: &Seams, about: &K, namespace: &str, reason: EventReason, message: &str) -> Event
where
    K: Resource<DynamicType = ()>,
{
    let now = seams.now();
    let uid = about.uid().unwrap_or_default();
    let message = cut(message, MOST_MESSAGE_BYTES);
    let mut name = cut(&about.name_any(), MOST_NAME_BYTES).to_owned();
    name.push('.');
    for byte in &allotment_pki::sha256(format!("{uid}\n{reason}\n{message}").as_bytes())[..8] {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() },
        involved_object: ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: Some(about.name_any()),
            namespace: about.namespace(),
            uid: Some(uid),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some(reason.as_str().to_owned()),
        message: Some(message.to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        event_time: None::<MicroTime>,
        ..Event::default()
    }
}

/// The beginning of a text, in whole characters.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, most, expect) in [("abc", 5, "abc"), ("abc", 2, "ab"), ("aé", 2, "a"), ("é", 1, ""), ("", 0, "")] {
            assert_eq!(cut(text, most), expect, "{text:?} at {most}");
        }
    }
}
