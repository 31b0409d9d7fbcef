"""The Python dynamic client: discovery, every verb on built-in and on our own kinds, a watch that is taken
up again where it ended, paging, and a watch whose version is unknown."""
import os
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError, UnprocessibleEntityError

config.load_kube_config(os.environ["KUBECONFIG"])
api = client.ApiClient()
dyn = dynamic.DynamicClient(api, cache_file=os.path.abspath("discovery.json"))

# Discovery: by kind, by plural name, by short name; what is not there.
maps = dyn.resources.get(api_version="v1", kind="ConfigMap")
assert maps.name == "configmaps" and "cm" in maps.short_names and maps.namespaced
assert {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} <= set(maps.verbs)
definitions = dyn.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
try:
    dyn.resources.get(api_version="v1", kind="Nothing")
    raise AssertionError("a kind that is not there was found")
except ResourceNotFoundError:
    pass

namespaces = dyn.resources.get(api_version="v1", kind="Namespace")
namespaces.create(body={"metadata": {"name": "dyn"}})


def config_map(name, **more):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}, "data": {"n": "1"}}


# Every verb.
made = maps.create(namespace="dyn", body=config_map("one", labels={"app": "web"}))
assert maps.get(name="one", namespace="dyn").metadata.uid == made.metadata.uid
patched = maps.patch(name="one", namespace="dyn", body={"data": {"m": "2"}},
                     content_type="application/merge-patch+json")
assert patched.data.to_dict() == {"n": "1", "m": "2"}
patched = maps.patch(name="one", namespace="dyn", body=[{"op": "remove", "path": "/data/m"}],
                     content_type="application/json-patch+json")
assert patched.data.to_dict() == {"n": "1"}
stale = {**made.to_dict(), "data": {"n": "stale"}}
try:
    maps.replace(namespace="dyn", body=stale)
    raise AssertionError("a stale object was taken")
except ConflictError:
    pass
fresh = {**patched.to_dict(), "data": {"n": "3"}}
assert maps.replace(namespace="dyn", body=fresh).data.n == "3"
assert [item.metadata.name for item in maps.get(namespace="dyn", label_selector="app=web").items] == ["one"]
assert maps.get(namespace="dyn", field_selector="metadata.name=nobody").items == []

# A kind of one's own: found after the cache is renewed, defaulted, refused where it is wrong.
definitions.create(body={
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.dyn.example.com"},
    "spec": {"group": "dyn.example.com", "scope": "Namespaced",
             "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"]},
             "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                           "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                               "spec": {"type": "object", "properties": {
                                   "size": {"type": "integer", "maximum": 9, "default": 3}}},
                               "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}]}})
dyn.resources.invalidate_cache()
gadgets = dyn.resources.get(api_version="dyn.example.com/v1", kind="Gadget")


def gadget(name, **spec):
    return {"apiVersion": "dyn.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec}


assert gadgets.create(namespace="dyn", body=gadget("g", size=5)).spec.size == 5
assert gadgets.create(namespace="dyn", body=gadget("d")).spec.size == 3
try:
    gadgets.create(namespace="dyn", body=gadget("big", size=10))
    raise AssertionError("a gadget too large was taken")
except UnprocessibleEntityError as error:
    assert "spec.size" in error.summary(), error.summary()
gadgets.status.patch(name="g", namespace="dyn", body={"status": {"ready": True}, "spec": {"size": 1}},
                     content_type="application/merge-patch+json")
shown = gadgets.get(name="g", namespace="dyn")
assert shown.status.ready is True and shown.spec.size == 5, shown

# A watch, begun in the present, while somebody else writes.
version = gadgets.get(namespace="dyn").metadata.resourceVersion


def write():
    for number in range(5):
        gadgets.create(namespace="dyn", body=gadget(f"w{number}"))
    gadgets.patch(name="w0", namespace="dyn", body={"spec": {"size": 7}}, content_type="application/merge-patch+json")
    gadgets.delete(name="w1", namespace="dyn")


writer = threading.Thread(target=write)
writer.start()
seen = []
watcher = watch.Watch()
for event in gadgets.watch(namespace="dyn", resource_version=version, timeout=20, watcher=watcher):
    seen.append((event["type"], event["object"].metadata.name))
    if event["type"] == "DELETED":
        watcher.stop()
writer.join()
expected = [("ADDED", f"w{number}") for number in range(5)] + [("MODIFIED", "w0"), ("DELETED", "w1")]
assert seen == expected, seen

# The same watch again in two halves: nothing is lost or told twice where it was broken off.
halves = []
for event in gadgets.watch(namespace="dyn", resource_version=version, timeout=20):
    halves.append((event["type"], event["object"].metadata.name))
    version = event["object"].metadata.resourceVersion
    if len(halves) == 3:
        break
for event in gadgets.watch(namespace="dyn", resource_version=version, timeout=20):
    halves.append((event["type"], event["object"].metadata.name))
    if event["type"] == "DELETED":
        break
assert halves == expected, halves

# Pages, through the dynamic client's own parameters.
names, token = [], None
while True:
    page = gadgets.get(namespace="dyn", limit=2, _continue=token)
    names += [item.metadata.name for item in page.items]
    token = page.metadata["continue"]
    if not token:
        break
assert names == ["d", "g", "w0", "w2", "w3", "w4"], names

# A version that nobody remembers is Gone, as the client's own loop expects.
try:
    for _ in watch.Watch().stream(client.CoreV1Api().list_namespaced_config_map, "dyn", resource_version="1",
                                  timeout_seconds=5):
        break
except ApiException as error:
    assert error.status == 410, error

# Deletion: by name, of a collection, of what is not there.
gadgets.delete(namespace="dyn", label_selector="none=here")
assert len(gadgets.get(namespace="dyn").items) == 6
gadgets.delete(namespace="dyn", field_selector="metadata.name!=g")
assert [item.metadata.name for item in gadgets.get(namespace="dyn").items] == ["g"]
gadgets.delete(name="g", namespace="dyn")
assert gadgets.get(namespace="dyn").items == []
try:
    gadgets.delete(name="g", namespace="dyn")
    raise AssertionError("what is gone was deleted")
except NotFoundError:
    pass
definitions.delete(name="gadgets.dyn.example.com")
namespaces.delete(name="dyn")
print("python dynamic: all checks passed")
