//! A running `allot up` in a folder of its own, and what tests wait with.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long anything may take before a test gives up.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder that goes with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!(
            "allot-test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The command under test, cut off from the user's own files.
pub(crate) fn allot(folder: &Folder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allot"));
    command.env("HOME", &folder.0).env_remove("KUBECONFIG").env_remove("XDG_DATA_HOME");
    // Whoever took this proxy for loopback would get no answer.
    command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("https_proxy", "http://127.0.0.1:9");
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
}

impl Up {
    pub(crate) async fn start(folder: &Folder) -> Up {
        Up::start_with(folder, &[]).await
    }

    pub(crate) async fn start_with(folder: &Folder, flags: &[&str]) -> Up {
        let pid_file = folder.0.join("pid");
        let _ = std::fs::remove_file(&pid_file);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.0.join("log")).expect("a log");
        let child = allot(folder)
            .args(["up", "--listen", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(folder.data())
            .arg("--kubeconfig")
            .arg(folder.kubeconfig())
            .arg("--pid-file")
            .arg(&pid_file)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("allot up starts");
        let mut up = Up { child, pid_file };
        let begin = tokio::time::Instant::now();
        while !up.pid_file.exists() {
            let log = || std::fs::read_to_string(folder.0.join("log")).unwrap_or_default();
            if let Some(status) = up.child.try_wait().expect("a child can be asked") {
                panic!("allot up ended with {status}: {}", log());
            }
            assert!(begin.elapsed() < LIMIT, "allot up is not ready: {}", log());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        up
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the process is there");
        self.child.wait().expect("it ends");
    }

    /// Ctrl-C; gives the exit status.
    pub(crate) async fn interrupt(mut self) -> std::process::ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
        let begin = tokio::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be asked") {
                return status;
            }
            assert!(begin.elapsed() < LIMIT, "allot up does not stop");
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
    let gone = await_condition(api.clone(), name, |object: Option<&K>| object.is_none());
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
