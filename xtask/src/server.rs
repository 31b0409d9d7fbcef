//! `allot up` as a child, for tests by real clients.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine as _;

use crate::run::{cargo, output, root, run, target_dir};

/// How long a server may take to write its kubeconfig; far beyond what it takes, for slow machines.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server on a free loopback port with a data folder of its own. Ended when dropped.
pub(crate) struct Server {
    child: Child,
    /// The folder with all that belongs to it.
    pub(crate) dir: PathBuf,
    /// The administrator's kubeconfig.
    pub(crate) kubeconfig: PathBuf,
}

/// What the kubeconfig says.
pub(crate) struct Access {
    /// URL.
    pub(crate) server: String,
    /// File with the CA.
    pub(crate) ca: PathBuf,
    /// Files with client certificate and key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    /// File with the token.
    pub(crate) token: Option<PathBuf>,
}

/// A logical cluster of a running server.
pub(crate) struct Tenant {
    /// What goes before its paths.
    pub(crate) prefix: String,
    /// Files with certificate and key of its administrator.
    pub(crate) client: (PathBuf, PathBuf),
}

/// Builds the binary and gives its path.
pub(crate) fn build() -> Result<PathBuf> {
    run(cargo().args(["build", "--quiet", "--locked", "-p", "allot"]))?;
    Ok(target_dir().join("debug/allot"))
}

impl Server {
    /// Starts `allot up` in a new folder below the build folder.
    pub(crate) fn start(binary: &Path, name: &str) -> Result<Server> {
        let dir = target_dir().join("test-servers").join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir)?;
        let kubeconfig = dir.join("kubeconfig");
        let log = std::fs::File::create(dir.join("log"))?;
        let child = Command::new(binary)
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.join("data"))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut server = Server { child, dir, kubeconfig };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let started = Instant::now();
        while !self.kubeconfig.is_file() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}:\n{}", self.log());
            }
            if started.elapsed() > START_LIMIT {
                bail!("the server wrote no kubeconfig within {START_LIMIT:?}:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// What it printed so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Asks for a logical cluster, and makes itself its administrator: a member of `system:masters` by certificate,
    /// as the platform's own is.
    pub(crate) fn tenant(&self, kubectl: &Path) -> Result<Tenant> {
        let kubectl = |arguments: &[&str]| {
            let mut command = Command::new(kubectl);
            output(command.current_dir(root()).arg("--kubeconfig").arg(&self.kubeconfig).args(arguments))
        };
        kubectl(&["apply", "-f", "examples/request.yaml"])?;
        kubectl(&["wait", "--for=condition=Ready", "--timeout=60s", "clusterrequest/build", "-n", "team-a"])?;
        let records = kubectl(&["get", "secrets", "-n", "allot-planes", "-o", "json"])?;
        let records: serde_json::Value = serde_json::from_str(&records)?;
        let data = &records["items"][0]["data"];
        let entry = |name: &str| -> Result<Vec<u8>> {
            let text = data[name].as_str().with_context(|| format!("the record of a control plane has no {name}"))?;
            Ok(base64::engine::general_purpose::STANDARD.decode(text)?)
        };
        let dir = self.dir.join("tenant");
        std::fs::create_dir_all(&dir)?;
        for name in ["ca.crt", "ca.key"] {
            std::fs::write(dir.join(name), entry(name)?)?;
        }
        let mut issue = cargo();
        issue.args(["run", "--quiet", "--locked", "-p", "allotment-pki", "--example", "client_certificate", "--"]);
        run(issue.arg(&dir).args(["admin", "system:masters"]))?;
        let id = String::from_utf8(entry("tenant")?)?;
        Ok(Tenant { prefix: format!("/clusters/{id}"), client: (dir.join("client.crt"), dir.join("client.key")) })
    }

    /// Takes the kubeconfig apart, with kubectl's own reader.
    pub(crate) fn access(&self, kubectl: &Path) -> Result<Access> {
        let field = |path: &str| {
            let template = format!("jsonpath={{{path}}}");
            output(
                Command::new(kubectl)
                    .arg("--kubeconfig")
                    .arg(&self.kubeconfig)
                    .args(["config", "view", "--raw", "--minify", "-o", &template]),
            )
        };
        let file = |name: &str, data: String| -> Result<Option<PathBuf>> {
            if data.is_empty() {
                return Ok(None);
            }
            let path = self.dir.join(name);
            std::fs::write(&path, base64::engine::general_purpose::STANDARD.decode(data)?)?;
            Ok(Some(path))
        };
        let certificate = file("client.crt", field(".users[0].user.client-certificate-data")?)?;
        let key = file("client.key", field(".users[0].user.client-key-data")?)?;
        let token = field(".users[0].user.token")?;
        let token = if token.is_empty() {
            None
        } else {
            let path = self.dir.join("token");
            std::fs::write(&path, token)?;
            Some(path)
        };
        Ok(Access {
            server: field(".clusters[0].cluster.server")?,
            ca: file("ca.crt", field(".clusters[0].cluster.certificate-authority-data")?)?
                .context("the kubeconfig has no certificate-authority-data")?,
            client: certificate.zip(key),
            token,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
