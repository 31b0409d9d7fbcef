//! What a provider may write of AccessRequests, and that nobody else may write it.

use allotment_admission::{Caller, Config, Denial, Operation, Request, review};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

const OWN: &str = "system:serviceaccount:allot-system:provider-far";
const OTHER: &str = "system:serviceaccount:allot-system:provider-near";
const HOLD: &str = "access.cluster.openmcp.cloud/far";

fn refused(by: &str, subresource: &str, old: &Value, new: &Value) -> Option<String> {
    let config = Config { platform_users: ["allotment".to_owned()].into() };
    let caller = Caller { username: by.to_owned(), uid: "u".to_owned(), groups: Vec::new() };
    let request = Request {
        operation: Operation::Update,
        group: "cluster.openmcp.cloud",
        kind: "AccessRequest",
        resource: "accessrequests",
        subresource,
        namespace: "team",
        name: "a",
        object: new,
        old_object: old,
        caller: &caller,
        dry_run: false,
        now: Timestamp::UNIX_EPOCH,
    };
    match review(&config, None, &request) {
        Ok(_) => None,
        Err(Denial::Forbidden(why)) => Some(why),
        Err(other) => panic!("{other}"),
    }
}

fn asked() -> Value {
    json!({"metadata": {"name": "a", "namespace": "team", "resourceVersion": "1",
            "labels": {"cluster.openmcp.cloud/access-by": "far", "theirs": "x"},
            "finalizers": ["cluster.openmcp.cloud/access", "example.com/other"]},
        "spec": {"requestRef": {"name": "r"}, "permissions": [], "requestedBy": {"username": "jane"}},
        "status": {"status": "Pending", "reason": "NotProvided", "conditions": [
            {"type": "Approved", "status": "True"}, {"type": "Ready", "status": "False"}]}})
}

/// Adds to a list of an object.
fn push(list: &mut Value, item: Value) {
    list.as_array_mut().expect("a list").push(item);
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = asked();
    change(&mut object);
    object
}

#[test]
fn a_provider_writes_its_own_part_of_what_it_was_asked_to_fulfil_and_nobody_else_does() {
    let hold = with(|object| {
        object["metadata"]["finalizers"] = json!(["cluster.openmcp.cloud/access", "example.com/other", HOLD]);
        object["metadata"]["resourceVersion"] = json!("2");
        object["metadata"]["managedFields"] = json!([{"manager": "far"}]);
    });
    let provided = with(|object| {
        object["status"]["access"] = json!({"type": "Token", "secretRef": {"name": "s"}, "clusterUID": "c"});
        push(&mut object["status"]["conditions"], json!({"type": "Provided", "status": "True"}));
    });
    for (by, subresource, old, new, allowed) in [
        (OWN, "", asked(), hold.clone(), true),
        (OWN, "", hold.clone(), asked(), true),
        (OWN, "status", asked(), provided.clone(), true),
        (OWN, "status", provided.clone(), asked(), true),
        (OTHER, "", asked(), hold.clone(), false),
        (OTHER, "status", asked(), provided.clone(), false),
        ("jane", "", asked(), hold.clone(), false),
        ("jane", "", hold.clone(), asked(), false),
        ("jane", "status", asked(), provided.clone(), false),
        ("system:serviceaccount:team:provider-far", "status", asked(), provided.clone(), false),
        ("system:serviceaccount:allot-system:provider-", "status", asked(), provided, false),
        ("allotment", "", hold, asked(), true),
    ] {
        let why = refused(by, subresource, &old, &new);
        assert_eq!(why.is_none(), allowed, "{by} {subresource}: {why:?}");
    }
}

#[test]
fn a_provider_changes_nothing_beside_its_part() {
    for (subresource, what, new) in [
        ("", "spec", with(|object| object["spec"]["permissions"] = json!([{"rules": []}]))),
        ("", "spec", with(|object| object["spec"]["requestedBy"]["username"] = json!("eve"))),
        ("", "metadata", with(|object| object["metadata"]["finalizers"] = json!(["example.com/other"]))),
        ("", "metadata", with(|object| object["metadata"]["finalizers"] = json!(["cluster.openmcp.cloud/access"]))),
        (
            "",
            "metadata",
            with(|object| push(&mut object["metadata"]["finalizers"], json!("access.cluster.openmcp.cloud/near"))),
        ),
        ("", "metadata", with(|object| object["metadata"]["labels"] = json!({"theirs": "x"}))),
        ("", "metadata", with(|object| object["metadata"]["labels"]["theirs"] = json!("y"))),
        (
            "",
            "metadata",
            with(|object| object["metadata"]["annotations"] = json!({"cluster.openmcp.cloud/live-in": "c"})),
        ),
        ("", "metadata", with(|object| object["metadata"]["ownerReferences"] = json!([{"uid": "x"}]))),
        ("status", "status beside", with(|object| object["status"]["status"] = json!("Granted"))),
        ("status", "status beside", with(|object| object["status"]["observedGeneration"] = json!(1))),
        ("status", "status beside", with(|object| object["status"]["conditions"][0]["status"] = json!("False"))),
        ("status", "status beside", with(|object| object["status"]["conditions"] = json!([]))),
        (
            "status",
            "status beside",
            with(|object| push(&mut object["status"]["conditions"], json!({"type": "Ready2", "status": "True"}))),
        ),
        ("status", "finalizers", with(|object| push(&mut object["metadata"]["finalizers"], json!(HOLD)))),
        ("scale", "scale", asked()),
    ] {
        let why = refused(OWN, subresource, &asked(), &new).unwrap_or_else(|| panic!("{subresource}: {new} passes"));
        assert!(why.contains(what) && why.contains("far"), "{why}");
    }
}

#[test]
fn without_the_platforms_label_no_provider_writes_anything() {
    let plain = with(|object| object["metadata"]["labels"] = json!({"theirs": "x"}));
    let mut claimed = plain.clone();
    claimed["metadata"]["labels"]["cluster.openmcp.cloud/access-by"] = json!("far");
    for by in [OWN, "jane"] {
        assert!(refused(by, "", &plain, &claimed).is_some(), "{by} asked itself");
        assert!(refused(by, "status", &plain, &claimed).is_some(), "{by} asked itself by the status");
    }
    assert!(refused(OWN, "", &plain, &plain).is_some());
}
