//! The order in which waiting requests are decided.

use allotment_api::requests::ClusterRequest;

use crate::write::ObjectKey;

/// Seconds of waiting that count as much as one step of priority.
const SECONDS_PER_STEP: i64 = 60;

/// Higher priority first, and a waiting request gains one per minute, so nobody starves; then older,
/// then by name.
///
/// Since all gain alike, the order of two requests never changes: it is fixed by priority and age.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueOrder {
    /// Creation, moved back by a minute per step of priority.
    turn: i64,
    created: i64,
    key: ObjectKey,
}

impl QueueOrder {
    /// Where that request stands.
    pub fn of(request: &ClusterRequest) -> Self {
        let created = request.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        let priority = i64::from(request.spec.priority.unwrap_or(0));
        QueueOrder { turn: created - priority * SECONDS_PER_STEP, created, key: ObjectKey::of(&request.metadata) }
    }

    /// Whose place it is.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }
}
