#!/usr/bin/env bash
# The main job with plain kubectl: ask for a cluster, get a kubeconfig that works, and no more access
# than asked for. Wants KUBECTL, ALLOT and KUBECONFIG.
source "$(dirname "$0")/lib.sh"
k() { "$KUBECTL" "$@"; }

is 'mcp onboarding platform workload' k get purposes -o 'jsonpath={.items[*].metadata.name}'
eventually 'true' k get clusterprovider local -o 'jsonpath={.status.ready}'
k create namespace bar >/dev/null

# A shared cluster, with the prefix proposed.
k apply -f - >/dev/null <<'YAML'
apiVersion: cluster.openmcp.cloud/v1alpha1
kind: ClusterRequest
metadata:
  name: foo
  namespace: bar
spec:
  kubernetes:
    version: "1.30"
  dedicated: false
  purposes:
  - platform
  - onboarding
  traits:
  - trait: foo/bar/baz
    optional: true
    negated: false
  prefix: foo-
YAML
says 'condition met' k wait --for=condition=Ready clusterrequest/foo -n bar --timeout=20s
is 'Granted Success Cluster is ready' k get clusterrequest foo -n bar -o 'jsonpath={.status.status} {.status.reason} {.status.message}'
is 'foo-' k get clusterrequestgrant foo -n bar -o 'jsonpath={.spec.prefix}'
is 'allot-clusters' k get clusterrequestgrant foo -n bar -o 'jsonpath={.spec.clusterRef.namespace}'
is 'ClusterRequest' k get clusterrequestgrant foo -n bar -o 'jsonpath={.metadata.ownerReferences[0].kind}'

# Access, scoped exactly.
k apply -f - >/dev/null <<'YAML'
apiVersion: cluster.openmcp.cloud/v1
kind: AccessRequest
metadata: {name: foo, namespace: bar}
spec:
  requestRef: {name: foo}
  permissions:
  - rules: [{apiGroups: [""], resources: [namespaces], verbs: [get, list]}]
YAML
eventually 'Granted' k get accessrequest foo -n bar -o 'jsonpath={.status.status}'
secret=$(k get accessrequest foo -n bar -o 'jsonpath={.status.access.secretRef.name}')
k get secret "$secret" -n bar -o 'jsonpath={.data.kubeconfig}' | base64 -d >granted
g() { "$KUBECTL" --kubeconfig granted "$@"; }
says 'kube-system' g get namespaces
refuses 'forbidden' g create namespace foo-a
refuses 'forbidden' g get secrets -A
says 'v1.30.' g version
is 'yes' g auth can-i list namespaces
refuses 'no' g auth can-i delete namespaces

# The same through the command.
"$ALLOT" access foo -n bar >from-command || fail 'allot access failed'
says 'kube-system' "$KUBECTL" --kubeconfig from-command get namespaces
says 'Granted' "$ALLOT" explain request foo -n bar

# What cannot be is denied, with a reason and what would change it.
k apply -f - >/dev/null <<'YAML'
apiVersion: cluster.openmcp.cloud/v1alpha1
kind: ClusterRequest
metadata: {name: odd, namespace: bar}
spec: {purposes: [workload], traits: [{trait: no/such/trait}]}
YAML
eventually 'Denied NoProfileWithTrait' k get clusterrequest odd -n bar -o 'jsonpath={.status.status} {.status.reason}'
says 'no/such/trait' "$ALLOT" explain request odd -n bar
k apply -f - >/dev/null <<'YAML'
apiVersion: cluster.openmcp.cloud/v1alpha1
kind: ClusterRequest
metadata: {name: lost, namespace: bar}
spec: {purposes: [nobody-made-this]}
YAML
eventually 'Denied UnknownPurpose' k get clusterrequest lost -n bar -o 'jsonpath={.status.status} {.status.reason}'
refuses 'spec.prefix' k create -f - <<<'{"apiVersion":"cluster.openmcp.cloud/v1alpha1","kind":"ClusterRequest","metadata":{"name":"p","namespace":"bar"},"spec":{"purposes":["workload"],"prefix":"No"}}'

# Taking access away takes it away: the old token is no longer known.
k delete accessrequest foo -n bar --timeout=20s >/dev/null
refuses 'NotFound' k get secret "$secret" -n bar
refuses 'Unauthorized' g get namespaces

# A dedicated cluster of one's own, by the command alone.
"$ALLOT" request own -n bar --purpose mcp --wait >own.txt 2>&1 || fail "allot request: $(cat own.txt)"
is 'true' k get clusterrequestgrant own -n bar -o 'jsonpath={.spec.resolved.dedicated}'
says 'own' "$ALLOT" tree
k delete clusterrequest --all -n bar --timeout=20s >/dev/null
refuses 'NotFound' k get clusterrequestgrant own -n bar
echo "tour: all checks passed"
