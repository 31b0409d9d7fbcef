//! Whether an object has room for what a private profile is rendered to: API servers take no larger ones, and Shoots would use
//! what nobody is shown.

use allotment_api::catalog::{Conflict, PrivateCloudProfileSpec, RenderedProfile};
use allotment_machinery::field::{FieldError, Path};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::parent::Parent;
use super::render::render;
use super::status::recorded;

/// Most conflicts, and most versions that expired and stay, that a status lists.
pub(super) const MOST_CONFLICTS: usize = 100;
/// Most bytes of an object: what etcd takes by default.
pub(super) const MOST_BYTES: usize = 1_572_864;
/// Of these, what is left for those who own its fields and what API servers add.
const SPARE_BYTES: usize = 64 * 1024;
/// More than the conflicts of a status take: of each a path and a reason, and of both values a kilobyte.
const MOST_TOLD_BYTES: usize = MOST_CONFLICTS * 4 * 1024;

/// What of an object's size hangs on a private profile and its parent alone, neither on the time nor on Shoots: whether what it
/// is rendered to is shown goes by that. What else a status tells has to fit beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// All but what it is rendered to.
    rest: usize,
    /// What it is rendered to.
    rendering: usize,
}

impl Size {
    /// Measures what was rendered of a private profile.
    pub(super) fn of(
        metadata: &ObjectMeta,
        spec: &PrivateCloudProfileSpec,
        conflicts: &[Conflict],
        whole: &RenderedProfile,
    ) -> Self {
        let told = &conflicts[..conflicts.len().min(MOST_CONFLICTS)];
        Size { rest: taken(metadata, spec) + bytes_of(&told), rendering: bytes_of(whole) }
    }

    fn bytes(self) -> usize {
        self.rest + self.rendering
    }

    /// Whether API servers take no such object.
    pub(super) fn is_too_large(self) -> bool {
        self.bytes() > MOST_BYTES
    }

    /// How many bytes are left for what else a status tells; one that is too large is not shown.
    pub(super) fn left(self) -> usize {
        MOST_BYTES.saturating_sub(if self.is_too_large() { self.rest } else { self.bytes() })
    }
}

/// What is taken whatever it is rendered to. Of metadata what is written of them counts, which is there before the object is.
fn taken(metadata: &ObjectMeta, spec: &PrivateCloudProfileSpec) -> usize {
    let names = bytes_of(&(&metadata.name, &metadata.namespace, &metadata.finalizers));
    let written = names + bytes_of(&(&metadata.labels, &metadata.annotations, &metadata.owner_references));
    SPARE_BYTES + written + bytes_of(spec) + bytes_of(&recorded(metadata))
}

/// Whether there is room for whatever a private profile may be rendered to over that parent, and for `told` bytes beside it: then
/// nothing has to be measured.
pub(super) fn has_room(metadata: &ObjectMeta, spec: &PrivateCloudProfileSpec, parent: &Parent, told: usize) -> bool {
    taken(metadata, spec) + parent.bytes() + bytes_of(spec) + SPARE_BYTES + MOST_TOLD_BYTES + told <= MOST_BYTES
}

/// That a private profile would be too large an object with what it is rendered to over that parent. Rendered only where
/// it may be.
pub fn lacks_room(metadata: &ObjectMeta, spec: &PrivateCloudProfileSpec, parent: &Parent) -> Option<FieldError> {
    if has_room(metadata, spec, parent, 0) {
        return None;
    }
    let rendered = render(parent, spec);
    let whole = RenderedProfile::new(metadata.name.clone().unwrap_or_default(), rendered.spec);
    let size = Size::of(metadata, spec, &rendered.conflicts, &whole);
    size.is_too_large().then(|| {
        let (rendering, bytes) = (size.rendering, size.bytes());
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
