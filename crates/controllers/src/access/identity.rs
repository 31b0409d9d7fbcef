//! The identity of an AccessRequest inside its Cluster: a ServiceAccount, roles with exactly the
//! permissions asked for, and their bindings. Everything carries the AccessRequest's UID as a label and
//! has a name made from it, so that it is found again whatever was lost.

use std::collections::BTreeMap;
use std::fmt::Debug;

use allotment_api::names::{ACCESS_NAMESPACE, ACCESS_REQUEST};
use allotment_api::requests::Permission;
use futures::future::try_join_all;
use futures::{TryFutureExt, TryStreamExt, stream};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{Writer, is_conflict, is_gone};

const WRITER: Writer = Writer::new("allot-access");
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// Objects that are changed at once in one Cluster: enough to share a commit, few enough not to crowd
/// out its users.
const AT_ONCE: usize = 16;

/// The identity of one AccessRequest in one Cluster.
#[derive(Clone, Debug)]
pub(crate) struct Identity<'a> {
    /// UID of the AccessRequest.
    pub(crate) uid: &'a str,
    /// The permissions it is to have.
    pub(crate) permissions: &'a [Permission],
    /// Namespaces to make first, where they do not exist.
    pub(crate) namespaces: &'a [String],
}

/// A token and when it ends.
pub(crate) struct Token {
    /// The token.
    pub(crate) token: String,
    /// Its `exp`.
    pub(crate) expires: jiff::Timestamp,
}

/// The objects that an identity consists of beside its ServiceAccount.
#[derive(Clone, Debug, Default)]
struct Objects {
    cluster_roles: Vec<ClusterRole>,
    cluster_bindings: Vec<ClusterRoleBinding>,
    roles: Vec<Role>,
    bindings: Vec<RoleBinding>,
}

/// The name of the ServiceAccount of that AccessRequest.
pub(crate) fn account_name(uid: &str) -> String {
    format!("access-{uid}")
}

