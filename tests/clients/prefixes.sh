#!/usr/bin/env bash
# Tenants of one shared cluster keep to names with their prefix, with plain kubectl. Wants KUBECTL, ALLOT and KUBECONFIG.
source "$(dirname "$0")/lib.sh"
k() { "$KUBECTL" "$@"; }

eventually 'true' k get clusterprovider local -o 'jsonpath={.status.ready}'
# Two tenants, each with the rights to namespaces, roles and definitions.
for tenant in one two; do
  k create namespace "$tenant" >/dev/null
  k apply -f - >/dev/null <<YAML
apiVersion: cluster.openmcp.cloud/v1alpha1
kind: ClusterRequest
metadata: {name: shop, namespace: $tenant}
spec: {purposes: [workload], prefix: $tenant-}
---
apiVersion: cluster.openmcp.cloud/v1alpha1
kind: AccessRequest
metadata: {name: shop, namespace: $tenant}
spec:
  requestRef: {name: shop}
  permissions:
  - rules: [{apiGroups: ["", apiextensions.k8s.io], resources: [namespaces, customresourcedefinitions], verbs: [get, list, create, update, patch, delete]}]
YAML
done
for tenant in one two; do
  says 'condition met' k wait --for=condition=Ready clusterrequest/shop -n "$tenant" --timeout=20s
  eventually 'Granted' k get accessrequest shop -n "$tenant" -o 'jsonpath={.status.status}'
  is "$tenant-" k get clusterrequestgrant shop -n "$tenant" -o 'jsonpath={.spec.prefix}'
  "$ALLOT" access shop -n "$tenant" >"$tenant.kubeconfig" || fail 'allot access failed'
done
home=$(k get clusterrequestgrant shop -n one -o 'jsonpath={.spec.clusterRef.name}')
is "$home" k get clusterrequestgrant shop -n two -o 'jsonpath={.spec.clusterRef.name}'
# kubectl 1.27 looks for schemas without the path of the server, which a logical cluster has.
one() { "$KUBECTL" --kubeconfig one.kubeconfig "$@"; }
two() { "$KUBECTL" --kubeconfig two.kubeconfig "$@"; }

# Names with the prefix, and no others: made, changed, deleted, also as a dry run and by server-side apply.
says 'namespace/one-app created' one create namespace one-app
refuses 'have to begin with "one-"' one create namespace app
refuses 'have to begin with "one-"' one create namespace two-app
refuses 'have to begin with "one-"' one create namespace one
refuses 'have to begin with "one-"' one create namespace app --dry-run=server
refuses 'have to begin with "one-"' one apply --server-side --validate=false -f - <<<'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"app"}}'
says 'labeled' one label namespace one-app a=b
says 'namespace/two-app created' two create namespace two-app
refuses 'have to begin with "one-"' one label namespace two-app a=b
refuses 'have to begin with "one-"' one delete namespace two-app
refuses 'have to begin with "one-"' one delete namespace allot-access
says 'two-app' one get namespaces

# Definitions are of the whole cluster too.
definition() { printf '{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"%s","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}' "$1" "$1"; }
refuses 'have to begin with "one-"' one create --validate=false -f <(definition widgets)
says 'created' one create --validate=false -f <(definition one-widgets)

# A prefix that somebody has is not given again, and that is told before it is asked.
says 'would not be honored: Taken' k create --dry-run=server -f - <<<'{"apiVersion":"cluster.openmcp.cloud/v1alpha1","kind":"ClusterRequest","metadata":{"name":"late","namespace":"two"},"spec":{"purposes":["workload"],"prefix":"one-"}}'
"$ALLOT" request late -n two --purpose workload --prefix one- --wait >/dev/null 2>&1 || fail 'the request was not granted'
is 'False Taken' k get clusterrequest late -n two -o 'jsonpath={.status.conditions[?(@.type=="PrefixHonored")].status} {.status.conditions[?(@.type=="PrefixHonored")].reason}'

# One that is given back stays in quarantine while something bears it.
k delete clusterrequest shop -n one --timeout=20s >/dev/null
says 'one- is in quarantine' "$ALLOT" tree
says 'would not be honored: Quarantined' "$ALLOT" explain request --dry-run -n two --purpose workload --prefix one- -o text
echo "prefixes: all checks passed"
