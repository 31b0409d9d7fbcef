//! What is refused of a PrivateCloudProfile.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use allotment_api::catalog::{PrivateCloudProfileStatus, RemovedVersion};
use allotment_core::catalog::{
    Found, KeptShoot, NoParent, Offer, PrivateView, PrivateWrite, Verb, VersionKey, denial, dropped_in_use, gone_with,
    lacks_room, needed, over, private_status, render, settled, validate_private_profile, why_no_parent,
};
use allotment_machinery::field::{FieldError, MAX_ERRORS, Path};
use allotment_machinery::json::{Map, Value};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::case::{Case, PrivatePair, Stage};
use super::facts::{Facts, Lookup};
use super::named::{dropped, names};
use crate::review::{Denial, Operation};
use crate::warned::bounded;

/// Where warnings stand that have no room.
const MORE: &str = "; what the parent holds against stands in status.conflicts";

/// A private profile that is written.
#[derive(Debug)]
pub(super) struct Private {
    pub(super) pair: PrivatePair,
    /// What was taken out of it before.
    pub(super) removed: Vec<RemovedVersion>,
    /// The verbs that the caller needs, once they were compared: what is asked for and what is judged is the same.
    verbs: OnceLock<Vec<Verb>>,
}

impl Private {
    pub(super) fn new(pair: PrivatePair, removed: Vec<RemovedVersion>) -> Self {
        Private { pair, removed, verbs: OnceLock::new() }
    }

    pub(super) fn wants(&self, case: &Case<'_>, stage: Stage, facts: &Facts) -> Vec<Lookup> {
        // Of what is new nothing can have expired before.
        let is_new = case.write.operation == Operation::Create && stage != Stage::Complete;
        if is_new && stage == Stage::Mutate {
            return Vec::new();
        }
        let parent = &self.pair.new.parent.name;
        let mut wanted = Vec::new();
        wanted.extend((!parent.is_empty()).then(|| Lookup::Profile(parent.clone())));
        wanted.extend((!is_new).then(|| Lookup::Users(case.name().to_owned())));
        let lacking = facts.lacking(wanted);
        if stage != Stage::Validate || !lacking.is_empty() {
            return lacking;
        }
        let mut wanted = Vec::new();
        if !parent.is_empty() && facts.profile(parent).is_none() {
            wanted.push(Lookup::Private(parent.clone()));
        }
        for verb in self.verbs(case, facts).iter().copied() {
            let asked = Lookup::Allowed(verb);
            if facts.has(&asked) && !facts.allows(&asked) {
                wanted.push(Lookup::AllowedBySource(verb));
            }
            wanted.push(asked);
        }
        facts.lacking(wanted)
    }

