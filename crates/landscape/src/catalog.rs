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
//! Who depends on a profile is what the controllers have seen; before they have seen everything, it is listed anew.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use allotment_admission::catalog::{Case, Facts, Family, Found, Lookup, Stage, Write, users_of};
use allotment_api::catalog::{CloudProfile, GROUP, KeptProfile, Shoot};
use allotment_apiserver::auth::UserInfo;
use allotment_apiserver::status::ApiError;
use allotment_controllers::frame::chain;
use allotment_core::catalog::{Catalog, KeptShoot, Offer, Verb};
use allotment_core::write::ObjectKey;
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use tokio::time::timeout;

/// How long all lookups of one review may take: half of what an API server gives a webhook.
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);
/// How often a write says that it wants to know more. Each time it knows more before; none needs more than four.
const MOST_ROUNDS: usize = 8;
/// The resource that verbs are checked on, and what the proposal of private profiles called it.
const RESOURCE: &str = "privatecloudprofiles";
const SOURCE_RESOURCE: &str = "privatecloudprofile";

/// What is known without asking.
pub(crate) trait Known: Sync {
    /// Looks at the index of profiles and Shoots, if everything has been seen once.
    fn with_catalog(&self, look: &mut dyn FnMut(&Catalog));
}

/// Looks things up.
#[derive(Default)]
pub(crate) struct Lookups {
    client: OnceLock<Client>,
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
        found.map_err(|error| {
            let text = format!("the write could not be judged: {}; nothing was written, try again", chain(&error));
            ApiError::unavailable(text)
        })
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
            let look = Look { client, known, user, write };
            let found = try_join_all(wanted.iter().map(|lookup| look.up(lookup))).await?;
            wanted.into_iter().zip(found).for_each(|(lookup, found)| facts.put(lookup, found));
        }
        Err(LookupError::TooMuch)
    }
}

/// What one write needs to know.
struct Look<'a> {
    client: &'a Client,
    known: &'a dyn Known,
    user: &'a UserInfo,
    write: &'a Write<'a>,
}

fn failed(what: impl Display) -> impl FnOnce(kube::Error) -> LookupError {
    move |source| LookupError::Call { what: what.to_string(), source }
}

impl Look<'_> {
    async fn up(&self, lookup: &Lookup) -> Result<Found, LookupError> {
        Ok(match lookup {
            Lookup::Profile(name) => Found::Profile(self.profile(name).await?),
            Lookup::Private(name) => Found::Private(self.private(name).await?),
            Lookup::Family(name) => Found::Family(self.index(|catalog| Family::of(catalog, name)).await?),
            Lookup::Users(name) => {
                let key = ObjectKey::new(self.write.namespace, name.as_str());
                Found::Users(self.index(|catalog| users_of(catalog, &key)).await?)
            }
            Lookup::Allowed(verb) => Found::Allowed(self.allowed(*verb, GROUP, RESOURCE).await?),
            Lookup::AllowedBySource(verb) => Found::Allowed(self.allowed(*verb, "", SOURCE_RESOURCE).await?),
        })
    }

    async fn profile(&self, name: &str) -> Result<Option<Arc<Offer>>, LookupError> {
        let api = Api::<CloudProfile>::all(self.client.clone());
        let what = || format!("CloudProfile {name:?}");
        let Some(now) = api.get_metadata_opt(name).await.map_err(failed(what()))? else { return Ok(None) };
        let mut at_hand = None;
        self.known.with_catalog(&mut |catalog| at_hand = catalog.profile(name).cloned());
        let is_newest = |offer: &Arc<Offer>| {
            let known = (&offer.metadata.uid, &offer.metadata.resource_version);
            known == (&now.metadata.uid, &now.metadata.resource_version)
        };
        if let Some(offer) = at_hand.filter(is_newest) {
            return Ok(Some(offer));
        }
        let profile = api.get_opt(name).await.map_err(failed(what()))?;
        Ok(profile.map(|profile| Arc::new(Offer::new(profile))))
    }

    async fn private(&self, name: &str) -> Result<Option<Arc<KeptProfile>>, LookupError> {
        let namespace = self.write.namespace;
        let api = Api::<KeptProfile>::namespaced(self.client.clone(), namespace);
        let what = || format!("PrivateCloudProfile {namespace}/{name}");
        let Some(now) = api.get_metadata_opt(name).await.map_err(failed(what()))? else { return Ok(None) };
        let key = ObjectKey::new(namespace, name);
        let mut at_hand = None;
        self.known.with_catalog(&mut |catalog| at_hand = catalog.private(&key).cloned());
        let is_newest = |profile: &Arc<KeptProfile>| {
            let known = (&profile.metadata.uid, &profile.metadata.resource_version);
            known == (&now.metadata.uid, &now.metadata.resource_version)
        };
        if let Some(profile) = at_hand.filter(is_newest) {
            return Ok(Some(profile));
        }
        let profile = api.get_opt(name).await.map_err(failed(what()))?;
        Ok(profile.map(Arc::new))
    }

    /// Looks at who uses what.
    async fn index<T>(&self, look: impl Fn(&Catalog) -> T) -> Result<T, LookupError> {
        let mut seen = None;
        self.known.with_catalog(&mut |catalog| seen = Some(look(catalog)));
        match seen {
            Some(seen) => Ok(seen),
            None => Ok(look(&listed(self.client).await?)),
        }
    }

    async fn allowed(&self, verb: Verb, group: &str, resource: &str) -> Result<bool, LookupError> {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let attributes = ResourceAttributes {
            group: some(group),
            name: some(self.write.name),
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

/// All profiles and Shoots, by what uses what.
async fn listed(client: &Client) -> Result<Catalog, LookupError> {
    let profiles = Api::<KeptProfile>::all(client.clone());
    let shoots = Api::<Shoot>::all(client.clone());
    let all = ListParams::default();
    let (profiles, shoots) = futures::future::try_join(
        async { profiles.list(&all).await.map_err(failed("which PrivateCloudProfiles there are")) },
        async { shoots.list(&all).await.map_err(failed("which Shoots there are")) },
    )
    .await?;
    let mut catalog = Catalog::default();
    for profile in profiles.items {
        catalog.set_private(&ObjectKey::of(&profile.metadata), Some(Arc::new(profile)));
    }
    for shoot in shoots.items {
        catalog.set_shoot(&ObjectKey::of(&shoot.metadata), Some(Arc::new(KeptShoot::read(&shoot))));
    }
    Ok(catalog)
}
