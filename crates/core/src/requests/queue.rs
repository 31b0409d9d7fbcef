//! The order in which waiting requests are decided.

use allotment_api::reasons::Verdict;
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

/// When a request is looked at: those that were told nothing yet of what they ask now, then those that wait, of which there may
/// be very many, then those that are bound; each in their order. Who gets room is not decided by this: whoever
/// is chosen for first sees to it that those that wait and come before it in the order are chosen for as well.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    standing: Standing,
    order: QueueOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    New,
    Waits,
    Bound,
}

impl Rank {
    /// Of that request.
    pub fn of(request: &ClusterRequest) -> Self {
        let told = request.status.as_ref().filter(|status| status.observed_generation == request.metadata.generation);
        let standing = match told.and_then(|status| status.status) {
            None => Standing::New,
            Some(Verdict::Granted) => Standing::Bound,
            Some(_) => Standing::Waits,
        };
        Rank { standing, order: QueueOrder::of(request) }
    }

    /// The ranks of those that wait and come before that place in the order.
    pub fn waiting_before(order: &QueueOrder) -> std::ops::Range<Self> {
        Rank::first(Standing::Waits)..Rank { standing: Standing::Waits, order: order.clone() }
    }

    /// The ranks of those that were told nothing yet of what they ask now.
    pub fn new_ones() -> std::ops::Range<Self> {
        Rank::first(Standing::New)..Rank::first(Standing::Waits)
    }

    fn first(standing: Standing) -> Self {
        let order = QueueOrder { turn: i64::MIN, created: i64::MIN, key: ObjectKey::new("", "") };
        Rank { standing, order }
    }
}
