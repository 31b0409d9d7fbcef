//! A running platform in a folder of its own, and what tests wait with.
//!
//! The cases run on two backends, which the environment chooses: `allot up`, and with `ALLOTMENT_BESIDE` set
//! `allot controllers` beside Kubernetes' own API server, whose programs lie in the folder `ALLOTMENT_KUBERNETES`
//! (`cargo xtask assets` builds them). There it has the rights of `deploy/controllers/rbac.yaml` and no others.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use allotment_machinery::yaml;
use allotment_testkit::kubernetes::{Kubernetes, Options};
use allotment_testkit::ports;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

/// How long anything may take before a test gives up.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How long the Lease of a replica holds: short, since a test that kills one waits for its end.
pub(crate) const LEASE: &str = "3s";
/// What a replica says once it acts, and while it does not.
pub(crate) const ACTS: &str = "acting; Ctrl-C stops it";
pub(crate) const STANDS_BY: &str = "standing by";
/// The rights that the documents say are enough.
const RBAC: &str = include_str!("../../../../deploy/controllers/rbac.yaml");
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Whether the cases run beside Kubernetes' own API server.
pub(crate) fn is_beside() -> bool {
    std::env::var_os("ALLOTMENT_BESIDE").is_some()
}

/// A folder that goes with the test, Kubernetes' own API server where that is asked for, and the port that its
/// platform comes back to.
pub(crate) struct Folder(pub(crate) PathBuf, OnceCell<Kubernetes>, u16);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!(
            "allot-test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        let [port] = ports::unused().expect("a port");
        Folder(path, OnceCell::new(), port)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    /// The kubeconfig of the identity that `allot controllers` has.
    pub(crate) fn own_kubeconfig(&self) -> PathBuf {
        self.0.join("controllers.kubeconfig")
    }

    /// Starts Kubernetes' own API server, once, with an administrator's kubeconfig and our own.
    pub(crate) async fn kubernetes(&self) -> &Kubernetes {
        let start = || async {
            let programs = std::env::var_os("ALLOTMENT_KUBERNETES").map(PathBuf::from);
            let options = Options {
                programs: programs.expect("ALLOTMENT_KUBERNETES names the folder with kube-apiserver and etcd"),
                dir: self.0.join("kubernetes"),
                controllers: true,
                quotas: false,
                durable: false,
                flags: Vec::new(),
            };
            let kubernetes = Kubernetes::start(&options).await.expect("Kubernetes starts");
            std::fs::copy(kubernetes.kubeconfig(), self.kubeconfig()).expect("a kubeconfig");
            self.allow().await;
            kubernetes
        };
        self.1.get_or_init(start).await
    }

    /// Gives `allot controllers` an identity and the rights that the documents name.
    async fn allow(&self) {
        let text = std::fs::read_to_string(self.kubeconfig()).expect("the kubeconfig is there");
        let admin = client_of(&text).await;
        for document in yaml::parse_stream(RBAC).expect("YAML") {
            let object: DynamicObject = serde_json::from_slice(&document.value.to_vec()).expect("an object");
            let types = object.types.clone().expect("a kind");
            let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
            let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
            let api: Api<DynamicObject> = match object.namespace() {
                Some(namespace) => Api::namespaced_with(admin.clone(), &namespace, &kind),
                None => Api::all_with(admin.clone(), &kind),
            };
            let params = PatchParams::apply("test");
            api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await.expect("it is accepted");
        }
        let accounts = Api::<ServiceAccount>::namespaced(admin, "allot-system");
        let spec = Some(TokenRequestSpec { expiration_seconds: Some(7200), ..TokenRequestSpec::default() });
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = accounts.create_token_request("allot-controllers", &PostParams::default(), &request).await;
        let token = answer.expect("a token").status.and_then(|status| status.token).expect("a token");
        let mut own = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        for user in &mut own.auth_infos {
            user.auth_info = Some(AuthInfo { token: Some(token.clone().into()), ..Default::default() });
        }
        std::fs::write(self.own_kubeconfig(), serde_json::to_string(&own).expect("JSON")).expect("a kubeconfig");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Before its data goes.
        drop(self.1.take());
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The command under test, cut off from the user's own files.
pub(crate) fn allot(folder: &Folder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allot"));
    command.env("HOME", &folder.0).env_remove("KUBECONFIG").env_remove("XDG_DATA_HOME");
    // Programs that a test puts there are found first.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.0.join("bin").display()));
    // Whoever took this proxy for loopback would get no answer.
    command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("https_proxy", "http://127.0.0.1:9");
    // The example provider's clusters are processes of the same command.
    command.env("ALLOT", env!("CARGO_BIN_EXE_allot"));
    command
}

/// Runs a client command to its end.
pub(crate) fn run(folder: &Folder, arguments: &[&str]) -> Output {
    let kubeconfig = folder.kubeconfig();
    allot(folder).args(arguments).env("KUBECONFIG", kubeconfig).output().expect("the command runs")
}

/// A running platform; killed, not stopped, when it is dropped.
pub(crate) struct Up {
    child: std::process::Child,
    pid_file: PathBuf,
    log: PathBuf,
    /// How long the log was before it.
    before: usize,
}

impl Up {
    pub(crate) async fn start(folder: &Folder) -> Up {
        Up::start_with(folder, &[]).await
    }

    pub(crate) async fn start_with(folder: &Folder, flags: &[&str]) -> Up {
        if is_beside() {
            let up = Up::replica(folder, "log", flags).await;
            // One that was killed before holds its Lease for a while.
            up.until_says(ACTS).await;
            return up;
        }
        let mut command = allot(folder);
        command.arg("up").arg("--kubeconfig").arg(folder.kubeconfig()).args(flags);
        Up::launch(folder, command, "log").await
    }

    /// A replica of `allot controllers`, which acts or stands by; replicas of one folder share their data.
    pub(crate) async fn replica(folder: &Folder, log: &str, flags: &[&str]) -> Up {
        folder.kubernetes().await;
        let mut command = allot(folder);
        command.arg("controllers").arg("--kubeconfig").arg(folder.own_kubeconfig()).args(flags);
        if !flags.contains(&"--lease-duration") {
            command.args(["--lease-duration", LEASE]);
        }
        Up::launch(folder, command, log).await
    }

    async fn launch(folder: &Folder, mut command: Command, log: &str) -> Up {
        let pid_file = folder.0.join(format!("{log}.pid"));
        let _ = std::fs::remove_file(&pid_file);
        let log = folder.0.join(log);
        let before = std::fs::read(&log).map_or(0, |text| text.len());
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log");
        let child = command
            .args(["--listen", &format!("127.0.0.1:{}", folder.2)])
            .arg("--data-dir")
            .arg(folder.data())
            .arg("--pid-file")
            .arg(&pid_file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("allot starts");
        let mut up = Up { child, pid_file, log, before };
        let begin = tokio::time::Instant::now();
        while !up.pid_file.exists() {
            if let Some(status) = up.child.try_wait().expect("a child can be asked") {
                panic!("allot ended with {status}: {}", up.log());
            }
            assert!(begin.elapsed() < LIMIT, "allot is not ready: {}", up.log());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        up
    }

    /// What it has said.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text[self.before.min(text.len())..]).into_owned()
    }

    /// Waits until it has said that.
    pub(crate) async fn until_says(&self, text: &str) {
        let begin = tokio::time::Instant::now();
        while !self.log().contains(text) {
            assert!(begin.elapsed() < LIMIT, "it does not say {text:?}: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends a signal, by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends by itself; gives its exit code and what it said.
    pub(crate) async fn ends(mut self) -> (Option<i32>, String) {
        let begin = tokio::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                return (status.code(), self.log());
            }
            assert!(begin.elapsed() < LIMIT, "it does not end: {}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the process is there");
        self.child.wait().expect("it ends");
    }

    /// Ctrl-C; gives the exit status.
    pub(crate) async fn interrupt(mut self) -> std::process::ExitStatus {
        self.signal("INT");
        let begin = tokio::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                return status;
            }
            assert!(begin.elapsed() < LIMIT, "it does not stop");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that the test started, by its name without `SIG`.
pub(crate) fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs").success());
}

/// A client by a kubeconfig file.
pub(crate) async fn client(kubeconfig: &Path) -> Client {
    client_of(&std::fs::read_to_string(kubeconfig).expect("the kubeconfig is there")).await
}

/// A client by the text of a kubeconfig.
pub(crate) async fn client_of(text: &str) -> Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::from_yaml(text).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a kubeconfig that can be used")).expect("a client")
}

/// A client by the text of a kubeconfig, that acts as somebody else.
pub(crate) async fn impersonate(kubeconfig: &str, user: &str) -> Client {
    let mut kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    for own in kubeconfig.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()) {
        own.impersonate = Some(user.to_owned());
    }
    client_of(&serde_json::to_string(&kubeconfig).expect("JSON")).await
}

/// A client of the same server whose only proof is that token.
pub(crate) async fn by_token(kubeconfig: &str, token: &str) -> Client {
    let mut kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    kubeconfig.auth_infos[0].auth_info = Some(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() });
    client_of(&serde_json::to_string(&kubeconfig).expect("JSON")).await
}

/// Makes an object from its JSON.
pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object).expect("an object of that kind");
    api.create(&PostParams::default(), &object).await.expect("it is accepted")
}

