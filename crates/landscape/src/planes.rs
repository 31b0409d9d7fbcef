//! The API server over a store, and the logical control planes that it serves. Whether the platform's own
//! API is one of its tenants or somebody else's server is left to others.

use std::fmt;
use std::sync::Arc;

use allotment_apiserver::ReadinessCheck;
use allotment_apiserver::builtin::kinds;
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::{ApiServer, InProcessAdmission, ServerConfig, bootstrap_template};
use allotment_controllers::Controllers;
use allotment_controllers::frame::Seams;
use allotment_controllers::providers::Directory;
use allotment_controllers::providers::existing::Existing;
use allotment_controllers::providers::kind::{Kind, Programs};
use allotment_controllers::providers::local::Local;
use allotment_controllers::runtimes::logical::LogicalRuntime;
use allotment_pki::KeySource;
use allotment_store::{Store, Template};
use kube::Client;

use crate::prefixes::{Homes, Prefixes};
use crate::tenants::LogicalTenants;

/// What logical control planes are served from.
#[derive(Debug)]
pub struct PlanesConfig {
    /// Where they are kept.
    pub store: Arc<dyn Store>,
    /// Time, names and UIDs.
    pub seams: Seams,
    /// Where the keys of new control planes come from.
    pub keys: Arc<dyn KeySource>,
    /// What clients check the server by, as PEM.
    pub root_ca_pem: Arc<str>,
    /// When it all was made: the age of what every cluster begins with.
    pub created: jiff::Timestamp,
    /// Where clients reach it: `https://HOST:PORT`.
    pub url: String,
    /// Names the store among others that the same platform may know; empty where there is only one.
    pub home: String,
    /// Runs programs of this machine.
    pub programs: Arc<dyn Programs>,
}

/// A server of logical control planes.
pub struct Planes {
    server: ApiServer,
    seams: Seams,
    keys: Arc<dyn KeySource>,
    url: String,
    home: String,
    programs: Arc<dyn Programs>,
    root_ca_pem: Arc<str>,
    template: Arc<Template>,
    prefixes: Arc<Prefixes>,
    homes: Arc<Homes>,
}

impl fmt::Debug for Planes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Planes").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Planes {
    /// Starts the server, with what else has a say in its admission and readiness. Call it within a tokio
    /// runtime.
    pub fn serve(
        config: PlanesConfig,
        admission: Option<Arc<dyn InProcessAdmission>>,
        readiness: Vec<Arc<dyn ReadinessCheck>>,
    ) -> Self {
        let PlanesConfig { store, seams, keys, root_ca_pem, created, url, home, programs } = config;
        let homes = Arc::new(Homes::default());
        let prefixes = Arc::new(Prefixes::new(homes.clone()));
        let mut chain: Vec<Arc<dyn InProcessAdmission>> = admission.into_iter().collect();
        chain.push(prefixes.clone());
        let server = ApiServer::start(ServerConfig {
            store,
            clock: seams.clock.clone(),
            entropy: seams.entropy.clone(),
            builtin: Registry::new(kinds()),
            admission: chain,
            readiness,
        });
        let template = Arc::new(bootstrap_template(created));
        Planes { server, seams, keys, url, home, programs, root_ca_pem, template, prefixes, homes }
    }

    /// The providers of this process; their records lie behind `platform`.
    pub fn providers(&self, platform: Client) -> Directory {
        let tenants = LogicalTenants::new(
            self.server.clone(),
            self.template.clone(),
            self.url.clone(),
            self.home.clone(),
            Arc::clone(&self.root_ca_pem),
            Arc::clone(&self.homes),
        );
        let existing = Existing::new(platform.clone(), self.seams.clone());
        let kind = Kind::new(platform.clone(), self.seams.clone(), self.programs.clone());
        let runtime = LogicalRuntime::new(platform, Arc::new(tenants), self.keys.clone(), self.seams.clone());
        Directory::new(vec![Arc::new(existing), Arc::new(kind), Arc::new(Local::new(Arc::new(runtime)))])
    }

    /// From now on whose prefix a name must begin with is decided on what these controllers know.
    pub fn set_controllers(&self, controllers: &Arc<Controllers>) {
        self.prefixes.set_controllers(controllers.clone());
    }

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    pub(crate) fn template(&self) -> &Arc<Template> {
        &self.template
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn root_ca_pem(&self) -> &Arc<str> {
        &self.root_ca_pem
    }

    pub(crate) fn seams(&self) -> &Seams {
        &self.seams
    }
}
