#!/usr/bin/env python3
"""A provider of clusters in one file, standard library only: each Cluster is an `allot up` of its own. Run the platform with
`ALLOT=/path/of/allot allot up --provider-dir docs/providers`; what a provider has to do is told in docs/providers.md."""
import base64, json, os, pathlib, re, shutil, signal, ssl, subprocess, sys, time, urllib.request
from datetime import datetime, timezone

GROUP, TRAITS = "planes.cluster.openmcp.cloud", ["cluster.openmcp.cloud/workerless", "infrastructure/vendor/planes"]
OURS, CORE, RBAC = "/apis/cluster.openmcp.cloud/v1alpha1", "/api/v1", "rbac.authorization.k8s.io"
LEASES, DESK = "/apis/coordination.k8s.io/v1/namespaces/allot-system/leases", "admin.cluster.openmcp.cloud/"

class Api:
    """One API server, by what a kubeconfig says: a client certificate in `tls`, or a bearer token that `token` reads."""
    def __init__(self, server, authority, token=None):
        self.server, self.authority, self.token = server, authority, token
        self.tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode())

    def call(self, method, path, body=None, kind="json"):
        data, kind = body and json.dumps(body).encode(), "merge-patch+json" if (method, kind) == ("PATCH", "json") else kind
        headers = {"Content-Type": "application/" + kind, **({"Authorization": "Bearer " + self.token()} if self.token else {})}
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.tls))
        with direct.open(request, timeout=10) as answer:
            return json.load(answer)

    def apply(self, path, version, kind, metadata, **body):
        """Server-side apply: what is not said stays as it is, such as the conditions of others, which are told apart by type."""
        body = {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
        return self.call("PATCH", f"{path}?fieldManager=planes&force=true", body, "apply-patch+yaml")

class Plane:
    """One cluster: a process, and a folder named by the Cluster's UID below the one that we begin in."""
    def __init__(self, uid):
        self.folder, self.process = pathlib.Path.cwd() / "clusters" / uid, None

    def ensure(self):
        """Starts it if it does not run; gives its version, once it answers."""
        if self.process is None or self.process.poll() is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            command = [os.environ["ALLOT"], "up", "--listen", "127.0.0.1:0", "--data-dir", self.folder / "data"]
            log = open(self.folder / "log", "ab")
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self.api().call("GET", "/version")["gitVersion"].lstrip("v")

    def api(self):  # by the administrator's kubeconfig that it writes
        text, pem = (self.folder / "data/kubeconfig").read_text(), self.folder / "admin.pem"
        file = {key: value.strip('"') for key, value in re.findall(r"^[ -]+([a-z-]+): (\S+)$", text, re.M)}
        pem.write_bytes(b"\n".join(base64.b64decode(file[f"client-{part}-data"]) for part in ("certificate", "key")))
        api = Api(file["server"], file["certificate-authority-data"])
        api.tls.load_cert_chain(pem)
        return api

    def admin(self, seconds):
        """A kubeconfig with all rights that ends after that time, in base64."""
        api, name, accounts = self.api(), "platform-admin", CORE + "/namespaces/kube-system/serviceaccounts"
        api.apply(f"{accounts}/{name}", "v1", "ServiceAccount", {"name": name})
        api.apply(f"/apis/{RBAC}/v1/clusterrolebindings/{name}", RBAC + "/v1", "ClusterRoleBinding", {"name": name},
                  roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
                  subjects=[{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}])
        token = api.call("POST", f"{accounts}/{name}/token", {"spec": {"expirationSeconds": seconds}})["status"]["token"]
        cluster = {"server": api.server, "certificate-authority-data": api.authority}
        file = {"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "c", "user": {"token": token}}]}
        return base64.b64encode(json.dumps(file).encode()).decode()

    def stop(self):
        if self.process is not None:
            self.process.terminate(), self.process.wait()

def attempt(what, act, *arguments):
    """Does it. One Cluster that cannot be served now holds up no other: the next turn tries again."""
    try:
        return act(*arguments)
    except (OSError, KeyError, ValueError) as error:
        print(f"trying {what} again:", error, flush=True)

class Provider:
    def __init__(self, name, kubeconfig):  # which is JSON; the token is read anew for each call, since it is renewed
        config = json.loads(pathlib.Path(kubeconfig).read_text())
        cluster, token = config["clusters"][0]["cluster"], pathlib.Path(config["users"][0]["user"]["tokenFile"])
        self.api = Api(cluster["server"], cluster["certificate-authority-data"], token.read_text)
        self.name, self.planes, self.finalizer = name, {}, "provider.cluster.openmcp.cloud/" + name

    def init(self):
        spec = {"type": "object", "required": ["providerRef"], "properties": {"providerRef": {"type": "string"}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        names, name = {"plural": "providerconfigs", "kind": "ProviderConfig"}, "providerconfigs." + GROUP
        versions = [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}]
        self.api.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + name, "apiextensions.k8s.io/v1",
                       "CustomResourceDefinition", {"name": name},
                       spec={"group": GROUP, "scope": "Cluster", "names": names, "versions": versions})

    def turn(self):
        configs = self.api.call("GET", f"/apis/{GROUP}/v1alpha1/providerconfigs")["items"]
        profiles = [{"name": config["metadata"]["name"], "providerConfigRef": {"name": config["metadata"]["name"]},
                     "supportedVersions": [{"version": "1.36.3"}], "supportedTraits": [{"trait": trait} for trait in TRAITS]}
                    for config in configs if config["spec"]["providerRef"] == self.name]
        own = f"{OURS}/clusterproviders/{self.name}"
        if self.api.call("GET", own).get("status", {}).get("profiles", []) != profiles:
            self.api.call("PATCH", own + "/status", {"status": {"profiles": profiles}})
        for cluster in self.api.call("GET", OURS + "/clusters")["items"]:
            if cluster["spec"]["clusterProviderRef"]["name"] == self.name:
                attempt(cluster["metadata"]["name"], self.serve, cluster, cluster["metadata"])
        self.answer(now := datetime.now(timezone.utc))
        # Last, so that it says that a turn was done: one that fails for good is seen to miss its heartbeat.
        beat = {"holderIdentity": str(os.getpid()), "leaseDurationSeconds": 15, "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}"}
        self.api.call("PATCH", f"{LEASES}/provider-{self.name}", {"spec": beat})

    def serve(self, cluster, meta):
        path, going = f"{OURS}/namespaces/{meta['namespace']}/clusters/{meta['name']}", "deletionTimestamp" in meta
        uid, held, status = meta["uid"], meta.get("finalizers", []), cluster.get("status", {})
        write = lambda held: self.api.call("PATCH", path, {  # on what was seen, or not at all
            "metadata": {"finalizers": held, "uid": uid, "resourceVersion": meta["resourceVersion"]}})
        if going and held == [self.finalizer]:  # nobody else holds it: our turn
            plane = self.planes.pop(uid, None) or Plane(uid)
            plane.stop()
            shutil.rmtree(plane.folder, ignore_errors=True)
            return write([])
        if self.finalizer not in held:  # what is made is made under the finalizer only
            return going or write(held + [self.finalizer])
        version = attempt(meta["name"], self.planes.setdefault(uid, Plane(uid)).ensure)
        truth, phase, reason = ("True", "Succeeded", "AllGood") if version else ("False", "Progressing", "Starting")
        if ("ClusterHealthy", truth) in [(said["type"], said["status"]) for said in status.get("conditions", [])]:
            return None
        condition = {"type": "ClusterHealthy", "status": truth, "reason": reason, "message": "",
                     "lastTransitionTime": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"}
        new = {"phase": phase, "conditions": [condition], **({"kubernetes": {"version": version}} if version else {})}
        return self.api.apply(path + "/status", OURS[6:], "Cluster", {"name": meta["name"], "uid": uid}, status=new)

    def answer(self, now):
        """Who is asked for admin access, until when, stands in annotations; answers go beside them, and past ones go."""
        path = f"{CORE}/namespaces/allot-planes/secrets/access-{self.name}"
        secret = self.api.call("GET", path)
        there, seconds = secret.get("data", {}), lambda until: (datetime.fromisoformat(until.replace("Z", "+00:00")) - now).total_seconds()
        left = {key[len(DESK):]: int(seconds(until)) for key, until in secret["metadata"].get("annotations", {}).items() if DESK in key}
        data = {uid: None for uid in there if left.get(uid, 0) <= 0}
        for uid in (uid for uid in left if left[uid] > 0 and uid in self.planes and uid not in there):
            data[uid] = attempt(uid, self.planes[uid].admin, left[uid])
        if data:
            self.api.call("PATCH", path, {"data": data})

flags = dict(zip(sys.argv[2::2], sys.argv[3::2]))
provider = Provider(flags["--provider-name"], flags["--kubeconfig"])
sys.argv[1] == "init" and sys.exit(provider.init())
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
try:
    while True:
        attempt("all of it", provider.turn), time.sleep(0.5)
finally:
    [plane.stop() for plane in provider.planes.values()]
