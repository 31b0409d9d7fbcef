//! The type of object metadata, for kinds whose schemas leave it to the server.

use std::sync::LazyLock;

use crate::schema::{ListType, MapType, Schema, Shape};

static OBJECT_META: LazyLock<Schema> = LazyLock::new(|| {
    let text = || Schema::of(Shape::String);
    let time = || text().with_format("date-time");
    let number = || Schema::of(Shape::Integer);
    let owner = Schema {
        map_type: MapType::Atomic,
        ..Schema::object([
            ("apiVersion", text().into()),
            ("blockOwnerDeletion", Schema::of(Shape::Boolean).into()),
            ("controller", Schema::of(Shape::Boolean).into()),
            ("kind", text().into()),
            ("name", text().into()),
            ("uid", Schema { default: Some(Box::new("".into())), ..text() }.into()),
        ])
    };
    let owners = Schema::array(owner).with_list_type(ListType::Map(["uid".into()].into()));
    Schema::object([
        ("annotations", Schema::map(text()).into()),
        ("creationTimestamp", time().into()),
        ("deletionGracePeriodSeconds", number().into()),
        ("deletionTimestamp", time().into()),
        ("finalizers", Schema::array(text()).with_list_type(ListType::Set).into()),
        ("generateName", text().into()),
        ("generation", number().into()),
        ("labels", Schema::map(text()).into()),
        ("managedFields", Schema::array(Schema::map(Schema::anything())).into()),
        ("name", text().into()),
        ("namespace", text().into()),
        ("ownerReferences", owners.into()),
        ("resourceVersion", text().into()),
        ("selfLink", text().into()),
        ("uid", text().into()),
    ])
});

/// `k8s.io/apimachinery/pkg/apis/meta/v1`, ObjectMeta.
pub(super) fn schema() -> &'static Schema {
    &OBJECT_META
}
