"""Runs the operator of `operator/` with kopf, a framework that nobody here wrote, and watches what it does."""
import os
import pathlib
import subprocess
import sys
import time

import yaml
from kubernetes import client, config, dynamic

LIMIT = 40
here = pathlib.Path(__file__).parent
config.load_kube_config(os.environ["KUBECONFIG"])
core = client.CoreV1Api()
custom = client.CustomObjectsApi()
WHERE = ("operator.example.com", "v1", "shop", "shops")

definition = yaml.safe_load("""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.operator.example.com}
spec:
  group: operator.example.com
  scope: Namespaced
  names: {plural: shops, singular: shop, kind: Shop}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                title: {type: string}
                flaky: {type: boolean}
                items: {type: array, items: {type: string}}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
""")
client.ApiextensionsV1Api().create_custom_resource_definition(definition)
core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="shop")))


def shop(name, **spec):
    return {"apiVersion": "operator.example.com/v1", "kind": "Shop", "metadata": {"name": name}, "spec": spec}


def until(what, ask):
    """Waits until `ask` gives something true; says what it gave last when it does not."""
    deadline, last = time.monotonic() + LIMIT, None
    while time.monotonic() < deadline:
        if operator.poll() is not None:
            sys.exit(f"the operator ended with {operator.returncode}:\n{log.read_text()}")
        try:
            last = ask()
            if last:
                return last
        except client.exceptions.ApiException as error:
            last = error.status
        time.sleep(0.05)
    sys.exit(f"{what} did not come within {LIMIT} s; last {last!r}; the operator said:\n{log.read_text()}")


def status(name):
    return custom.get_namespaced_custom_object_status(*WHERE, name).get("status") or {}


def gone(ask):
    try:
        ask()
    except client.exceptions.ApiException as error:
        return error.status == 404
    return False


def events(name):
    return {event.reason for event in core.list_namespaced_event("shop").items if event.involved_object.name == name}


log = pathlib.Path("kopf.log")
with log.open("w") as output:
    operator = subprocess.Popen(
        [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", "shop", str(here / "operator/operator.py")],
        stdout=output, stderr=subprocess.STDOUT)
try:
    # A Shop that is there before the operator looks, or comes as it does: either way it is served.
    custom.create_namespaced_custom_object(*WHERE, shop("first", title="One", items=["a", "b"]))
    until("the first page", lambda: status("first").get("created", {}).get("page") == "first-page")
    page = core.read_namespaced_config_map("first-page", "shop")
    assert page.data == {"title": "One", "items": "2"}, page.data
    assert page.metadata.owner_references[0].kind == "Shop", page.metadata
    made = custom.get_namespaced_custom_object(*WHERE, "first")
    assert made["metadata"]["finalizers"] == ["operator.example.com/cleanup"], made["metadata"]
    until("an event", lambda: "Logging" in events("first"))

    # What fails for a time is tried again, what fails for good is left alone.
    custom.create_namespaced_custom_object(*WHERE, shop("flaky", title="Two", flaky=True))
    until("the second try", lambda: status("flaky").get("created", {}).get("tries") == 2)
    custom.create_namespaced_custom_object(*WHERE, shop("untitled", title=""))
    until("the complaint", lambda: events("untitled"))

    # A field that changes, and one that is of no interest.
    custom.patch_namespaced_custom_object(*WHERE, "first", {"spec": {"title": "Uno"}})
    until("the new title", lambda: core.read_namespaced_config_map("first-page", "shop").data["title"] == "Uno")
    until("what it was", lambda: status("first").get("retitled/spec.title", {}).get("was") == "One")
    version = custom.get_namespaced_custom_object(*WHERE, "first")["metadata"]["resourceVersion"]

    # Objects of kinds that are not its own, by label.
    core.create_namespaced_config_map("shop", client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name="noted", labels={"watched": "yes"})))
    until("the note", lambda: core.read_namespaced_config_map("noted", "shop").metadata.annotations == {"seen": "yes"})

    # A Shop goes only when the operator has cleaned up; its page goes with it.
    custom.delete_namespaced_custom_object(*WHERE, "first")
    until("the end of the first shop", lambda: gone(lambda: custom.get_namespaced_custom_object(*WHERE, "first")))
    assert core.read_namespaced_config_map("first-closed", "shop")
    until("the end of its page", lambda: gone(lambda: core.read_namespaced_config_map("first-page", "shop")))
    assert version
finally:
    operator.terminate()
    try:
        operator.wait(20)
    except subprocess.TimeoutExpired:
        operator.kill()
        operator.wait()
print("kopf: all checks passed")
