//! Admission of the catalog's kinds: looks up what the rules of `allotment-admission` ask for, in this process and beside
//! another API server alike.
//!
//! # Guarantees
//! - Whoever uses a profile is judged by its newest state: the API is asked for its metadata, and the prepared profile at
//!   hand counts only if it is of that resourceVersion.
//! - Lookups are reads and SubjectAccessReviews, which are not admitted themselves, and end in time. Where one fails, the
//!   write does.
//!
//! # Caveats
//! Who depends on a profile is what the controllers have seen, and what Shoots the API lists in two seconds beyond that. Before
//! they have seen everything, it is listed by pages: for a private profile the Shoots of its namespace, for a CloudProfile all of
//! both kinds, one such list at a time; a write that does not come to its turn is refused for now. A deletion, of which it is
//! told only, goes on without.

use std::fmt::{Debug, Display};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use allotment_admission::catalog::{Case, Facts, Family, Found, Lookup, Stage, Users, Write, users_of};
use allotment_api::catalog::{CloudProfile, GROUP, KeptProfile, Parts, Shoot, Stored};
use allotment_apiserver::auth::UserInfo;
use allotment_apiserver::status::ApiError;
use allotment_controllers::frame::chain;
use allotment_core::catalog::{Catalog, KeptShoot, Offer, ProfileKey, UnreadProfile, Verb};
use allotment_core::write::ObjectKey;
use allotment_machinery::names::dns1123_subdomain;
use async_trait::async_trait;
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long all lookups of one review may take: half of what an API server gives a webhook.
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);
/// How often a write says that it wants to know more. Each time it knows more before; none needs more than four.
const MOST_ROUNDS: usize = 8;
/// The resource that verbs are checked on, and what the proposal of private profiles called it.
const RESOURCE: &str = "privatecloudprofiles";
const SOURCE_RESOURCE: &str = "privatecloudprofile";

/// How many objects a page has: of private profiles each may take a hundred kilobytes.
const PAGE: u32 = 100;

/// What is known without asking.
#[async_trait]
pub(crate) trait Known: Sync {
    /// Looks at the index of profiles and Shoots, if everything has been seen once.
    fn with_catalog(&self, look: &mut dyn FnMut(&Catalog));

    /// Has the index know all users of a profile that the API knows now, as far as that can be had in time.
    async fn hear_of_users(&self, client: &Client, profile: &ProfileKey);
}

/// Looks things up.
#[derive(Default)]
pub(crate) struct Lookups {
    client: OnceLock<Client>,
    /// Held by whoever lists everything.
    listing: Mutex<()>,
}

/// Why a write cannot be judged.
#[derive(Debug, thiserror::Error)]
enum LookupError {
    #[error("{what} cannot be looked up")]
    Call {
        what: String,
        #[source]
        source: kube::Error,
    },
    #[error("what it depends on was not looked up within {} s", LOOKUP_LIMIT.as_secs())]
    TimedOut,
    #[error("the platform has only just started")]
    NoClient,
    #[error("it depends on more than can be looked up")]
    TooMuch,
}

impl Lookups {
    /// From now on this client is asked. It has to be allowed to read the group's kinds and to make SubjectAccessReviews.
    pub(crate) fn set_client(&self, client: Client) {
        // Whoever was there first is as good.
        let _ = self.client.set(client);
    }

    /// All that a write is judged by at that stage.
    pub(crate) async fn facts(
        &self,
        case: &Case<'_>,
        stage: Stage,
        known: &dyn Known,
        user: &UserInfo,
        write: &Write<'_>,
    ) -> Result<Facts, ApiError> {
        let found = match timeout(LOOKUP_LIMIT, self.find(case, known, user, write, stage)).await {
            Ok(found) => found,
            Err(_) => Err(LookupError::TimedOut),
        };
        if found.is_err() && case.is_deletion() {
            return Ok(Facts::default());
        }
        found.map_err(|error| unjudged(&error))
    }

    /// The CloudProfile of a private profile; nothing where that is not there, or cannot be read.
    pub(crate) async fn parent_of(&self, key: &ObjectKey, known: &dyn Known) -> Result<Option<String>, ApiError> {
        let Some(client) = self.client.get() else { return Err(unjudged(&LookupError::NoClient)) };
        match private(client, known, key).await.map_err(|error| unjudged(&error))? {
            Found::Private(Some(profile)) => Ok(Some(profile.spec.parent.name.clone())),
            _ => Ok(None),
        }
    }

