"""What a person does with the Python client: typed objects, the dynamic client, a watch."""
import datetime
import os

from kubernetes import client, config, dynamic, watch

config.load_kube_config(os.environ["KUBECONFIG"])
core = client.CoreV1Api()

core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="py")))
core.create_namespaced_config_map("py", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="c"), data={"a": "1"}))
assert core.read_namespaced_config_map("c", "py").data == {"a": "1"}
core.patch_namespaced_config_map("c", "py", {"data": {"b": "2"}})
assert core.read_namespaced_config_map("c", "py").data == {"a": "1", "b": "2"}

# Paging gives every object once.
for number in range(25):
    core.create_namespaced_config_map("py", client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="many-")))
names, token = [], None
while True:
    page = core.list_namespaced_config_map("py", limit=7, _continue=token)
    names += [item.metadata.name for item in page.items]
    token = page.metadata._continue
    if not token:
        break
assert len(names) == len(set(names)) and len(names) >= 26, names

# A watch from a known version shows what comes after it.
version = core.list_namespaced_config_map("py").metadata.resource_version
core.create_namespaced_config_map("py", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="later")))
core.delete_namespaced_config_map("later", "py")
seen = []
for event in watch.Watch().stream(core.list_namespaced_config_map, "py", resource_version=version, timeout_seconds=10):
    seen.append((event["type"], event["object"].metadata.name))
    if event["type"] == "DELETED":
        break
assert seen == [("ADDED", "later"), ("DELETED", "later")], seen

# Leases carry times with microseconds, as Python writes them.
now = datetime.datetime.now(datetime.timezone.utc)
lease = client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=client.V1LeaseSpec(
    holder_identity="me", lease_duration_seconds=15, renew_time=now, acquire_time=now))
client.CoordinationV1Api().create_namespaced_lease("py", lease)
assert client.CoordinationV1Api().read_namespaced_lease("l", "py").spec.renew_time == now

# The dynamic client finds our kinds and is told what is wrong.
dyn = dynamic.DynamicClient(client.ApiClient())
requests = dyn.resources.get(api_version="cluster.openmcp.cloud/v1alpha1", kind="ClusterRequest")
body = {"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest", "metadata": {"name": "r"},
        "spec": {"purposes": ["workload"]}}
requests.create(namespace="py", body=body)
for event in requests.watch(namespace="py", timeout=20):
    status = event["object"].get("status")
    if status and any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or []):
        break
else:
    raise AssertionError("the request did not become ready")
try:
    requests.create(namespace="py", body={**body, "metadata": {"name": "bad"}, "spec": {"purposes": []}})
    raise AssertionError("a request without purposes was accepted")
except client.exceptions.ApiException as error:
    assert error.status == 422 and "spec.purposes" in str(error.body), error
requests.delete(name="r", namespace="py")
core.delete_namespace("py")
print("python: all checks passed")