    /// Calls `look` with what the write is judged by, if the parent is there.
    fn with_write<T>(
        &self,
        case: &Case<'_>,
        facts: &Facts,
        look: impl FnOnce(&PrivateWrite<'_>, &Offer) -> T,
    ) -> Option<T> {
        self.with_write_of(case, facts, true, look)
    }

    /// The same, where it is not `heeds_users` as if nobody used it.
    fn with_write_of<T>(
        &self,
        case: &Case<'_>,
        facts: &Facts,
        heeds_users: bool,
        look: impl FnOnce(&PrivateWrite<'_>, &Offer) -> T,
    ) -> Option<T> {
        let offer = facts.profile(&self.pair.new.parent.name)?;
        let in_use = |image: &str, version: &str| {
            heeds_users && facts.users(case.name()).iter().any(|(_, shoot)| shoot.keeps_image(image, version))
        };
        let write = PrivateWrite {
            parent: &offer.parent,
            old: self.pair.old.as_ref(),
            removed: &self.removed,
            in_use: &in_use,
            now: case.write.now,
        };
        Some(look(&write, offer))
    }

    /// What has expired and is not new in this write.
    pub(super) fn over(&self, case: &Case<'_>, facts: &Facts) -> BTreeSet<VersionKey<'_>> {
        self.with_write(case, facts, |write, _| over(&self.pair.new, write)).unwrap_or_default()
    }

    /// What goes with this write of what was stored, since it expired.
    pub(super) fn gone(&self, case: &Case<'_>, facts: &Facts, heeds_users: bool) -> Vec<RemovedVersion> {
        let gone = |write: &PrivateWrite<'_>, _: &Offer| gone_with(&self.pair.new, write);
        self.with_write_of(case, facts, heeds_users, gone).unwrap_or_default()
    }

    /// The verbs that the caller needs for what the write changes; to be asked once parent and users were looked up.
    fn verbs(&self, case: &Case<'_>, facts: &Facts) -> &[Verb] {
        self.verbs.get_or_init(|| self.compared(case, facts))
    }

    fn compared(&self, case: &Case<'_>, facts: &Facts) -> Vec<Verb> {
        let (new, old) = (&self.pair.new, self.pair.old.as_ref());
        if case.platform {
            return Vec::new();
        }
        let compared = self.with_write(case, facts, |write, _| {
            let (left, left_before) = (settled(new, write), old.and_then(|old| settled(old, write)));
            needed(left_before.as_ref().or(old), left.as_ref().unwrap_or(new))
        });
        compared.unwrap_or_else(|| needed(old, new))
    }

    pub(super) fn judge(&self, case: &Case<'_>, facts: &Facts) -> Result<Vec<String>, Denial> {
        let needed = self.verbs(case, facts).iter().copied();
        let lacking: Vec<Verb> = needed.filter(|verb| !facts.allows(&Lookup::Allowed(*verb))).collect();
        if !lacking.is_empty() {
            let has_source_rule = lacking.iter().any(|verb| facts.allows(&Lookup::AllowedBySource(*verb)));
            return Err(Denial::Forbidden(denial(&case.write.caller.username, &lacking, has_source_rule)));
        }
        let found = self.with_write(case, facts, |write, offer| {
            let mut found = validate_private_profile(&self.pair.new, write);
            // Who was there before it began to go stays changeable.
            if offer.is_going() && case.write.operation == Operation::Create {
                let name = offer.parent.name();
                let detail = format!("CloudProfile {name:?} is being deleted: name another one");
                found.errors.insert(0, FieldError::invalid(&parent(), name, detail));
            }
            if found.errors.is_empty() {
                self.check_room(case, write, &mut found);
            }
            found
        });
        match found {
            None => Err(Denial::Invalid(vec![self.no_parent(case, facts)])),
            Some(found) if !found.errors.is_empty() => Err(Denial::Invalid(found.errors)),
            Some(found) => {
                // What Shoots lose says most.
                let mut warnings = self.dropped(case, facts);
                warnings.extend(found.warnings);
                Ok(bounded(warnings, found.unkept, MORE))
            }
        }
    }

    /// That there is room for what it is rendered to. Where there was none before, which a change of its parent may come to,
    /// that is no reason to refuse.
    fn check_room(&self, case: &Case<'_>, write: &PrivateWrite<'_>, found: &mut Found) {
        let Some(metadata) = metadata(case.write.object) else { return };
        let Some(error) = lacks_room(&metadata, &self.pair.new, write.parent) else { return };
        match self.pair.old.as_ref().filter(|old| lacks_room(&metadata, old, write.parent).is_some()) {
            Some(_) => found.warnings.push(format!("{error}; it was so before")),
            None => found.errors.push(error),
        }
    }

    /// What of it goes with this write that Shoots use.
    fn dropped(&self, case: &Case<'_>, facts: &Facts) -> Vec<String> {
        let users = facts.users(case.name());
        let offer = facts.profile(&self.pair.new.parent.name);
        let (Some(old), Some(offer), false) = (&self.pair.old, offer, users.is_empty()) else { return Vec::new() };
        let (before, after) = (render(&offer.parent, old).spec, render(&offer.parent, &self.pair.new).spec);
        let shoots = users.iter().map(|user| (user, &*user.1));
        let lost = dropped_in_use(&before, &after, shoots, |_, _, _| false, true);
        lost.into_iter().take(MAX_ERRORS).map(|(path, users)| dropped(&path, &names(users))).collect()
    }

    /// The status that the object gets by this write.
    pub(super) fn status(&self, case: &Case<'_>, facts: &Facts) -> Option<PrivateCloudProfileStatus> {
        let metadata = metadata(case.write.object)?;
        let conditions = case.write.object.at(&["status", "conditions"]);
        let conditions: Option<Vec<Condition>> =
            conditions.and_then(|conditions| serde_json::from_slice(&conditions.to_vec()).ok());
        let shoots: Vec<&KeptShoot> = facts.users(case.name()).iter().map(|(_, shoot)| &**shoot).collect();
        Some(private_status(&PrivateView {
            metadata: &metadata,
            generation: metadata.generation,
            spec: &self.pair.new,
            conditions: &conditions.unwrap_or_default(),
            parent: facts.profile(&self.pair.new.parent.name).map(|offer| (&**offer).into()),
            is_parent_unread: facts.why_unread(&Lookup::Profile(self.pair.new.parent.name.clone())).is_some(),
            shoots: &shoots,
            now: case.write.now,
        }))
    }

    /// Why there is no parent.
    fn no_parent(&self, case: &Case<'_>, facts: &Facts) -> FieldError {
        let named = &self.pair.new.parent;
        let unread = |lookup: Lookup| facts.why_unread(&lookup);
        let unread_detail = unread(Lookup::Profile(named.name.clone())).map(|why| {
            format!(
                "the CloudProfile is there and cannot be read ({why}): ask an operator of the platform to put it right"
            )
        });
        // One of its own name is itself.
        let is_private = named.name != case.name()
            && (facts.private(&named.name).is_some() || unread(Lookup::Private(named.name.clone())).is_some());
        let missing = "there is no CloudProfile of that name: make it before, or name another one";
        let there = match &unread_detail {
            Some(detail) => NoParent::Missing(detail),
            None if is_private => NoParent::Private(case.write.namespace),
            None => NoParent::Missing(missing),
        };
        why_no_parent(named, self.pair.old.as_ref().map(|old| &old.parent), there)
    }
}

/// The metadata of an object, without who owns what in it.
fn metadata(object: &Value) -> Option<ObjectMeta> {
    let members = object.get("metadata")?.as_object()?.iter().filter(|(name, _)| *name != "managedFields");
    let kept: Map = members.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    serde_json::from_slice(&Value::Object(kept).to_vec()).ok()
}

fn parent() -> Path {
    Path::new("spec").child("parent")
}

/// Who uses it.
pub(super) fn users(case: &Case<'_>, facts: &Facts) -> Option<String> {
    let (name, users) = (case.name(), facts.users(case.name()));
    let shoots = || names(users);
    (!users.is_empty()).then(|| format!("PrivateCloudProfile {name:?} is used by Shoots {}", shoots()))
}
