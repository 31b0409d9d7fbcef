//! Guarded writes: every change says which state it was decided on, and writes no more than it changes.

use std::fmt::Debug;

use allotment_core::write::merge_diff;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Whether a write lost a race: somebody else was faster, or the object is there already.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Whether the object is not there.
pub fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether something new was refused because its namespace is going: what asked for it goes too.
pub(super) fn is_ending(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Writes in the name of one controller.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    field_manager: &'static str,
}

impl Writer {
    /// A writer under that field manager's name.
    pub const fn new(field_manager: &'static str) -> Self {
        Writer { field_manager }
    }

    /// Creates an object.
    pub async fn create<K>(&self, api: &Api<K>, object: &K) -> Result<K, kube::Error>
    where
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        let params = PostParams { field_manager: Some(self.field_manager.to_owned()), ..PostParams::default() };
        api.create(&params, object).await
    }

    /// Makes `after` of `before`, status aside, provided that `before` is still what is there. Absent if
    /// there is nothing to change.
    pub async fn update<K>(&self, api: &Api<K>, before: &K, after: &K) -> Result<Option<K>, kube::Error>
    where
        K: Clone + Debug + DeserializeOwned + Serialize + Resource,
    {
        self.patch(
            api,
            before,
            after,
            |members| {
                members.remove("status");
            },
            false,
        )
        .await
    }

    /// Makes the status of `after` of that of `before`, provided that `before` is still what is there.
    pub async fn update_status<K>(&self, api: &Api<K>, before: &K, after: &K) -> Result<Option<K>, kube::Error>
    where
        K: Clone + Debug + DeserializeOwned + Serialize + Resource,
    {
        self.patch(api, before, after, |members| members.retain(|key, _| key == "status"), true).await
    }

    async fn patch<K>(
        &self,
        api: &Api<K>,
        before: &K,
        after: &K,
        scope: impl Fn(&mut Map<String, Value>),
        status: bool,
    ) -> Result<Option<K>, kube::Error>
    where
        K: Clone + Debug + DeserializeOwned + Serialize + Resource,
    {
        let scoped = |object: &K| -> Result<Value, kube::Error> {
            let mut value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
            if let Value::Object(members) = &mut value {
                scope(members);
            }
            Ok(value)
        };
        let Some(mut patch) = merge_diff(&scoped(before)?, &scoped(after)?) else { return Ok(None) };
        if let Value::Object(members) = &mut patch {
            let metadata = members.entry("metadata").or_insert_with(|| json!({}));
            metadata["resourceVersion"] = json!(before.resource_version());
            metadata["uid"] = json!(before.uid());
        }
        let params = PatchParams { field_manager: Some(self.field_manager.to_owned()), ..PatchParams::default() };
        let name = before.name_any();
        let patch = Patch::Merge(patch);
        let written = if status {
            api.patch_status(&name, &params, &patch).await?
        } else {
            api.patch(&name, &params, &patch).await?
        };
        Ok(Some(written))
    }
}