pub(crate) async fn make_namespace(client: &Client, name: &str) {
    let api = Api::<Namespace>::all(client.clone());
    create(&api, serde_json::json!({"metadata": {"name": name}})).await;
}

/// Waits until the object is as `condition` wants it.
pub(crate) async fn until<K>(api: &Api<K>, name: &str, condition: impl Fn(&K) -> bool) -> K
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let met = await_condition(api.clone(), name, move |object: Option<&K>| object.is_some_and(&condition));
    match tokio::time::timeout(LIMIT, met).await {
        Ok(found) => found.expect("the watch goes on").expect("it is there"),
        Err(_) => panic!("{name} is not as wanted after {LIMIT:?}: {:#?}", api.get_opt(name).await),
    }
}

/// Waits until the object is gone.
pub(crate) async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    // Before its first list a watch tells of no object either, so a read has the last word.
    let gone = async {
        loop {
            let told = await_condition(api.clone(), name, |object: Option<&K>| object.is_none()).await;
            if told.is_ok() && api.get_opt(name).await.is_ok_and(|object| object.is_none()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(LIMIT, gone).await.is_err() {
        panic!("{name} is still there after {LIMIT:?}: {:#?}", api.get_opt(name).await);
    }
}

/// The HTTP code of an error.
pub(crate) fn code<T>(answer: Result<T, kube::Error>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("no answer of the API: {error}"),
    }
}

/// Does what an identity has the right to, once it has: rights come a moment after it.
pub(crate) async fn once_let<T, F: Future<Output = Result<T, kube::Error>>>(act: impl Fn() -> F) -> T {
    let acted = async {
        loop {
            match act().await {
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                done => break done.expect("it may"),
            }
        }
    };
    tokio::time::timeout(LIMIT, acted).await.expect("its rights come")
}
