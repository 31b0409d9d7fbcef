//! The API on a socket whose clients mean it ill: each finds a bound, and somebody else is served meanwhile.
//!
//! A program of its own, whose tests run one after another: some judge by the memory of the process.

mod floods;
mod held;
mod http2;
mod memory;
#[path = "../world/seams.rs"]
mod seams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use allotment_apiserver::auth::{AccessConfig, GROUP_MASTERS, UserInfo};
use allotment_apiserver::builtin;
use allotment_apiserver::listener::{self, Limits};
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::{
    AdmissionRequest, ApiServer, InProcessAdmission, ServerConfig, TenantConfig, bootstrap_template,
};
use allotment_apiserver::service::ApiService;
use allotment_apiserver::status::ApiError;
use allotment_machinery::seams::Clock as _;
use allotment_store::{HistoryLimits, Memory, Tenant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use seams::{Counter, Still};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// A limit that a test waits for.
const SOON: Duration = Duration::from_millis(200);
/// The administrator's token.
const TOKEN: &str = "open-sesame";
/// The token of somebody who is known and may do nothing.
const POOR_TOKEN: &str = "open-barley";

/// Whoever has it is the only test that runs.
static TURN: Mutex<()> = Mutex::const_new(());

/// A server on a loopback port, the only one while it is there.
struct House {
    address: SocketAddr,
    gate: Arc<Gate>,
    stop: CancellationToken,
    /// Tasks that there were before any client came.
    tasks: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Holds creates of ConfigMaps in namespace `kube-public` until it is opened.
#[derive(Debug, Default)]
struct Gate {
    waiting: AtomicUsize,
    open: tokio::sync::Notify,
}

#[async_trait::async_trait]
impl InProcessAdmission for Gate {
    fn covers(&self, _: &str, resource: &str, namespace: &str) -> bool {
        resource == "configmaps" && namespace == "kube-public"
    }

    async fn validate(&self, request: &AdmissionRequest<'_>) -> Result<Vec<String>, ApiError> {
        if request.name != "kube-root-ca.crt" {
            let open = self.open.notified();
            self.waiting.fetch_add(1, Ordering::SeqCst);
            open.await;
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(Vec::new())
    }
}

impl House {
    async fn new(limits: Limits) -> House {
        let mut house = House::open(limits, None).await;
        // What a new key space gets is there, so that nothing but clients makes tasks from here on.
        for namespace in ["default", "kube-public", "kube-system", "kube-node-lease"] {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
            house.until(async || house.get(&path).await.starts_with("HTTP/1.1 200"), "the root CA").await;
        }
        house.settle().await;
        house
    }

    async fn tls(limits: Limits, config: Arc<rustls::ServerConfig>) -> House {
        let mut house = House::open(limits, Some(config)).await;
        house.settle().await;
        house
    }

    /// Notes how many tasks there are while nobody asks for anything.
    async fn settle(&mut self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.tasks = self.alive();
    }

    async fn open(limits: Limits, tls: Option<Arc<rustls::ServerConfig>>) -> House {
        let turn = TURN.lock().await;
        let gate = Arc::<Gate>::default();
        let server = ApiServer::start(ServerConfig {
            store: Arc::new(Memory::new(0, HistoryLimits::default())),
            clock: Arc::new(Still),
            entropy: Arc::<Counter>::default(),
            builtin: Registry::new(builtin::kinds()),
            admission: vec![Arc::clone(&gate) as Arc<dyn InProcessAdmission>],
            readiness: Vec::new(),
        });
        let admin = UserInfo { name: "admin".into(), groups: vec![GROUP_MASTERS.into()], ..UserInfo::default() };
        let poor = UserInfo { name: "poor".into(), ..UserInfo::default() };
        let static_tokens = vec![(TOKEN.to_owned(), admin), (POOR_TOKEN.to_owned(), poor)];
        let config = TenantConfig {
            tenant: Tenant::platform(),
            version: "1.36.0".to_owned(),
            server_url: "https://127.0.0.1:1".to_owned(),
            root_ca_pem: "".into(),
            access: AccessConfig { static_tokens, ..AccessConfig::default() },
            template: Arc::new(bootstrap_template(Still.now())),
        };
        server.ensure_tenant(config).await.expect("a tenant");
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("an address");
        let stop = CancellationToken::new();
        let serving = listener::serve(socket, tls, ApiService::new(server.clone()), limits, stop.clone());
        server.tasks().spawn(async move { serving.await.expect("serves") });
        House { address, gate, stop, tasks: 0, _turn: turn }
    }

    /// Tasks that there are now.
    fn alive(&self) -> usize {
        tokio::runtime::Handle::current().metrics().num_alive_tasks()
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connects")
    }

    /// What a client that means well is answered, on a connection of its own.
    async fn get(&self, path: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request("GET", path, "connection: close\r\n").as_bytes()).await.expect("writes");
        rest(&mut stream).await
    }

    /// Fails unless a client that means well is served.
    async fn serves(&self) {
        let answer = self.get("/api/v1/namespaces/default").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Waits until everything that clients made is gone.
    async fn at_rest(&self) {
        self.until(async || self.alive() <= self.tasks, "all tasks of clients to end").await;
    }

    async fn until(&self, holds: impl AsyncFn() -> bool, what: &str) {
        let waiting = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(in_time.is_ok(), "waited in vain for {what}: {} tasks, {} before", self.alive(), self.tasks);
    }
}

/// A request's head, of the administrator.
fn request(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n{more}\r\n")
}

/// All that comes until the connection ends, however it ends.
async fn rest<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 16 * 1024];
    let reading = async {
        while let Ok(count @ 1..) = stream.read(&mut part).await {
            bytes.extend_from_slice(&part[..count]);
        }
    };
    assert!(tokio::time::timeout(PATIENCE, reading).await.is_ok(), "the connection stays open");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until `text` has come.
async fn read_until<S: AsyncRead + Unpin>(stream: &mut S, text: &str) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&bytes).contains(text) {
            bytes.push(stream.read_u8().await.expect("more comes"));
        }
    };
    if tokio::time::timeout(PATIENCE, reading).await.is_err() {
        panic!("no {text:?} came, but {}", String::from_utf8_lossy(&bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes until the other side takes no more; how many bytes it took.
async fn pour<S: AsyncWrite + Unpin>(stream: &mut S, part: &[u8], most: usize) -> usize {
    let mut poured = 0;
    let pouring = async {
        while poured < most && stream.write_all(part).await.is_ok() {
            poured += part.len();
        }
    };
    // Whoever does not read on has taken what fits into the buffers between.
    let _ = tokio::time::timeout(SOON * 5, pouring).await;
    poured
}
