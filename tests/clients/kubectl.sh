#!/usr/bin/env bash
# What a person does with plain kubectl on the platform's own API. Wants KUBECTL and KUBECONFIG.
source "$(dirname "$0")/lib.sh"
k() { "$KUBECTL" "$@"; }

# Discovery, health, versions.
says 'configmaps' k api-resources
says 'clusterrequests' k api-resources --api-group cluster.openmcp.cloud
says 'cluster.openmcp.cloud/v1alpha1' k api-versions
says 'Server Version: ' k version
is 'ok' k get --raw /livez
says 'readyz check passed' k get --raw '/readyz?verbose'

# Namespaces come with what every namespace has.
says 'namespace/team created' k create namespace team
eventually 'default' k get serviceaccount -n team -o 'jsonpath={.items[*].metadata.name}'
eventually 'kube-root-ca.crt' k get configmap -n team -o 'jsonpath={.items[*].metadata.name}'
says 'Active' k describe namespace team
refuses 'AlreadyExists' k create namespace team
refuses 'NotFound' k get namespace nobody
says 'Active' k wait --for=jsonpath='{.status.phase}'=Active namespace/team --timeout=10s -o 'jsonpath={.status.phase}'

# ConfigMaps and Secrets: create, get in every form, describe, edit, patch, label, annotate.
says 'configmap/c created' k create configmap c -n team --from-literal=a=1 --from-literal=b=2
is '1' k get cm c -n team -o 'jsonpath={.data.a}'
says 'kind: ConfigMap' k get cm c -n team -o yaml
says '"kind": "ConfigMap"' k get cm c -n team -o json
is 'configmap/c' k get cm c -n team -o name
says 'DATA' k get cm -n team
says 'NAMESPACE' k get cm -A
says 'LABELS' k get cm -n team --show-labels
says 'a:' k describe cm c -n team
says 'configmap/c edited' env KUBE_EDITOR='sed -i s/\"1\"/\"11\"/' "$KUBECTL" edit cm c -n team
is '11' k get cm c -n team -o 'jsonpath={.data.a}'
says 'patched' k patch cm c -n team -p '{"data":{"a":"3"}}'
says 'patched' k patch cm c -n team --type merge -p '{"data":{"b":null}}'
says 'patched' k patch cm c -n team --type json -p '[{"op":"add","path":"/data/x","value":"y"}]'
is '{"a":"3","x":"y"}' k get cm c -n team -o 'jsonpath={.data}'
refuses 'is invalid' k patch cm c -n team --type json -p '[{"op":"replace","path":"/nothing/here","value":"y"}]'
says 'labeled' k label cm c -n team app=web tier=1
says 'c' k get cm -n team -l 'app=web,tier in (1,2)'
lacks ' c ' k get cm -n team -l 'app!=web'
says 'unlabeled' k label cm c -n team tier-
says 'annotate' k annotate cm c -n team note=hello
is 'hello' k get cm c -n team -o 'jsonpath={.metadata.annotations.note}'
is 'c' k get cm -n team --field-selector metadata.name=c -o 'jsonpath={.items[*].metadata.name}'
says 'secret/s created' k create secret generic s -n team --from-literal=password=x
is 'eA==' k get secret s -n team -o 'jsonpath={.data.password}'
says 'Opaque' k get secret s -n team
says 'replaced' k replace -f <(k get cm c -n team -o json)

# Apply from the client's side: create, change, take a field out, leave alone.
manifest() { printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied, namespace: team}\ndata:\n'; printf '  %s\n' "$@"; }
says 'configmap/applied created' k apply -f <(manifest 'a: "1"' 'b: "2"')
says 'configmap/applied unchanged' k apply -f <(manifest 'a: "1"' 'b: "2"')
says 'configmap/applied configured' k apply -f <(manifest 'a: "5"')
is '{"a":"5"}' k get cm applied -n team -o 'jsonpath={.data}'
says 'server dry run' k apply --dry-run=server -f <(manifest 'a: "6"')
is '{"a":"5"}' k get cm applied -n team -o 'jsonpath={.data}'

# Unknown fields: refused, told of or passed over, as asked.
bad='{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad","namespace":"team"},"dat":{}}'
refuses 'unknown field "dat"' k create --validate=strict -f - <<<"$bad"
refuses 'unknown field "dat"' k create --validate=true -f - <<<"$bad"
refuses 'unknown field "dat"' k create -f - <<<"$bad"
says 'Warning: unknown field "dat"' k create --validate=warn --dry-run=server -f - <<<"$bad"
lacks 'Warning' k create --validate=ignore --dry-run=server -f - <<<"$bad"
lacks 'Warning' k create --validate=false --dry-run=server -f - <<<"$bad"
refuses 'cannot unmarshal' k create -f - <<<'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad","namespace":"team"},"data":[]}'

# What would change: nothing, something, an object that is not there yet.
is '' k diff -f <(manifest 'a: "5"')
differs '+  a: "6"' k diff -f <(manifest 'a: "6"')
differs '+  name: new' k diff -f <(manifest 'a: "5"' | sed 's/name: applied/name: new/')
is '{"a":"5"}' k get cm applied -n team -o 'jsonpath={.data}'

