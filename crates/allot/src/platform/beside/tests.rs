//! Which addresses are told, and what becomes of replicas whose controllers break. All else is tested beside kube-apiserver, and
//! terms by themselves in `landscape`.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use allotment_api::reasons::ConditionType;
use allotment_api::requests::{ClusterProvider, ClusterRequest};
use allotment_testkit::kubernetes::{Kubernetes, Options};
use allotment_testkit::ports::unused;
use http_body_util::BodyExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn nobody_is_told_an_address_that_means_all() {
    let check = |address: &str, expect: Result<(), Code>| {
        let address = address.parse().expect("an address");
        let seen = check_reachable("--listen", address, "--url").map_err(|failure| failure.code);
        assert_eq!(seen, expect, "{address}");
    };
    check("127.0.0.1:9443", Ok(()));
    check("[::1]:0", Ok(()));
    check("0.0.0.0:9443", Err(Code::Usage));
    check("[::]:0", Err(Code::Usage));
}

/// A replica of this process, of which a test can break the controllers.
struct Planted {
    breaks: Arc<AtomicBool>,
    roles: UnboundedReceiver<Role>,
    stop: CancellationToken,
    running: JoinHandle<Result<(), Failure>>,
}

impl Planted {
    async fn start(kubernetes: &Kubernetes, data_dir: &Path, listen: SocketAddr) -> Planted {
        let (breaks, stop) = (Arc::<AtomicBool>::default(), CancellationToken::new());
        let options = ReplicaOptions {
            client: breaking(admin(kubernetes).await, breaks.clone()),
            data_dir: data_dir.to_owned(),
            listen: Some(listen),
            url: None,
            webhook_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            webhook_address: None,
            lease_duration: Duration::from_secs(3),
            environment: "test".to_owned(),
            leaf_lifetime: Duration::from_secs(3600),
            settings: Settings {
                access_token_lifetime: Duration::from_secs(3600),
                provisioning_deadline: Duration::from_secs(3600),
                without_catalog: false,
            },
        };
        let replica = Replica::start(options, stop.clone()).await.map_err(|failure| failure.error).expect("it starts");
        let (tell, roles) = unbounded_channel();
        let running = tokio::spawn(replica.run(move |role| _ = tell.send(role)));
        Planted { breaks, roles, stop, running }
    }

    async fn becomes(&mut self, role: Role) {
        let becomes = async { while self.roles.recv().await.expect("it runs") != role {} };
        timeout(LIMIT, becomes).await.unwrap_or_else(|_| panic!("it is not {role:?}"));
    }

    /// Has the task that next hears of a ClusterProvider panic.
    async fn breaks(&self, providers: &Api<ClusterProvider>) {
        self.breaks.store(true, Ordering::SeqCst);
        let note = self.breaks.clone();
        let heard = async {
            for count in 0_u32.. {
                let noted = json!({"metadata": {"annotations": {"noted": count.to_string()}}});
                providers.patch("local", &PatchParams::default(), &Patch::Merge(noted)).await.expect("it is taken");
                tokio::time::sleep(Duration::from_millis(50)).await;
                if !note.load(Ordering::SeqCst) {
                    return;
                }
            }
        };
        timeout(LIMIT, heard).await.expect("it is heard");
    }
}

async fn admin(kubernetes: &Kubernetes) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubernetes.kubeconfig()).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it names a cluster")).expect("a client")
}

/// The same client; once told to, the next that it hears of ClusterProviders makes whoever hears it panic.
fn breaking(client: Client, breaks: Arc<AtomicBool>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, breaks) = (client.clone(), breaks.clone());
        async move {
            let query = request.uri().query().unwrap_or_default();
            let is_watch = request.uri().path().ends_with("/clusterproviders") && query.contains("watch=");
            let answer = client.send(request).await?;
            Ok::<_, kube::Error>(answer.map(|body| {
                body.map_frame(move |frame| {
                    assert!(!is_watch || !breaks.swap(false, Ordering::SeqCst), "planted");
                    frame
                })
            }))
        }
    });
    Client::new(service, namespace)
}

/// Clusters are served, and requests for them granted.
async fn is_served(client: &Client, listen: SocketAddr, name: &str) {
    TcpStream::connect(listen).await.expect("clusters are served");
    let requests = Api::<ClusterRequest>::namespaced(client.clone(), "default");
    let request = json!({"metadata": {"name": name}, "spec": {"purposes": ["mcp"]}});
    let request: ClusterRequest = serde_json::from_value(request).expect("a request");
    requests.create(&PostParams::default(), &request).await.expect("it is reviewed");
    let granted = async {
        let is_granted = |request: ClusterRequest| {
            request.status.is_some_and(|status| ConditionType::Ready.is_true(&status.conditions))
        };
        while !is_granted(requests.get(name).await.expect("it is there")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, granted).await.expect("it is granted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kube-apiserver"]
async fn a_replica_that_broke_hands_over_and_one_alone_begins_anew() {
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let programs =
        std::env::var_os("ALLOTMENT_KUBERNETES").expect("ALLOTMENT_KUBERNETES names kube-apiserver's folder");
    let dir = std::env::temp_dir().join(format!("allot-replicas-{}", std::process::id()));
    let options = Options {
        programs: programs.into(),
        dir: dir.join("kubernetes"),
        controllers: true,
        quotas: false,
        durable: false,
        flags: Vec::new(),
    };
    let kubernetes = Kubernetes::start(&options).await.expect("Kubernetes starts");
    let [port] = unused().expect("a port");
    let (data, listen) = (dir.join("data"), SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let client = admin(&kubernetes).await;
    let providers = Api::<ClusterProvider>::all(client.clone());

    let mut first = Planted::start(&kubernetes, &data, listen).await;
    first.becomes(Role::Leads).await;
    is_served(&client, listen, "r0").await;
    first.breaks(&providers).await;
    TcpStream::connect(listen).await.expect("nobody else acts: clusters are served meanwhile");
    first.becomes(Role::Leads).await;
    is_served(&client, listen, "r1").await;

    let mut second = Planted::start(&kubernetes, &data, listen).await;
    second.becomes(Role::StandsBy).await;
    first.breaks(&providers).await;
    second.becomes(Role::Leads).await;
    first.becomes(Role::StandsBy).await;
    is_served(&client, listen, "r2").await;
    // From now on both have a pause; whose is over first acts.
    let (mut leads, mut stands_by) = (&mut second, &mut first);
    for name in ["r3", "r4", "r5"] {
        leads.breaks(&providers).await;
        let is_others_turn = tokio::select! {
            biased;
            () = stands_by.becomes(Role::Leads) => true,
            () = leads.becomes(Role::Leads) => false,
        };
        if is_others_turn {
            std::mem::swap(&mut leads, &mut stands_by);
        }
        is_served(&client, listen, name).await;
    }
    for replica in [first, second] {
        replica.stop.cancel();
        let ended = timeout(LIMIT, replica.running).await.expect("it ends").expect("no panic");
        assert!(ended.map_err(|failure| failure.error).is_ok());
    }
    drop(kubernetes);
    std::fs::remove_dir_all(dir).expect("nobody is in it");
}
