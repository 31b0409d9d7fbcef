//! Objects of which some members are ours as a whole: what somebody adds to their lists and maps goes again, which an apply
//! would let stand.

use allotment_core::write::merge_diff;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};

use super::is_gone;

/// An object as it is to be, and which of its members are ours as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// The object, with all that a server would add to these members.
    pub object: &'a Value,
    /// Members at its top: `spec`, `data`, `webhooks`.
    pub members: &'a [&'a str],
    /// Who writes.
    pub manager: &'a str,
}

/// What was found, and done.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// It was as it is to be.
    Same(Box<DynamicObject>),
    /// It was not there.
    Made(Box<DynamicObject>),
    /// It said something else.
    Mended(Box<Mended>),
}

/// What said something else than it is to.
#[derive(Clone, Debug, PartialEq)]
pub struct Mended {
    /// The object as it was.
    pub before: DynamicObject,
    /// The object as it is now.
    pub after: DynamicObject,
    /// The members that were different.
    pub members: Vec<String>,
}

impl Kept {
    /// The object as it is now.
    pub fn object(&self) -> &DynamicObject {
        match self {
            Kept::Same(object) | Kept::Made(object) => object,
            Kept::Mended(mended) => &mended.after,
        }
    }
}

impl Whole<'_> {
    /// Makes it what it is to be. A change says which state it was decided on, so that one that comes late changes nothing
    /// that somebody wrote since.
    ///
    /// # Errors
    /// The server does not answer or refuses, or somebody wrote in between (409): then it is tried again.
    pub async fn keep(self, api: &Api<DynamicObject>) -> Result<Kept, kube::Error> {
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default();
        let there = api.get_opt(name).await?;
        self.mend(api, there).await
    }

    /// Whether [`Self::mend`] would write.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn differs(self, there: Option<&DynamicObject>) -> Result<bool, kube::Error> {
        let Some(there) = there else { return Ok(true) };
        let there = serde_json::to_value(there).map_err(kube::Error::SerdeError)?;
        Ok(self.patch(&there).is_some())
    }

    /// Makes of what was read what it is to be.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub async fn mend(self, api: &Api<DynamicObject>, there: Option<DynamicObject>) -> Result<Kept, kube::Error> {
        let wanted: DynamicObject = serde_json::from_value(self.object.clone()).map_err(kube::Error::SerdeError)?;
        let name = wanted.name_any();
        let Some(there) = there else {
            let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
            return Ok(Kept::Made(Box::new(api.create(&params, &wanted).await?)));
        };
        let Some(patch) = self.patch(&serde_json::to_value(&there).map_err(kube::Error::SerdeError)?) else {
            return Ok(Kept::Same(Box::new(there)));
        };
        let different = patch.as_object().into_iter().flat_map(|members| members.keys().cloned());
        let different = different.filter(|member| self.members.contains(&member.as_str())).collect();
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        match api.patch(&name, &params, &Patch::Merge(&patch)).await {
            Err(error) if is_gone(&error) => Err(kube::Error::Api(Box::new(conflict()))),
            // A server that adds something of its own has not changed it.
            Ok(after) if after.resource_version() == there.resource_version() => Ok(Kept::Same(Box::new(after))),
            Ok(after) => Ok(Kept::Mended(Box::new(Mended { before: there, after, members: different }))),
            Err(error) => Err(error),
        }
    }

    /// What makes of the object that is there the one that is to be; nothing where it is that already. Labels and annotations
    /// that others add stay.
    fn patch(self, there: &Value) -> Option<Value> {
        let mut patch = merge_diff(&pick(there, self.members), &pick(self.object, self.members));
        for kept in ["labels", "annotations"] {
            let have = &there["metadata"][kept];
            let missing = self.object["metadata"][kept].as_object().into_iter().flatten();
            for (key, value) in missing.filter(|(key, value)| have.get(key.as_str()) != Some(value)) {
                patch.get_or_insert_with(|| json!({}))["metadata"][kept][key] = value.clone();
            }
        }
        let mut patch = patch?;
        patch["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
        patch["metadata"]["uid"] = there["metadata"]["uid"].clone();
        Some(patch)
    }
}

fn pick(object: &Value, members: &[&str]) -> Value {
    let found = members.iter().filter_map(|member| Some(((*member).to_owned(), object.get(member)?.clone())));
    Value::Object(found.collect::<Map<_, _>>())
}

fn conflict() -> kube::core::Status {
    kube::core::Status::failure("it was deleted meanwhile", "Conflict").with_code(409)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_add_to_our_members_goes_and_what_they_add_elsewhere_stays() {
        let wanted = json!({"metadata": {"name": "x", "labels": {"ours": "1"}}, "webhooks": [{"name": "a"}], "data": {"a": "1"}});
        let whole = Whole { object: &wanted, members: &["webhooks", "data"], manager: "m" };
        let check = |there: Value, expect: Value| {
            let mut there = there;
            there["metadata"]["resourceVersion"] = json!("7");
            there["metadata"]["uid"] = json!("u");
            let mut expect = expect;
            if !expect.is_null() {
                expect["metadata"]["resourceVersion"] = json!("7");
                expect["metadata"]["uid"] = json!("u");
            }
            assert_eq!(whole.patch(&there).unwrap_or_default(), expect, "{there}");
        };
        let ours = json!({"ours": "1", "theirs": "2"});
        check(
            json!({"metadata": {"labels": ours}, "webhooks": [{"name": "a"}], "data": {"a": "1"}, "other": 1}),
            Value::Null,
        );
        check(
            json!({"metadata": {"labels": ours}, "webhooks": [{"name": "a"}, {"name": "b"}], "data": {"a": "1", "b": "2"}}),
            json!({"webhooks": [{"name": "a"}], "data": {"b": null}}),
        );
        check(
            json!({"metadata": {}, "webhooks": [{"name": "a", "matchConditions": []}], "data": {"a": "2"}}),
            json!({"metadata": {"labels": {"ours": "1"}}, "webhooks": [{"name": "a"}], "data": {"a": "1"}}),
        );
        check(json!({"metadata": {"labels": ours}}), json!({"webhooks": [{"name": "a"}], "data": {"a": "1"}}));
    }
}