# What kinds and fields mean.
says 'binaryData' k explain configmap
says '<map[string]string>' k explain cm.data
says 'FIELD: name <string>' k explain configmap.metadata.name
says 'blockOwnerDeletion' k explain configmap --recursive
says 'resourceNames' k explain roles.rules --api-version rbac.authorization.k8s.io/v1
says 'openAPIV3Schema' k explain crd.spec.versions --recursive
says 'GROUP:      cluster.openmcp.cloud' k explain clusterrequests
refuses 'field "nothing" does not exist' k explain configmap.nothing
refuses "the server doesn't have a resource type" k explain nothings

# Watches: an event arrives while watching.
coproc WATCH { exec "$KUBECTL" get cm -n team -w -o name; }
watch_pid=$WATCH_PID
read -r -t 20 _ <&"${WATCH[0]}" || fail 'the watch showed nothing'
says 'created' k create configmap seen -n team
seen=''
while read -r -t 20 seen <&"${WATCH[0]}"; do [[ $seen == configmap/seen ]] && break; done
kill "$watch_pid" 2>/dev/null || true
[[ $seen == configmap/seen ]] || fail "the watch did not show the new object: $seen"

# Wait for a deletion, delete by label, delete all of a kind.
says 'configmap "seen" deleted' k delete cm seen -n team
is '' k wait --for=delete cm/seen -n team --timeout=10s
k label cm applied -n team drop=me >/dev/null
says 'deleted' k delete cm -n team -l drop=me
refuses 'NotFound' k get cm applied -n team

# Definitions: a kind of one's own, at once.
k apply -f - >/dev/null <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        description: Something that is sold.
        required: [spec]
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, minimum: 1, default: 7, description: How large it is.}
              color: {type: string, enum: [red, blue]}
              port: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
YAML
says 'condition met' k wait --for=condition=Established crd/widgets.shop.example.com --timeout=10s
says 'created' k create -f - <<<'{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"team"},"spec":{"color":"red"}}'
is '7' k get wd w -n team -o 'jsonpath={.spec.size}'
says 'SIZE' k get widgets -n team
refuses 'Unsupported value: "green"' k patch wd w -n team --type merge -p '{"spec":{"color":"green"}}'
widget() { printf 'apiVersion: shop.example.com/v1\nkind: Widget\nmetadata: {name: %s, namespace: team}\nspec: %s\n' "$@"; }
refuses 'unknown field "spec.colour"' k create -f <(widget bad '{colour: red}')
says 'created' k create --dry-run=server -f <(widget good '{port: http, free: {any: [1]}}')
differs '+  size: 8' k diff -f <(widget w '{size: 8}')
says 'Something that is sold.' k explain widgets
says 'How large it is.' k explain widget.spec.size
says 'port' k explain wd --recursive --api-version shop.example.com/v1
refuses 'does not exist' k explain widget.spec.weight
says 'patched' k patch wd w -n team --subresource status --type merge -p '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
says 'condition met' k wait --for=condition=Ready wd/w -n team --timeout=10s
says 'deleted' k delete crd widgets.shop.example.com
refuses "the server doesn't have a resource type" k --cache-dir anew get widgets -n team

# Who may what.
says 'serviceaccount/bot created' k create serviceaccount bot -n team
says 'created' k create role reader -n team --verb=get,list,watch --resource=configmaps
says 'created' k create rolebinding reader -n team --role=reader --serviceaccount=team:bot
is 'yes' k auth can-i list configmaps -n team --as system:serviceaccount:team:bot
refuses 'no' k auth can-i create configmaps -n team --as system:serviceaccount:team:bot
says 'configmaps' k auth can-i --list -n team --as system:serviceaccount:team:bot
# kubectl 1.27 asks for it in a version that was given up before 1.36.
[[ $(k version --client -o json) == *'"minor": "27"'* ]] || says 'Username' k auth whoami
token=$(k create token bot -n team) || fail 'no token was created'
server=$(k config view --raw --minify -o 'jsonpath={.clusters[0].cluster.server}')
k config view --raw --minify -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}' | base64 -d >ca.crt
as_bot() { "$KUBECTL" --kubeconfig /dev/null --server "$server" --certificate-authority ca.crt --token "$token" "$@"; }
says 'configmap/c' as_bot get cm -n team -o name
refuses 'User "system:serviceaccount:team:bot" cannot create resource "configmaps"' as_bot create configmap no -n team
refuses 'Unauthorized' "$KUBECTL" --kubeconfig /dev/null --server "$server" --certificate-authority ca.crt --token nonsense get ns

# Events.
uid=$(k get cm c -n team -o 'jsonpath={.metadata.uid}')
k create -f - >/dev/null <<YAML
{"apiVersion":"v1","kind":"Event","metadata":{"name":"e.1","namespace":"team"},"involvedObject":{"kind":"ConfigMap","namespace":"team","name":"c","uid":"$uid","apiVersion":"v1"},"reason":"Tried","message":"it was tried","type":"Normal","source":{"component":"test"},"firstTimestamp":"2026-01-01T00:00:00Z","lastTimestamp":"2026-01-01T00:00:00Z","count":1}
YAML
says 'it was tried' k events -n team
says 'it was tried' k get events -n team --field-selector involvedObject.name=c
says 'it was tried' k describe cm c -n team

# A namespace goes with all that is in it.
says 'deleted' k delete namespace team --timeout=20s
refuses 'NotFound' k get cm c -n team
echo "kubectl: all checks passed"
