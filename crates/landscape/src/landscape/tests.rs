//! What is served while all controllers begin anew.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use allotment_apiserver::ReadinessCheck as _;
use allotment_controllers::providers::kind::NoPrograms;
use allotment_machinery::seams::{Clock, Entropy};
use allotment_pki::RandomKeys;
use allotment_store::{HistoryLimits, Memory};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::time::{Instant, sleep};

use super::*;

const BEGIN: i64 = 1_767_225_600;

#[derive(Debug, Default)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(BEGIN).expect("a time")
    }
}

impl Entropy for Still {
    fn fill(&self, buffer: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        buffer.iter_mut().zip(next.iter().cycle()).for_each(|(byte, next)| *byte = *next);
    }
}

async fn landscape() -> Landscape {
    let seams = Arc::<Still>::default();
    let key = || RandomKeys.generate().expect("a key");
    let config = Config {
        store: Arc::new(Memory::new(0, HistoryLimits::default())),
        seams: Seams { clock: seams.clone(), entropy: seams.clone() },
        keys: Arc::new(RandomKeys),
        authority: CertificateAuthority::new("test", key(), BEGIN, 10 * 365 * 24 * 3600).expect("an authority"),
        service_account_key: key(),
        created: seams.now(),
        url: "https://127.0.0.1:1".to_owned(),
        programs: Arc::new(NoPrograms),
    };
    let landscape = Landscape::serve(config).await.expect("a landscape");
    landscape.ensure().await.expect("it begins");
    landscape
}

#[tokio::test(start_paused = true)]
async fn when_a_controllers_task_panics_all_begin_anew_and_the_api_is_served_meanwhile() {
    let landscape = landscape().await;
    let (readiness, client, server) =
        (landscape.readiness.clone(), landscape.client().clone(), landscape.server().clone());
    let (tasks, parts) = (Tasks::default(), Arc::<Mutex<Vec<Tasks>>>::default());
    let begun = parts.clone();
    let settings = Settings {
        access_token_lifetime: Duration::from_secs(3600),
        provisioning_deadline: Duration::from_secs(3600),
        without_catalog: false,
    };
    landscape.keep_each(&tasks, settings, move |part| begun.lock().expect("whole").push(part.clone())).await;
    assert_eq!(readiness.check().await, Ok(()));

    let broke = Instant::now();
    parts.lock().expect("whole")[0].spawn(async { panic!("planted") });
    while readiness.check().await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(readiness.check().await, Err("none run at the moment".to_owned()));
    let name = ObjectMeta { name: Some("meanwhile".to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata: name, ..Namespace::default() };
    Api::all(client).create(&PostParams::default(), &namespace).await.expect("the API is served");
    assert!(readiness.check().await.is_err() && parts.lock().expect("whole").len() == 1, "they pause");

    while readiness.check().await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(broke.elapsed() >= Duration::from_secs(1), "{:?}", broke.elapsed());
    assert_eq!((parts.lock().expect("whole").len(), tasks.alarm().why()), (2, None));
    tasks.stop().await;
    server.stop().await;
}
