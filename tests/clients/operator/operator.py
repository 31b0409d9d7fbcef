"""A small operator on kopf: for each Shop it keeps a ConfigMap, says in the status what it did, posts
events, looks at fields, and cleans up before a Shop goes."""
import kopf
import kubernetes

GROUP, VERSION, PLURAL = "operator.example.com", "v1", "shops"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.loggers = True
    settings.watching.server_timeout = 30
    settings.persistence.finalizer = "operator.example.com/cleanup"


def page(name, namespace, spec):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-page"},
            "data": {"title": spec["title"], "items": str(len(spec.get("items") or []))}}
    kopf.adopt(body)
    return body


@kopf.on.create(GROUP, VERSION, PLURAL)
def created(name, namespace, spec, retry, **_):
    if spec.get("flaky") and retry < 1:
        raise kopf.TemporaryError("not yet", delay=0.1)
    if not spec["title"]:
        raise kopf.PermanentError("a shop needs a title")
    core = kubernetes.client.CoreV1Api()
    made = core.create_namespaced_config_map(namespace, page(name, namespace, spec))
    return {"page": made.metadata.name, "tries": retry + 1}


@kopf.on.update(GROUP, VERSION, PLURAL, field="spec.title")
def retitled(name, namespace, spec, old, new, **_):
    core = kubernetes.client.CoreV1Api()
    core.patch_namespaced_config_map(f"{name}-page", namespace, {"data": {"title": new}})
    return {"was": old}


@kopf.on.delete(GROUP, VERSION, PLURAL)
def deleted(name, namespace, **_):
    core = kubernetes.client.CoreV1Api()
    body = {"metadata": {"name": f"{name}-closed"}}
    core.create_namespaced_config_map(namespace, body)


@kopf.on.event("configmaps", labels={"watched": "yes"})
def seen(name, namespace, body, patch, event, **_):
    if event["type"] != "DELETED" and "seen" not in body["metadata"].get("annotations", {}):
        patch.metadata.annotations["seen"] = "yes"
