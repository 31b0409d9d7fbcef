//! An object as it is stored, whether its spec can be read or not: what was written while nobody judged it keeps nobody from
//! the other objects of its kind.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::kept::KeptOrNothing;
use super::{
    CloudProfile, CloudProfileSpec, CloudProfileStatus, KeptProfile, KeptStatus, PrivateCloudProfileSpec, Shoot,
    ShootSpec,
};

/// An object that was read, or what is known of it in spite of its spec.
#[derive(Clone, Debug)]
pub enum Stored<K> {
    /// All of it.
    Read(K),
    /// Its spec cannot be read.
    Unread(Box<Unread>),
}

/// What is known of an object of which the spec cannot be read.
#[derive(Clone, Debug)]
pub struct Unread {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its spec, as it is.
    pub spec: Value,
    /// What the platform said of it; of a CloudProfile generation and conditions.
    pub status: KeptStatus,
    /// The first field that cannot be read, and why.
    pub why: String,
}

/// A kind that may be stored in a form that cannot be read.
pub trait Parts: Sized {
    /// Its spec.
    type Spec: DeserializeOwned;
    /// Its status. One that cannot be read is none.
    type Status: DeserializeOwned;
    /// An object of these parts.
    fn of(metadata: ObjectMeta, spec: Self::Spec, status: Option<Self::Status>) -> Self;
    /// What is kept of a status.
    fn kept(status: Self::Status) -> KeptStatus;
}

impl Parts for CloudProfile {
    type Spec = CloudProfileSpec;
    type Status = Lenient<CloudProfileStatus>;

    fn of(metadata: ObjectMeta, spec: CloudProfileSpec, status: Option<Self::Status>) -> Self {
        CloudProfile { metadata, spec, status: status.and_then(|status| status.0) }
    }

    fn kept(status: Self::Status) -> KeptStatus {
        let status = status.0.unwrap_or_default();
        KeptStatus {
            observed_generation: status.observed_generation,
            conditions: status.conditions,
            ..KeptStatus::default()
        }
    }
}

impl Parts for KeptProfile {
    type Spec = PrivateCloudProfileSpec;
    type Status = KeptOrNothing;

    fn of(metadata: ObjectMeta, spec: PrivateCloudProfileSpec, status: Option<KeptOrNothing>) -> Self {
        KeptProfile { metadata, spec, status: status.map(|status| status.0).unwrap_or_default() }
    }

    fn kept(status: KeptOrNothing) -> KeptStatus {
        status.0
    }
}

impl Parts for Shoot {
    type Spec = ShootSpec;
    type Status = IgnoredAny;

    fn of(metadata: ObjectMeta, spec: ShootSpec, _status: Option<IgnoredAny>) -> Self {
        Shoot { metadata, spec }
    }

    fn kept(_status: IgnoredAny) -> KeptStatus {
        KeptStatus::default()
    }
}

/// A value, or nothing where it cannot be read.
#[derive(Clone, Debug)]
pub struct Lenient<T>(pub Option<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Lenient(serde_json::from_value(value).ok()))
    }
}

/// A member that is its default where it cannot be read.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Lenient::<T>::deserialize(deserializer).map(|value| value.0.unwrap_or_default())
}

/// An object by its parts, of which the spec is not looked at.
#[derive(Deserialize)]
struct InParts<S> {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default = "Option::default")]
    status: Option<S>,
}

impl<'de, K: Parts> Deserialize<'de> for Stored<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let InParts { metadata, spec, status } = InParts::<K::Status>::deserialize(deserializer)?;
        let spec = if spec.is_null() { Value::Object(Map::new()) } else { spec };
        Ok(match K::Spec::deserialize(&spec) {
            Ok(read) => Stored::Read(K::of(metadata, read, status)),
            Err(error) => {
                let why = first_fault::<K::Spec>(&spec).unwrap_or_else(|| format!("spec: {error}"));
                let status = status.map(K::kept).unwrap_or_default();
                Stored::Unread(Box::new(Unread { metadata, spec, status, why }))
            }
        })
    }
}

/// The first member that alone cannot be read; none of them is required.
fn first_fault<S: DeserializeOwned>(spec: &Value) -> Option<String> {
    spec.as_object()?.iter().find_map(|(name, value)| {
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        S::deserialize(&alone).err().map(|error| format!("spec.{name}: {error}"))
    })
}