impl Identity<'_> {
    /// Makes what is missing, changes what differs, removes what is too much; what narrows comes first.
    /// `fresh` says that nothing can be there yet, which saves looking.
    pub(crate) async fn ensure(&self, cluster: &Client, fresh: bool) -> Result<(), kube::Error> {
        let desired = self.objects();
        let existing = if fresh { Objects::default() } else { find(cluster, self.uid).await? };
        self.narrow(cluster, &existing, &desired).await?;
        try_join_all(self.namespaces.iter().map(|name| ensure_namespace(cluster, name))).await?;
        let account = self.ensure_account(cluster);
        let roles = async {
            let cluster_api = Api::<ClusterRole>::all(cluster.clone());
            let each = desired.cluster_roles.iter().map(|role| ensure(&cluster_api, role, same_cluster_rules));
            let cluster_roles = try_join_all(each);
            let namespaced = desired.roles.iter().map(|role| async move {
                let api = Api::<Role>::namespaced(cluster.clone(), &role.namespace().unwrap_or_default());
                ensure(&api, role, |there, wanted| there.rules == wanted.rules).await
            });
            futures::future::try_join(cluster_roles, try_join_all(namespaced)).await
        };
        let bindings = async {
            let cluster_api = Api::<ClusterRoleBinding>::all(cluster.clone());
            let each = desired.cluster_bindings.iter().map(|binding| {
                ensure(&cluster_api, binding, |there, wanted| there.subjects == wanted.subjects)
            });
            let cluster_bindings = try_join_all(each);
            let namespaced = desired.bindings.iter().map(|binding| async move {
                let api = Api::<RoleBinding>::namespaced(cluster.clone(), &binding.namespace().unwrap_or_default());
                ensure(&api, binding, |there, wanted| there.subjects == wanted.subjects).await
            });
            futures::future::try_join(cluster_bindings, try_join_all(namespaced)).await
        };
        futures::future::try_join3(account, roles, bindings).await?;
        Ok(())
    }

    /// Asks the Cluster for a token of that lifetime; it may give another one.
    pub(crate) async fn token(&self, cluster: &Client, lifetime_secs: i64) -> Result<Token, kube::Error> {
        let accounts = Api::<ServiceAccount>::namespaced(cluster.clone(), ACCESS_NAMESPACE);
        let spec = TokenRequestSpec { expiration_seconds: Some(lifetime_secs), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let name = account_name(self.uid);
        let answer = accounts.create_token_request(&name, &PostParams::default(), &request).await?;
        let status = answer.status.unwrap_or_default();
        Ok(Token { token: status.token, expires: status.expiration_timestamp.0 })
    }

    async fn ensure_account(&self, cluster: &Client) -> Result<(), kube::Error> {
        let api = Api::<ServiceAccount>::namespaced(cluster.clone(), ACCESS_NAMESPACE);
        let account = ServiceAccount {
            metadata: meta(self.uid, &account_name(self.uid), Some(ACCESS_NAMESPACE)),
            ..ServiceAccount::default()
        };
        match WRITER.create(&api, &account).await {
            Err(error) if is_gone(&error) => {
                // The first access to this Cluster finds no namespace for accounts.
                ensure_namespace(cluster, ACCESS_NAMESPACE).await?;
                WRITER.create(&api, &account).await.map(drop).or_else(unless_there)
            }
            answer => answer.map(drop).or_else(unless_there),
        }
    }

    /// Takes away what is no longer asked for, before anything is added.
    async fn narrow(&self, cluster: &Client, existing: &Objects, desired: &Objects) -> Result<(), kube::Error> {
        let surplus = Objects {
            cluster_roles: without(&existing.cluster_roles, &desired.cluster_roles),
            cluster_bindings: without(&existing.cluster_bindings, &desired.cluster_bindings),
            roles: without(&existing.roles, &desired.roles),
            bindings: without(&existing.bindings, &desired.bindings),
        };
        surplus.delete(cluster).await
    }

    fn objects(&self) -> Objects {
        let mut objects = Objects::default();
        for (index, permission) in self.permissions.iter().enumerate() {
            let name = format!("access-{}-{index}", self.uid);
            let metadata = meta(self.uid, &name, permission.namespace.as_deref());
            let role_ref = |kind: &str| RoleRef {
                api_group: RBAC_GROUP.to_owned(),
                kind: kind.to_owned(),
                name: name.clone(),
            };
            let subjects = Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: account_name(self.uid),
                namespace: Some(ACCESS_NAMESPACE.to_owned()),
                api_group: None,
            }]);
            let rules = Some(permission.rules.clone());
            if permission.namespace.is_some() {
                objects.roles.push(Role { metadata: metadata.clone(), rules });
                objects.bindings.push(RoleBinding { metadata, role_ref: role_ref("Role"), subjects });
            } else {
                objects.cluster_roles.push(ClusterRole { metadata: metadata.clone(), rules, aggregation_rule: None });
                let role_ref = role_ref("ClusterRole");
                objects.cluster_bindings.push(ClusterRoleBinding { metadata, role_ref, subjects });
            }
        }
        objects
    }
}

/// Takes everything of that AccessRequest out of the Cluster: the ServiceAccount first, so that its
/// tokens end at once.
pub(crate) async fn revoke(cluster: &Client, uid: &str) -> Result<(), kube::Error> {
    let accounts = Api::<ServiceAccount>::namespaced(cluster.clone(), ACCESS_NAMESPACE);
    delete(&accounts, &account_name(uid)).await?;
    find(cluster, uid).await?.delete(cluster).await
}

/// Which of those namespaces do not exist in the Cluster.
pub(crate) async fn missing_namespaces(cluster: &Client, names: &[String]) -> Result<Vec<String>, kube::Error> {
    let api = Api::<Namespace>::all(cluster.clone());
    let looked = names.iter().map(|name| api.get_metadata_opt(name).map_ok(move |found| (name, found.is_some())));
    let looked = try_join_all(looked).await?;
    Ok(looked.into_iter().filter(|(_, found)| !found).map(|(name, _)| name.clone()).collect())
}

