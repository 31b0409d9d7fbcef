#!/usr/bin/env python3
"""Stands where the kind command (https://kind.sigs.k8s.io) would, and speaks its command line: each cluster is an etcd and a
kube-apiserver of this machine, without nodes, whose programs lie in $ALLOTMENT_KUBERNETES. Clusters are kept in `../clusters`."""
import base64, json, os, pathlib, random, secrets, shutil, signal, socket, ssl, subprocess, sys, time, urllib.request

CLUSTERS = pathlib.Path(__file__).absolute().parent.parent / "clusters"
START_LIMIT = 110  # seconds


def fail(message):
    sys.exit("ERROR: " + message)


def program(name):
    return pathlib.Path(os.environ.get("ALLOTMENT_KUBERNETES") or fail("ALLOTMENT_KUBERNETES is not set")) / name


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def unused_ports(count):
    """Below those that the system chooses, since whatever comes to life meanwhile may be given one of these."""
    return [port for port in random.sample(range(10000, 32000), 50) if not listens(port)][:count]


def launch(folder, name, flags):
    """Starts a program that goes on when this command has ended."""
    log = open(folder / (name + ".log"), "ab")
    child = subprocess.Popen([program(name), *flags], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                             start_new_session=True)
    with open(folder / "processes", "a") as processes:
        processes.write(f"{child.pid}\n")
    return child


def answers(port, authority, token):
    try:
        request = urllib.request.Request(f"https://127.0.0.1:{port}/readyz", headers={"Authorization": "Bearer " + token})
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(
            context=ssl.create_default_context(cafile=authority)))
        return direct.open(request, timeout=5).status == 200
    except OSError:
        return False


def create(name, image, kubeconfig, definition):
    folder = CLUSTERS / name
    if folder.exists():
        fail(f'node(s) already exist for a cluster with the name "{name}"')
    if json.loads(definition)["kind"] != "Cluster":
        fail("unknown kind in the definition of the cluster")
    runs = subprocess.run([program("kube-apiserver"), "--version"], capture_output=True, text=True).stdout.split()[-1]
    if image != f"kindest/node:{runs}":
        fail(f"failed to pull image {image}: there is kindest/node:{runs} and no other")
    folder.mkdir(parents=True)
    (etcd, peer, port), token = unused_ports(3), secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f"{token},kubernetes-admin,,system:masters\n")
    urls = [f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"]
    started = [launch(folder, "etcd", [
        "--data-dir=etcd", "--log-level=warn", "--unsafe-no-fsync", f"--listen-client-urls={urls[0]}",
        f"--advertise-client-urls={urls[0]}", f"--listen-peer-urls={urls[1]}", f"--initial-advertise-peer-urls={urls[1]}",
        f"--initial-cluster=default={urls[1]}"])]
    # It makes its own certificate; the key of that signs the tokens of service accounts as well.
    started += [launch(folder, "kube-apiserver", [
        f"--etcd-servers={urls[0]}", "--bind-address=127.0.0.1", f"--secure-port={port}", "--cert-dir=certificates",
        "--token-auth-file=tokens.csv", "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-signing-key-file=certificates/apiserver.key",
        "--service-account-key-file=certificates/apiserver.key", "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/16", "--endpoint-reconciler-type=none",
        "--disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount"])]
    authority, begin = folder / "certificates/apiserver.crt", time.monotonic()
    while not answers(port, authority, token):
        if time.monotonic() - begin > START_LIMIT or any(child.poll() is not None for child in started):
            tail = (folder / "kube-apiserver.log").read_text()[-300:]
            fail(f"failed to create cluster: the API server is not ready: {tail}")
        time.sleep(0.1)
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode()}
    file = {"apiVersion": "v1", "kind": "Config", "current-context": "kind", "users": [{"name": "kind", "user": {"token": token}}],
            "clusters": [{"name": "kind", "cluster": cluster}],
            "contexts": [{"name": "kind", "context": {"cluster": "kind", "user": "kind"}}]}
    for path in (folder / "kubeconfig", pathlib.Path(kubeconfig)):
        path.write_text(json.dumps(file))


def delete(name):
    folder = CLUSTERS / name
    if (folder / "processes").exists():
        for process in (folder / "processes").read_text().split():
            try:
                os.kill(int(process), signal.SIGKILL)
            except ProcessLookupError:
                pass
    shutil.rmtree(folder, ignore_errors=True)


flags = dict(zip(sys.argv[3::2], sys.argv[4::2]))
match sys.argv[1:3]:
    case ["get", "clusters"]:
        found = sorted(path.name for path in CLUSTERS.iterdir()) if CLUSTERS.exists() else []
        print("\n".join(found)) if found else print("No kind clusters found.", file=sys.stderr)
    case ["create", "cluster"]:
        create(flags["--name"], flags["--image"], flags["--kubeconfig"], sys.stdin.read() if flags["--config"] == "-" else "")
    case ["get", "kubeconfig"]:
        file = CLUSTERS / flags["--name"] / "kubeconfig"
        print(file.read_text()) if file.exists() else fail("could not locate any control plane nodes")
    case ["delete", "cluster"]:
        delete(flags["--name"])
    case ["delete", "clusters"] if sys.argv[3:] == ["--all"]:
        [delete(path.name) for path in CLUSTERS.glob("*")]
    case _:
        fail("unknown command: " + " ".join(sys.argv[1:]))
