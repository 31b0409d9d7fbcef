//! Events: what people should know of that no status keeps. Told once, by a name that follows from what
//! is said; what happens again is counted up.

use std::fmt::Write as _;

use allotment_api::reasons::EventReason;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use super::Seams;

/// Longest message that Kubernetes takes (`validateEvent` of k8s.io/kubernetes/pkg/apis/core/validation).
const MOST_MESSAGE_BYTES: usize = 1024;
/// Longest part of an object's name in the name of an Event.
const MOST_NAME_BYTES: usize = 200;
const COMPONENT: &str = "allot";
/// How long after an Event was told it is counted up again at the earliest, in seconds: what is undone and done again by a
/// program must not double its writes.
const COUNT_UP_AFTER: i64 = 10;

/// Tells of an object that something is wrong or has to be done by somebody. Told again, also by another
/// instance, it is one Event, which says how often and when last: once in [`COUNT_UP_AFTER`] seconds at most.
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
    let api = Api::<Event>::namespaced(client.clone(), &namespace);
    match api.create(&params, &event).await {
        Err(kube::Error::Api(status)) if status.code == 409 => count_up(&api, &event).await,
        answer => unless_ending(answer.map(drop)),
    }
}

/// Nothing can be told in a namespace that is going, and that must hold nobody up; nor whoever tells the same now.
fn unless_ending(answer: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 400..500) && !matches!(status.code, 408 | 429) => Ok(()),
        answer => answer,
    }
}

/// What was told is so again.
async fn count_up(api: &Api<Event>, event: &Event) -> Result<(), kube::Error> {
    let name = event.name_any();
    let there = match api.get_opt(&name).await {
        Ok(Some(there)) => there,
        answer => return unless_ending(answer.map(drop)),
    };
    let last = there.last_timestamp.as_ref().map(|time| time.0.as_second());
    let now = event.last_timestamp.as_ref().map(|time| time.0.as_second());
    if let (Some(last), Some(now)) = (last, now)
        && now < last.saturating_add(COUNT_UP_AFTER)
    {
        return Ok(());
    }
    let count = there.count.unwrap_or(1).saturating_add(1);
    let metadata = json!({"resourceVersion": there.resource_version()});
    let patch = json!({"metadata": metadata, "count": count, "lastTimestamp": event.last_timestamp});
    let params = PatchParams { field_manager: Some(COMPONENT.to_owned()), ..PatchParams::default() };
    unless_ending(api.patch(&name, &params, &Patch::Merge(&patch)).await.map(drop))
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
    use std::sync::{Arc, Mutex};

    use allotment_api::requests::Cluster;
    use allotment_machinery::seams::{Clock, Entropy};
    use http::{Method, Request, Response};
    use jiff::Timestamp;
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    #[derive(Debug)]
    struct At(i64);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(self.0).expect("a time")
        }
    }

    #[derive(Debug)]
    struct Zeros;

    impl Entropy for Zeros {
        fn fill(&self, out: &mut [u8]) {
            out.fill(0);
        }
    }

    /// A server that keeps one Event, and counts the writes that it took.
    fn server() -> (Client, Arc<Mutex<(Value, usize)>>) {
        let kept = Arc::new(Mutex::new((Value::Null, 0)));
        let seen = kept.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let kept = kept.clone();
            async move {
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await.expect("a body");
                let mut kept = kept.lock().expect("unharmed");
                let (code, answer) = match method {
                    Method::POST if !kept.0.is_null() => (
                        409,
                        json!({"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409, "message": "there"}),
                    ),
                    Method::GET => (200, kept.0.clone()),
                    Method::POST => {
                        *kept = (serde_json::from_slice(&body).expect("JSON"), kept.1 + 1);
                        kept.0["metadata"]["resourceVersion"] = json!("1");
                        (201, kept.0.clone())
                    }
                    _ => {
                        let patch: Value = serde_json::from_slice(&body).expect("JSON");
                        assert_eq!(patch["metadata"]["resourceVersion"], kept.0["metadata"]["resourceVersion"]);
                        for member in ["count", "lastTimestamp"] {
                            kept.0[member] = patch[member].clone();
                        }
                        kept.1 += 1;
                        (200, kept.0.clone())
                    }
                };
                let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, kube::Error>(response.expect("a response"))
            }
        });
        (Client::new(service, "default"), seen)
    }

    #[tokio::test]
    async fn what_is_told_again_is_counted_up_and_not_at_full_speed() {
        let (client, seen) = server();
        let mut about = Cluster::new("c", serde_json::from_value(json!({"profile": "p"})).unwrap_or_default());
        about.metadata.uid = Some("u".to_owned());
        let told = async |second: i64| {
            let seams = Seams { clock: Arc::new(At(1_700_000_000 + second)), entropy: Arc::new(Zeros) };
            warn_of(&client, &seams, &about, EventReason::LeftBehind, "it is so").await.expect("told");
            let seen = seen.lock().expect("unharmed");
            let at = seen.0["lastTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok()).expect("a time");
            (seen.0["count"].as_i64().expect("a count"), at.as_second() - 1_700_000_000, seen.1)
        };
        assert_eq!(told(0).await, (1, 0, 1));
        for second in 1..10 {
            assert_eq!(told(second).await, (1, 0, 1), "at {second} s");
        }
        assert_eq!(told(10).await, (2, 10, 2));
        assert_eq!(told(75).await, (3, 75, 3));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, most, expect) in [("abc", 5, "abc"), ("abc", 2, "ab"), ("aé", 2, "a"), ("é", 1, ""), ("", 0, "")] {
            assert_eq!(cut(text, most), expect, "{text:?} at {most}");
        }
    }
}