    async fn find(
        &self,
        case: &Case<'_>,
        known: &dyn Known,
        user: &UserInfo,
        write: &Write<'_>,
        stage: Stage,
    ) -> Result<Facts, LookupError> {
        let mut facts = Facts::default();
        for _ in 0..MOST_ROUNDS {
            let wanted = case.wants(stage, &facts);
            if wanted.is_empty() {
                return Ok(facts);
            }
            let client = self.client.get().ok_or(LookupError::NoClient)?;
            let look = Look { client, known, user, write, name: case.name(), listing: &self.listing };
            let found = try_join_all(wanted.iter().map(|lookup| look.up(lookup))).await?;
            wanted.into_iter().zip(found).for_each(|(lookup, found)| facts.put(lookup, found));
        }
        Err(LookupError::TooMuch)
    }
}

fn unjudged(error: &LookupError) -> ApiError {
    let text = format!("the write could not be judged: {}; nothing was written, try again", chain(error));
    ApiError::unavailable(text)
}

/// What one write needs to know.
struct Look<'a> {
    client: &'a Client,
    known: &'a dyn Known,
    user: &'a UserInfo,
    write: &'a Write<'a>,
    /// Name of the object, be it made up.
    name: &'a str,
    listing: &'a Mutex<()>,
}

fn failed(what: impl Display) -> impl FnOnce(kube::Error) -> LookupError {
    move |source| LookupError::Call { what: what.to_string(), source }
}