impl<K: Resource<DynamicType = ()>> Resource for Stored<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Stored::Read(object) => object.meta(),
            Stored::Unread(object) => &object.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Stored::Read(object) => object.meta_mut(),
            Stored::Unread(object) => &mut object.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a list of objects of those specs and that status is read as: of each its name, and why it cannot be read.
    fn check<K: Parts + Resource<DynamicType = ()>>(objects: &[Value], expect: &[Option<&str>]) -> Vec<Stored<K>> {
        let items: Vec<Value> = objects.to_vec();
        let text = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}).to_string();
        #[derive(Deserialize)]
        #[serde(bound = "K: Parts")]
        struct List<K> {
            items: Vec<Stored<K>>,
        }
        let list: List<K> = serde_json::from_str(&text).expect("a list");
        let why: Vec<Option<&str>> = list
            .items
            .iter()
            .map(|one| match one {
                Stored::Read(_) => None,
                Stored::Unread(unread) => Some(unread.why.as_str()),
            })
            .collect();
        assert_eq!(why, expect);
        assert!(list.items.iter().all(|one| one.meta().name.is_some()));
        list.items
    }

    fn named(spec: Value) -> Value {
        json!({"apiVersion": "core.gardener.cloud/v1beta1", "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn one_that_cannot_be_read_leaves_the_others_be() {
        let of_parent = "spec.parent: invalid type: integer `5`, expected the name of a CloudProfile, or an object with kind and name";
        check::<KeptProfile>(
            &[named(json!({"parent": "central"})), named(json!({"parent": 5})), named(Value::Null)],
            &[None, Some(of_parent), None],
        );
        let list = "spec.machineTypes: invalid type: string \"x\", expected a sequence";
        check::<CloudProfile>(&[named(json!({"machineTypes": "x"})), named(json!({"type": "t"}))], &[Some(list), None]);
        check::<Shoot>(
            &[named(json!({"region": "r"})), named(json!("text"))],
            &[None, Some("spec: invalid type: string \"text\", expected struct ShootSpec")],
        );
    }

    #[test]
    fn a_status_that_cannot_be_read_is_none_and_the_rest_of_it_stays() {
        let mut profile = named(json!({"parent": "central"}));
        profile["status"] = json!({"observedGeneration": 3, "conflicts": 5, "cloudProfile": {"spec": 7}, "more": []});
        let read = check::<KeptProfile>(&[profile], &[None]).remove(0);
        let Stored::Read(read) = read else { unreachable!() };
        assert_eq!((read.status.observed_generation, read.status.conflicts.len()), (Some(3), 0));
        assert!(read.status.cloud_profile.is_some());
        let mut cloud = named(json!({"type": "t"}));
        cloud["status"] = json!({"conditions": 5});
        let Stored::Read(read) = check::<CloudProfile>(&[cloud], &[None]).remove(0) else { unreachable!() };
        assert_eq!(read.status, None);
    }

    #[test]
    fn a_status_that_is_no_object_keeps_nobody_from_the_list() {
        for status in
            [json!(5), json!("x"), json!(true), json!(-1.5), json!([{"a": [1]}]), json!(i64::MIN), Value::Null]
        {
            for (spec, why) in [(json!({"parent": "central"}), None), (json!("x"), Some("spec: "))] {
                let (mut odd, mut other) = (named(spec), named(json!({"parent": "central"})));
                odd["status"] = status.clone();
                other["status"] = json!({"observedGeneration": 3});
                let text = json!([odd, other]).to_string();
                let all: Vec<Stored<KeptProfile>> = serde_json::from_str(&text).expect("a list");
                match (&all[0], why) {
                    (Stored::Read(odd), None) => assert_eq!(odd.status, KeptStatus::default(), "{status}"),
                    (Stored::Unread(odd), Some(why)) => assert!(odd.why.starts_with(why), "{}", odd.why),
                    (odd, _) => panic!("{status}: {odd:?}"),
                }
                let Stored::Read(other) = &all[1] else { panic!("{:?}", all[1]) };
                assert_eq!(other.status.observed_generation, Some(3));
            }
            let mut alone = named(json!({"parent": "central"}));
            alone["status"] = status;
            let alone: KeptProfile = serde_json::from_value(alone).expect("a profile");
            assert_eq!(alone.status, KeptStatus::default());
        }
    }
}
