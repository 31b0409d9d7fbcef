//! Whether an object has room for what a private profile is rendered to: API servers take no larger ones, and Shoots would use
//! what nobody is shown.

use allotment_api::catalog::{Conflict, PrivateCloudProfileSpec, REMOVED_VERSIONS, RenderedProfile};
use allotment_machinery::field::{FieldError, Path};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::parent::Parent;
use super::render::render;

/// Most conflicts, and most versions that expired and stay, that a status lists.
pub(super) const MOST_CONFLICTS: usize = 100;
/// Most bytes of an object: what etcd takes by default.
pub(super) const MOST_BYTES: usize = 1_572_864;
/// Of these, what is left for those who own its fields and what API servers add.
pub(super) const SPARE_BYTES: usize = 64 * 1024;
/// More than the conflicts of a status take: of each a path and a reason, and of both values a kilobyte.
const MOST_TOLD_BYTES: usize = MOST_CONFLICTS * 4 * 1024;

/// That a private profile would be too large an object with what it is rendered to over that parent. Rendered only where
/// it may be.
pub fn lacks_room(metadata: &ObjectMeta, spec: &PrivateCloudProfileSpec, parent: &Parent) -> Option<FieldError> {
    let own = bytes_of(spec);
    let removed = metadata.annotations.as_ref().and_then(|all| all.get(REMOVED_VERSIONS)).map_or(0, String::len);
    let taken = SPARE_BYTES + bytes_of(metadata) + own + removed;
    if taken + parent.bytes() + own + SPARE_BYTES + MOST_TOLD_BYTES <= MOST_BYTES {
        return None;
    }
    let rendered = render(parent, spec);
    let conflicts: Vec<&Conflict> = rendered.conflicts.iter().take(MOST_CONFLICTS).collect();
    let whole = RenderedProfile::new(metadata.name.clone().unwrap_or_default(), rendered.spec);
    let (told, rendering) = (bytes_of(&conflicts), bytes_of(&whole));
    let bytes = taken + told + rendering;
    (bytes > MOST_BYTES).then(|| {
        let detail = format!(
            "what it is rendered to over CloudProfile {:?} has {rendering} bytes, with which it would be an object of {bytes}, \
             and API servers take no more than {MOST_BYTES}: take entries out of either",
            parent.name()
        );
        FieldError::forbidden(&Path::new("spec"), detail)
    })
}

/// How long the JSON of a value is.
pub(super) fn bytes_of(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A value that cannot be written is not written either.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
