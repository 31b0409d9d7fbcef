#!/usr/bin/env python3
"""A provider of clusters in one file, standard library only: each Cluster is an `allot up` of its own.

    ALLOT=/path/of/allot allot up --provider-dir docs/providers

and a ClusterProvider with `spec.package: planes.py`. What a provider has to do is told in docs/providers.md.
"""
import argparse, base64, json, os, pathlib, re, shutil, signal, ssl, subprocess, sys, time, urllib.request
from datetime import datetime, timezone

GROUP, VERSION = "planes.cluster.openmcp.cloud", "1.36.3"
OURS, CORE, RBAC = "/apis/cluster.openmcp.cloud/v1alpha1", "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
DESK = "admin.cluster.openmcp.cloud/"

class Api:
    """One API server, by what a kubeconfig says: a client certificate in `context`, or `token` to ask for a bearer token."""
    def __init__(self, server, context, token=None):
        https = urllib.request.HTTPSHandler(context=context)
        self.server, self.token = server, token
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)

    def call(self, method, path, body=None, kind="json"):
        headers = {"Content-Type": f"application/{kind}", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token()
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        with self.opener.open(request, timeout=10) as answer:
            return json.loads(answer.read())

    def merge(self, path, body):
        return self.call("PATCH", path, body, "merge-patch+json")

    def ensure(self, path, name, body):
        try:
            self.call("POST", path, {"metadata": {"name": name}, **body})
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there
                raise

def context(authority, **more):
    return ssl.create_default_context(cadata=base64.b64decode(authority).decode(), **more)

def platform(path):
    """The kubeconfig is JSON; the token is read anew for each call, since it is renewed."""
    config = json.loads(pathlib.Path(path).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return Api(cluster["server"], context(cluster["certificate-authority-data"]), pathlib.Path(user["tokenFile"]).read_text)

def init(api):
    """Brings our own definition."""
    spec = {"type": "object", "required": ["providerRef"], "properties": {"providerRef": {"type": "string"}}}
    version = {"name": "v1alpha1", "served": True, "storage": True,
               "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}
    names = {"plural": "providerconfigs", "singular": "providerconfig", "kind": "ProviderConfig"}
    api.ensure("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "providerconfigs." + GROUP,
               {"spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]}})

class Plane:
    """One cluster: a process, and a folder named by the Cluster's UID."""
    def __init__(self, uid):
        self.folder, self.process = pathlib.Path.cwd() / "clusters" / uid, None

    def ensure(self):
        """Starts it if it does not run; gives its version once it answers."""
        if self.process is None or self.process.poll() is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            command = [os.environ["ALLOT"], "up", "--listen", "127.0.0.1:0", "--data-dir", self.folder / "data"]
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            return self.api()[0].call("GET", "/version")["gitVersion"].lstrip("v")
        except OSError:  # not yet
            return None

    def api(self):
        """Its API and its authority, by the administrator's kubeconfig that it writes."""
        text, pem = (self.folder / "data/kubeconfig").read_text(), self.folder / "admin.pem"
        file = {key: value.strip('"') for key, value in re.findall(r"^[ -]+([a-z-]+): (\S+)$", text, re.M)}
        with os.fdopen(os.open(pem, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(b"\n".join(base64.b64decode(file[f"client-{part}-data"]) for part in ("certificate", "key")))
        tls = context(file["certificate-authority-data"])
        tls.load_cert_chain(pem)
        return Api(file["server"], tls), file["certificate-authority-data"]

    def admin(self, seconds):
        """A kubeconfig with all rights that ends after that time."""
        (api, authority), name, accounts = self.api(), "platform-admin", CORE + "/namespaces/kube-system/serviceaccounts"
        api.ensure(accounts, name, {})
        api.ensure(RBAC + "/clusterrolebindings", name, {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}]})
        token = api.call("POST", f"{accounts}/{name}/token", {"spec": {"expirationSeconds": seconds}})["status"]["token"]
        cluster = {"server": api.server, "certificate-authority-data": authority}
        return json.dumps({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                           "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "c", "user": {"token": token}}]})

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()

class Provider:
    def __init__(self, api, name):
        self.api, self.name, self.planes, self.finalizer = api, name, {}, "provider.cluster.openmcp.cloud/" + name

    def turn(self):
        now = datetime.now(timezone.utc)
        beat = {"holderIdentity": str(os.getpid()), "leaseDurationSeconds": 10, "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}"}
        self.api.merge(f"/apis/coordination.k8s.io/v1/namespaces/allot-system/leases/provider-{self.name}", {"spec": beat})
        self.publish()
        for cluster in self.api.call("GET", OURS + "/clusters")["items"]:
            if cluster["spec"]["clusterProviderRef"]["name"] == self.name:
                self.serve(cluster)
        self.answer(now)

    def publish(self):
        configs = self.api.call("GET", f"/apis/{GROUP}/v1alpha1/providerconfigs")["items"]
        own, traits = f"{OURS}/clusterproviders/{self.name}", ["cluster.openmcp.cloud/workerless", "infrastructure/vendor/planes"]
        profiles = [{"name": config["metadata"]["name"], "providerConfigRef": {"name": config["metadata"]["name"]},
                     "supportedVersions": [{"version": VERSION}], "supportedTraits": [{"trait": trait} for trait in traits]}
                    for config in configs if config["spec"]["providerRef"] == self.name]
        if self.api.call("GET", own).get("status", {}).get("profiles", []) != profiles:
            self.api.merge(own + "/status", {"status": {"profiles": profiles}})

    def serve(self, cluster):
        meta, status, uid = cluster["metadata"], cluster.get("status", {}), cluster["metadata"]["uid"]
        path, going = f"{OURS}/namespaces/{meta['namespace']}/clusters/{meta['name']}", "deletionTimestamp" in meta
        held, guard = meta.get("finalizers", []), {"resourceVersion": meta["resourceVersion"], "uid": uid}
        if going and held == [self.finalizer]:  # nobody else holds it: our turn
            plane = self.planes.pop(uid, Plane(uid))
            plane.stop()
            shutil.rmtree(plane.folder, ignore_errors=True)
            return self.api.merge(path, {"metadata": {"finalizers": [], **guard}})
        if self.finalizer not in held:  # what is made is made under the finalizer only
            return None if going else self.api.merge(path, {"metadata": {"finalizers": held + [self.finalizer], **guard}})
        version = self.planes.setdefault(uid, Plane(uid)).ensure()
        truth, phase, reason = ("True", "Succeeded", "AllGood") if version else ("False", "Progressing", "Starting")
        before = {condition["type"]: condition["status"] for condition in status.get("conditions", [])}
        if (before.get("ClusterHealthy"), status.get("phase")) == (truth, "Deleting" if going else phase):
            return None
        condition = {"type": "ClusterHealthy", "status": truth, "reason": reason, "message": "",
                     "lastTransitionTime": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"}
        new = {"phase": "Deleting" if going else phase, "conditions": [condition], **({"kubernetes": {"version": version}} if version else {})}
        # Conditions are a map by type to server-side apply: the platform's stay as they are.
        return self.api.call("PATCH", f"{path}/status?fieldManager=planes&force=true", {
            "apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster", "status": new,
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": uid}}, "apply-patch+yaml")

    def answer(self, now):
        """Who is asked for admin access, until when, stands in annotations; the answers go beside them, and past ones go."""
        path = f"{CORE}/namespaces/allot-planes/secrets/access-{self.name}"
        secret = self.api.call("GET", path)
        asked = {key[len(DESK):]: until for key, until in secret["metadata"].get("annotations", {}).items() if key.startswith(DESK)}
        left = {uid: int((datetime.fromisoformat(until.replace("Z", "+00:00")) - now).total_seconds()) for uid, until in asked.items()}
        data = {uid: None for uid in secret.get("data", {}) if left.get(uid, 0) <= 0}
        for uid in (uid for uid in asked if left[uid] > 0 and uid in self.planes and uid not in secret.get("data", {})):
            data[uid] = base64.b64encode(self.planes[uid].admin(left[uid]).encode()).decode()
        if data:
            self.api.merge(path, {"data": data})

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["init", "run"])
    for flag in ("--provider-name", "--kubeconfig", "--environment"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()
    if given.verb == "init":
        return init(platform(given.kubeconfig))
    provider = Provider(platform(given.kubeconfig), given.provider_name)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            try:
                provider.turn()
            except (OSError, KeyError) as error:
                print("trying again:", error, flush=True)
            time.sleep(0.5)
    finally:
        [plane.stop() for plane in provider.planes.values()]

main()