async fn find(cluster: &Client, uid: &str) -> Result<Objects, kube::Error> {
    let params = ListParams::default().labels(&format!("{ACCESS_REQUEST}={uid}"));
    let (cluster_roles, cluster_bindings) = (Api::all(cluster.clone()), Api::all(cluster.clone()));
    let (roles, bindings) = (Api::all(cluster.clone()), Api::all(cluster.clone()));
    let (cluster_roles, cluster_bindings, roles, bindings) = futures::future::try_join4(
        cluster_roles.list(&params),
        cluster_bindings.list(&params),
        roles.list(&params),
        bindings.list(&params),
    )
    .await?;
    Ok(Objects {
        cluster_roles: cluster_roles.items,
        cluster_bindings: cluster_bindings.items,
        roles: roles.items,
        bindings: bindings.items,
    })
}

impl Objects {
    /// Deletes all of them, bindings first: a role without binding gives nothing.
    async fn delete(&self, cluster: &Client) -> Result<(), kube::Error> {
        delete_all(&self.cluster_bindings, |_| Api::all(cluster.clone())).await?;
        delete_all(&self.bindings, |namespace| Api::namespaced(cluster.clone(), namespace)).await?;
        delete_all(&self.cluster_roles, |_| Api::all(cluster.clone())).await?;
        delete_all(&self.roles, |namespace| Api::namespaced(cluster.clone(), namespace)).await
    }
}

async fn delete_all<K>(objects: &[K], api: impl Fn(&str) -> Api<K>) -> Result<(), kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let deletions = objects.iter().map(|object| {
        let api = api(&object.namespace().unwrap_or_default());
        Ok(async move { delete(&api, &object.name_any()).await })
    });
    stream::iter(deletions).try_buffer_unordered(AT_ONCE).try_collect::<()>().await
}

async fn delete<K>(api: &Api<K>, name: &str) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    match api.delete(name, &DeleteParams::default()).await {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Makes the object, or brings what is there to what it says.
async fn ensure<K>(api: &Api<K>, wanted: &K, same: impl Fn(&K, &K) -> bool) -> Result<(), kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    match WRITER.create(api, wanted).await {
        Err(error) if is_conflict(&error) => {}
        answer => return answer.map(drop),
    }
    let there = api.get(&wanted.name_any()).await?;
    if same(&there, wanted) {
        return Ok(());
    }
    let mut after = wanted.clone();
    after.meta_mut().resource_version = there.resource_version();
    after.meta_mut().uid = there.uid();
    api.replace(&wanted.name_any(), &PostParams::default(), &after).await.map(drop)
}

fn same_cluster_rules(there: &ClusterRole, wanted: &ClusterRole) -> bool {
    there.rules == wanted.rules && there.aggregation_rule == wanted.aggregation_rule
}

async fn ensure_namespace(cluster: &Client, name: &str) -> Result<(), kube::Error> {
    let label = BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "allotment".to_owned())]);
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(label), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    WRITER.create(&Api::all(cluster.clone()), &namespace).await.map(drop).or_else(unless_there)
}

fn unless_there(error: kube::Error) -> Result<(), kube::Error> {
    if is_conflict(&error) { Ok(()) } else { Err(error) }
}

fn meta(uid: &str, name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some(BTreeMap::from([(ACCESS_REQUEST.to_owned(), uid.to_owned())])),
        ..ObjectMeta::default()
    }
}

/// The objects of `existing` that `desired` does not name.
fn without<K: Resource + Clone>(existing: &[K], desired: &[K]) -> Vec<K> {
    let named = |object: &K| desired.iter().any(|wanted| {
        wanted.meta().name == object.meta().name && wanted.meta().namespace == object.meta().namespace
    });
    existing.iter().filter(|object| !named(object)).cloned().collect()
}
