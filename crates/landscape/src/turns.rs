//! Turns of writes of the catalog: who is judged by what others say is not overtaken by a change of it.
//!
//! A Shoot is judged by its profile, and by that one's parent; a change of either is judged by the Shoots that use it. Each
//! alone is right, both at once may not be: so the Shoot shares the turn of its profiles with other Shoots, and whoever
//! changes or deletes one of them has it alone, until what was judged is stored.
//!
//! # Caveats
//! Turns are of this process: between two webhooks and the writes that they let through another API server keeps no order.
//!
//! # Invariant
//! A private profile's turn is taken before its parent's, so nobody waits for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use allotment_apiserver::server::{AdmissionOperation, AdmissionRequest, AdmissionTurn};
use allotment_core::catalog::ProfileKey;
use allotment_core::write::ObjectKey;
use allotment_machinery::json::Value;
use tokio::sync::RwLock;

/// The turns that somebody has or waits for.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<ProfileKey, Weak<RwLock<()>>>>);

/// Which turns a write needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// None: nobody is judged by it, and it by nobody.
    Nothing,
    /// A CloudProfile changes.
    Cloud(String),
    /// A private profile changes; its parent is to stay as it is.
    Private(ObjectKey, String),
    /// A Shoot uses that profile, which is to stay as it is, and its parent too.
    Use(ProfileKey),
}

impl Needs {
    pub(crate) fn of(request: &AdmissionRequest<'_>) -> Needs {
        if request.dry_run || !request.subresource.is_empty() {
            return Needs::Nothing;
        }
        let object = if request.object.is_null() { request.old } else { &*request.object };
        let name = match request.name {
            "" => text(object, &["metadata", "name"]),
            name => name,
        };
        match request.kind {
            "CloudProfile" => Needs::Cloud(name.to_owned()),
            "PrivateCloudProfile" => {
                let parent = object.at(&["spec", "parent"]).and_then(Value::as_str);
                let parent = parent.unwrap_or_else(|| text(object, &["spec", "parent", "name"]));
                Needs::Private(ObjectKey::new(request.namespace, name), parent.to_owned())
            }
            // Of a Shoot nothing is judged but what of its spec changes.
            "Shoot"
                if request.operation != AdmissionOperation::Delete && object.get("spec") != request.old.get("spec") =>
            {
                Needs::used_by(object, request.namespace).map_or(Needs::Nothing, Needs::Use)
            }
            _ => Needs::Nothing,
        }
    }

    fn used_by(shoot: &Value, namespace: &str) -> Option<ProfileKey> {
        let reference = ["name", "kind"].map(|member| text(shoot, &["spec", "cloudProfile", member]));
        match reference {
            ["", _] => Some(text(shoot, &["spec", "cloudProfileName"])).filter(|name| !name.is_empty()),
            [name, "PrivateCloudProfile"] => return Some(ProfileKey::Private(ObjectKey::new(namespace, name))),
            [name, _] => Some(name),
        }
        .map(|name| ProfileKey::Cloud(name.to_owned()))
    }
}

fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    object.at(path).and_then(Value::as_str).unwrap_or_default()
}

impl Turns {
    /// Waits until nobody else has the turn of that profile in any way.
    pub(crate) async fn alone(&self, profile: ProfileKey) -> AdmissionTurn {
        Box::new(self.of(profile).write_owned().await)
    }

    /// Waits until nobody has the turn of that profile alone.
    pub(crate) async fn shared(&self, profile: ProfileKey) -> AdmissionTurn {
        Box::new(self.of(profile).read_owned().await)
    }

    fn of(&self, profile: ProfileKey) -> Arc<RwLock<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(&profile).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(profile, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use allotment_apiserver::auth::UserInfo;
    use allotment_machinery::json;
    use allotment_store::Tenant;
    use futures::FutureExt;

    use super::*;

    fn cloud() -> ProfileKey {
        ProfileKey::Cloud("central".to_owned())
    }

    #[test]
    fn users_share_a_turn_and_who_changes_waits_for_all_of_them() {
        let turns = Turns::default();
        let first = turns.shared(cloud()).now_or_never().expect("nobody has it alone");
        let second = turns.shared(cloud()).now_or_never().expect("it is shared");
        assert!(turns.alone(cloud()).now_or_never().is_none());
        drop(first);
        assert!(turns.alone(cloud()).now_or_never().is_none());
        drop(second);
        let alone = turns.alone(cloud()).now_or_never().expect("all of them are gone");
        assert!(turns.shared(cloud()).now_or_never().is_none());
        let other = ProfileKey::Private(ObjectKey::new("team", "central"));
        assert!(turns.alone(other).now_or_never().is_some(), "another profile is another turn");
        drop(alone);
        assert!(turns.shared(cloud()).now_or_never().is_some());
    }

    #[track_caller]
    fn check(kind: &str, operation: AdmissionOperation, name: &str, mut object: Value, expect: Needs) {
        let request = AdmissionRequest {
            tenant: &Tenant::platform(),
            user: &UserInfo::default(),
            operation,
            group: "core.gardener.cloud",
            version: "v1beta1",
            kind,
            resource: "",
            subresource: "",
            namespace: "team",
            name,
            dry_run: false,
            object: &mut Value::Null,
            old: &object.clone(),
        };
        if operation == AdmissionOperation::Delete {
            assert_eq!(Needs::of(&request), expect);
            return;
        }
        let request = AdmissionRequest { object: &mut object, old: &Value::Null, ..request };
        assert_eq!(Needs::of(&request), expect);
        assert_eq!(Needs::of(&AdmissionRequest { subresource: "status", ..request }), Needs::Nothing);
    }

    #[test]
    fn who_changes_a_profile_needs_it_alone_and_who_uses_it_shares_it() {
        use AdmissionOperation::{Create, Delete, Update};
        let key = |name: &str| ObjectKey::new("team", name);
        let cloud = |name: &str| ProfileKey::Cloud(name.to_owned());
        check("CloudProfile", Update, "c", json!({"spec": {}}), Needs::Cloud("c".to_owned()));
        check("CloudProfile", Delete, "", json!({"metadata": {"name": "c"}}), Needs::Cloud("c".to_owned()));
        let child = || Needs::Private(key("p"), "c".to_owned());
        check("PrivateCloudProfile", Create, "p", json!({"spec": {"parent": "c"}}), child());
        check("PrivateCloudProfile", Delete, "p", json!({"spec": {"parent": {"name": "c"}}}), child());
        let uses = |reference: Value, expect: Needs| check("Shoot", Update, "s", json!({"spec": reference}), expect);
        uses(json!({"cloudProfileName": "c"}), Needs::Use(cloud("c")));
        uses(json!({"cloudProfile": {"name": "c"}}), Needs::Use(cloud("c")));
        let private = json!({"cloudProfile": {"kind": "PrivateCloudProfile", "name": "p"}, "cloudProfileName": "c"});
        uses(private.clone(), Needs::Use(ProfileKey::Private(key("p"))));
        uses(json!({}), Needs::Nothing);
        check("Shoot", Delete, "s", json!({"spec": private}), Needs::Nothing);
    }

    #[test]
    fn turns_that_nobody_has_are_forgotten() {
        let turns = Turns::default();
        for number in 0..100 {
            let _ = turns.alone(ProfileKey::Cloud(number.to_string())).now_or_never().expect("it is free");
        }
        assert_eq!(turns.0.lock().expect("not poisoned").len(), 1);
    }
}
