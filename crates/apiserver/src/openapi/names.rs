//! What the documents call things: schemas, operations, tags.

/// Which of the two forms of OpenAPI is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// OpenAPI 2.0 (Swagger).
    Two,
    /// OpenAPI 3.0.
    Three,
}

impl Form {
    /// What a reference to the schema `name` says.
    pub(super) fn reference(self, name: &str) -> String {
        match self {
            Form::Two => format!("#/definitions/{name}"),
            Form::Three => format!("#/components/schemas/{name}"),
        }
    }
}

/// The package of `apimachinery`'s metadata types, as schemas are named by it.
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schema of a built-in message: `core/v1.ConfigMap` → `io.k8s.api.core.v1.ConfigMap`.
pub(super) fn of_message(message: &str) -> String {
    let (package, name) = message.rsplit_once('.').unwrap_or(("", message));
    match package {
        "meta/v1" => format!("{META}.{name}"),
        "apiextensions/v1" => format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}"),
        "apiregistration/v1" => format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.{name}"),
        _ => format!("io.k8s.api.{}.{name}", package.replace('/', ".")),
    }
}

/// The API group of a built-in message's package: `rbac/v1.Role` → `rbac.authorization.k8s.io`, `v1`.
pub(super) fn group_of_message(message: &str) -> (String, &str) {
    let package = message.rsplit_once('.').map_or("", |(package, _)| package);
    let (group, version) = package.split_once('/').unwrap_or((package, ""));
    let group = match group {
        "core" | "meta" => String::new(),
        "apps" | "autoscaling" | "batch" | "policy" => group.to_owned(),
        "rbac" => "rbac.authorization.k8s.io".to_owned(),
        _ => format!("{group}.k8s.io"),
    };
    (group, version)
}

/// The schema of a custom kind: the group backwards, version, kind.
pub(super) fn of_custom(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.split('.').rev().filter(|part| !part.is_empty()).collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// What operations of a group and version have in their ids and as their tag.
pub(super) struct GroupVersionName {
    /// `RbacAuthorizationV1`
    pub(super) id: String,
    /// `rbacAuthorization_v1`
    pub(super) tag: String,
}

/// The name of `group` in `version`, or of the group alone where that is empty.
pub(super) fn group_version(group: &str, version: &str) -> GroupVersionName {
    let group = if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
    let id = format!("{}{}", identifier(group, true), identifier(version, true));
    let tag = identifier(group, false);
    let tag = if version.is_empty() { tag } else { format!("{tag}_{}", identifier(version, false)) };
    GroupVersionName { id, tag }
}

/// Letters, digits and underscores of `text`; what follows anything else is capitalised.
pub(super) fn identifier(text: &str, mut capitalise: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, letter) in text.chars().enumerate() {
        if !(letter.is_alphabetic() || letter == '_' || index != 0 && letter.is_numeric()) {
            capitalise = true;
        } else if capitalise {
            out.extend(letter.to_uppercase());
            capitalise = false;
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_named_by_package_or_by_group_backwards() {
        assert_eq!(of_message("core/v1.ConfigMap"), "io.k8s.api.core.v1.ConfigMap");
        assert_eq!(of_message("meta/v1.ObjectMeta"), "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        assert_eq!(of_custom("example.com", "v1", "Thing"), "com.example.v1.Thing");
        assert_eq!(group_of_message("rbac/v1.Role"), ("rbac.authorization.k8s.io".to_owned(), "v1"));
        assert_eq!(group_of_message("core/v1.Event"), (String::new(), "v1"));
    }

    #[test]
    fn operations_are_named_by_group_and_version() {
        let check = |group: &str, version: &str, id: &str, tag: &str| {
            let name = group_version(group, version);
            assert_eq!((name.id.as_str(), name.tag.as_str()), (id, tag));
        };
        check("", "v1", "CoreV1", "core_v1");
        check("rbac.authorization.k8s.io", "v1", "RbacAuthorizationV1", "rbacAuthorization_v1");
        check("flowcontrol.apiserver.k8s.io", "v1", "FlowcontrolApiserverV1", "flowcontrolApiserver_v1");
        check("a.example.com", "v1alpha1", "AExampleComV1alpha1", "aExampleCom_v1alpha1");
        check("apps", "", "Apps", "apps");
    }
}