impl Look<'_> {
    async fn up(&self, lookup: &Lookup) -> Result<Found, LookupError> {
        Ok(match lookup {
            Lookup::Profile(name) => self.profile(name).await?,
            Lookup::Private(name) => self.private(name).await?,
            Lookup::Family(name) => Found::Family(self.family(name).await?),
            Lookup::Users(name) => {
                Found::Users(self.users(&ObjectKey::new(self.write.namespace, name.as_str())).await?)
            }
            Lookup::Allowed(verb) => Found::Allowed(self.allowed(*verb, GROUP, RESOURCE).await?),
            Lookup::AllowedBySource(verb) => Found::Allowed(self.allowed(*verb, "", SOURCE_RESOURCE).await?),
        })
    }

    async fn profile(&self, name: &str) -> Result<Found, LookupError> {
        let mut at_hand = None;
        self.known.with_catalog(&mut |catalog| at_hand = catalog.profile(name).cloned());
        let at_hand = at_hand.map(|offer| (version(&offer.metadata), offer));
        let api = Api::<Stored<CloudProfile>>::all(self.client.clone());
        let found = newest(&api, name, at_hand, Offer::new, Found::Profile).await;
        found.map_err(failed(format!("CloudProfile {name:?}")))
    }

    async fn private(&self, name: &str) -> Result<Found, LookupError> {
        private(self.client, self.known, &ObjectKey::new(self.write.namespace, name)).await
    }

    /// Looks at who uses a profile now, if everything has been seen once.
    async fn up_to_date<T>(&self, profile: &ProfileKey, look: impl Fn(&Catalog) -> T) -> Option<T> {
        self.known.hear_of_users(self.client, profile).await;
        let mut seen = None;
        self.known.with_catalog(&mut |catalog| seen = Some(look(catalog)));
        seen
    }

    async fn users(&self, profile: &ObjectKey) -> Result<Users, LookupError> {
        if let Some(seen) =
            self.up_to_date(&ProfileKey::Private(profile.clone()), |catalog| users_of(catalog, profile)).await
        {
            return Ok(seen);
        }
        let mut catalog = Catalog::default();
        self.list_shoots(&Api::namespaced(self.client.clone(), &profile.namespace), &mut catalog).await?;
        Ok(users_of(&catalog, profile))
    }

    async fn family(&self, parent: &str) -> Result<Family, LookupError> {
        let profile = ProfileKey::Cloud(parent.to_owned());
        if let Some(seen) = self.up_to_date(&profile, |catalog| Family::of(catalog, parent)).await {
            return Ok(seen);
        }
        let _turn = self.listing.lock().await;
        // Meanwhile it may have been seen.
        if let Some(seen) = self.up_to_date(&profile, |catalog| Family::of(catalog, parent)).await {
            return Ok(seen);
        }
        let mut catalog = Catalog::default();
        let api = Api::<Stored<KeptProfile>>::all(self.client.clone());
        let profiles = pages(&api, |profile| match profile {
            Stored::Read(profile) if profile.spec.parent.name == parent => {
                catalog.set_private(&ObjectKey::of(&profile.metadata), Some(Arc::new(profile)));
            }
            Stored::Read(_) => {}
            Stored::Unread(profile) => {
                catalog.set_unread_private(&ObjectKey::of(&profile.metadata), Arc::new(UnreadProfile::read(*profile)));
            }
        });
        profiles.await.map_err(failed("which PrivateCloudProfiles there are"))?;
        self.list_shoots(&Api::all(self.client.clone()), &mut catalog).await?;
        Ok(Family::of(&catalog, parent))
    }

    async fn list_shoots(&self, api: &Api<Stored<Shoot>>, catalog: &mut Catalog) -> Result<(), LookupError> {
        let keep = |shoot: Stored<Shoot>| {
            let shoot = KeptShoot::from(shoot);
            catalog.set_shoot(&ObjectKey::of(&shoot.metadata), Some(Arc::new(shoot)));
        };
        pages(api, keep).await.map_err(failed("which Shoots there are"))
    }

    async fn allowed(&self, verb: Verb, group: &str, resource: &str) -> Result<bool, LookupError> {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let attributes = ResourceAttributes {
            group: some(group),
            name: some(self.name),
            namespace: some(self.write.namespace),
            resource: some(resource),
            verb: some(verb.as_str()),
            ..ResourceAttributes::default()
        };
        let user = self.user;
        let spec = SubjectAccessReviewSpec {
            extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
            groups: Some(user.groups.clone()),
            resource_attributes: Some(attributes),
            uid: some(&user.uid),
            user: some(&user.name),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let what = || format!("whether {:?} holds verb {} on {resource}", user.name, verb.as_str());
        let answer = api.create(&PostParams::default(), &review).await.map_err(failed(what()))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

async fn private(client: &Client, known: &dyn Known, key: &ObjectKey) -> Result<Found, LookupError> {
    let mut at_hand = None;
    known.with_catalog(&mut |catalog| at_hand = catalog.private(key).cloned());
    let at_hand = at_hand.map(|profile| (version(&profile.metadata), profile));
    let api = Api::<Stored<KeptProfile>>::namespaced(client.clone(), &key.namespace);
    let found = newest(&api, &key.name, at_hand, |profile| profile, Found::Private).await;
    found.map_err(failed(format!("PrivateCloudProfile {key}")))
}

/// Which state of which object it is.
type Version = (Option<String>, Option<String>);

fn version(metadata: &ObjectMeta) -> Version {
    (metadata.uid.clone(), metadata.resource_version.clone())
}

/// A profile as it is now: what is at hand, if it is that. Nobody has a name that cannot be one: as part of a path it would
/// mean something else.
async fn newest<K, T>(
    api: &Api<Stored<K>>,
    name: &str,
    at_hand: Option<(Version, Arc<T>)>,
    prepare: impl FnOnce(K) -> T,
    found: impl FnOnce(Option<Arc<T>>) -> Found,
) -> Result<Found, kube::Error>
where
    K: Parts + Resource<DynamicType = ()> + Clone + Debug,
{
    if !dns1123_subdomain(name).is_empty() {
        return Ok(found(None));
    }
    let is_asked_for = |metadata: &ObjectMeta| metadata.name.as_deref() == Some(name);
    let now = api.get_metadata_opt(name).await?.filter(|now| is_asked_for(&now.metadata));
    let Some(now) = now else { return Ok(found(None)) };
    if let Some((_, at_hand)) = at_hand.filter(|(known, _)| *known == version(&now.metadata)) {
        return Ok(found(Some(at_hand)));
    }
    Ok(match api.get_opt(name).await?.filter(|object| is_asked_for(object.meta())) {
        None => found(None),
        Some(Stored::Read(object)) => found(Some(Arc::new(prepare(object)))),
        Some(Stored::Unread(object)) => Found::Unread(object.why),
    })
}

/// Shows all objects one after another, of which no more than a page is held at a time.
async fn pages<K>(api: &Api<K>, mut show: impl FnMut(K)) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list(&page).await?;
        list.items.into_iter().for_each(&mut show);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A server that answers whatever it is asked with CloudProfile `central`, and how often it was asked.
    fn server() -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::<AtomicUsize>::default();
        let counted = asked.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let central = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile",
                "metadata": {"name": "central"}, "spec": {"type": "local"}});
            async move { Ok::<_, Infallible>(Response::new(Body::from(central.to_string().into_bytes()))) }
        });
        (Client::new(service, "default"), asked)
    }

    #[tokio::test]
    async fn what_is_called_otherwise_than_what_was_asked_for_is_nobody() {
        for (name, is_there, calls) in [
            ("central", true, 2),
            ("second", false, 1),
            ("central?", false, 0),
            ("central/status", false, 0),
            ("%63entral", false, 0),
            ("../cloudprofiles/central", false, 0),
            ("", false, 0),
        ] {
            let (client, asked) = server();
            let api = Api::<Stored<CloudProfile>>::all(client);
            let found = newest(&api, name, None, Offer::new, Found::Profile).await.expect("an answer");
            let is_found = matches!(found, Found::Profile(Some(_)));
            assert_eq!((is_found, asked.load(Ordering::SeqCst)), (is_there, calls), "{name}");
        }
    }
}
