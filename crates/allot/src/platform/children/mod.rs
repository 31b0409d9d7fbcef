//! Runs the executables of providers as children of this process: which may run (`admit`), with what credentials
//! (`credentials`), one at a time (`lock`), for how long (`child`), and what becomes of their output (`output`).

mod admit;
mod child;
mod credentials;
mod lock;
mod output;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allotment_controllers::frame::Tasks;
use allotment_controllers::providers::{Removal, RunOrder, Runner, RunnerError, Told};
use allotment_core::providers::{PackageRef, Refusal, Run};
use async_trait::async_trait;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::exit::{Code, Failure};
pub(crate) use lock::try_lock;

/// What children are run with.
pub(crate) struct ChildrenConfig {
    /// The folder that executables may lie in; unset: none may run.
    pub(crate) provider_dir: Option<PathBuf>,
    /// Where each child has a folder of its own.
    pub(crate) folder: PathBuf,
    /// A client that may ask for tokens of the children's ServiceAccounts.
    pub(crate) client: Client,
    /// Where they reach the platform.
    pub(crate) url: String,
    /// What they check it by, as PEM.
    pub(crate) root_ca_pem: Arc<str>,
    /// The name of the landscape.
    pub(crate) environment: String,
    /// What they live in: they end with it.
    pub(crate) tasks: Tasks,
}

/// The children of this process.
pub(crate) struct Children {
    config: Arc<ChildrenConfig>,
    children: Mutex<BTreeMap<String, Child>>,
    told: Arc<Mutex<Option<Told>>>,
}

/// One child, from the first start to the end of the last.
struct Child {
    order: RunOrder,
    stop: CancellationToken,
    /// How it does.
    run: Arc<Mutex<Run>>,
    /// Nothing of it runs any more, nor will.
    ended: Arc<AtomicBool>,
}

impl fmt::Debug for Children {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Children").field("provider_dir", &self.config.provider_dir).finish_non_exhaustive()
    }
}

/// The folder of `--provider-dir`, after links are resolved.
pub(crate) fn provider_dir(path: &Path) -> Result<PathBuf, Failure> {
    let wrong = |why: String| Failure::new(Code::Usage, format!("--provider-dir {}: {why}", path.display()));
    let resolved = path.canonicalize().map_err(|error| wrong(error.to_string()))?;
    if resolved.is_dir() { Ok(resolved) } else { Err(wrong("it is no folder".to_owned())) }
}

impl Children {
    pub(crate) fn new(config: ChildrenConfig) -> Self {
        Children { config: Arc::new(config), children: Mutex::default(), told: Arc::default() }
    }

    fn children(&self) -> MutexGuard<'_, BTreeMap<String, Child>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, order: &RunOrder) -> Child {
        let stop = self.config.tasks.stopping().child_token();
        let (run, ended) = (Arc::new(Mutex::new(Run::Running)), Arc::new(AtomicBool::new(false)));
        let life = child::Life {
            config: self.config.clone(),
            order: order.clone(),
            stop: stop.clone(),
            run: run.clone(),
            told: self.told.clone(),
        };
        let (over, told, name) = (ended.clone(), self.told.clone(), order.provider.clone());
        self.config.tasks.spawn_draining(async move {
            life.live().await;
            over.store(true, Ordering::Release);
            tell(&told, &name);
        });
        Child { order: order.clone(), stop, run, ended }
    }
}

fn tell(told: &Mutex<Option<Told>>, provider: &str) {
    let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(told) = told {
        told(provider);
    }
}

#[async_trait]
impl Runner for Children {
    fn admit(&self, package: PackageRef<'_>) -> Result<(), Refusal> {
        match (package, &self.config.provider_dir) {
            (PackageRef::Image(image), _) => Err(Refusal::needs_kubernetes(image)),
            (PackageRef::Executable(path) | PackageRef::BuiltIn(path), None) => Err(Refusal::no_folder(path)),
            (PackageRef::Executable(path) | PackageRef::BuiltIn(path), Some(dir)) => {
                admit::resolve(dir, path).map(drop).map_err(Refusal::not_as_it_lies)
            }
        }
    }

    fn tell(&self, told: Told) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    async fn ensure(&self, order: &RunOrder) -> Result<Run, RunnerError> {
        let mut children = self.children();
        match children.get(&order.provider) {
            Some(child) if child.ended.load(Ordering::Acquire) => {}
            Some(child) => {
                if child.order != *order {
                    // The next one begins when this one has ended, which wakes whoever asks here.
                    child.stop.cancel();
                }
                return Ok(child.run.lock().unwrap_or_else(PoisonError::into_inner).clone());
            }
            None => {}
        }
        children.insert(order.provider.clone(), self.start(order));
        Ok(Run::Running)
    }

    async fn end(&self, provider: &str) -> Result<Removal, RunnerError> {
        let mut children = self.children();
        let Some(child) = children.get(provider) else { return Ok(Removal::Gone) };
        child.stop.cancel();
        if !child.ended.load(Ordering::Acquire) {
            return Ok(Removal::Going);
        }
        children.remove(provider);
        Ok(Removal::Gone)
    }

    async fn forget(&self, provider: &str) -> Result<(), RunnerError> {
        let failed =
            |error| RunnerError { what: "clean up after", provider: provider.to_owned(), source: Box::new(error) };
        credentials::forget(&self.config.folder, provider).map_err(failed)
    }
}
