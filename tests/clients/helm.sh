#!/usr/bin/env bash
# A chart's life with helm: install, upgrade, rollback, uninstall, with definitions, hooks and lookups.
# Wants HELM, KUBECTL and KUBECONFIG.
source "$(dirname "$0")/lib.sh"
chart=$(cd "$(dirname "$0")" && pwd)/chart
k() { "$KUBECTL" -n shop "$@"; }
h() { "$HELM" -n shop "$@"; }
value() { k get "$1" -o "jsonpath=$2"; }
export HELM_CACHE_HOME=$PWD/helm/cache HELM_CONFIG_HOME=$PWD/helm/config HELM_DATA_HOME=$PWD/helm/data

# Helm 4 applies on the server unless it is told not to, which helm 3 cannot be.
apply=()
[[ $("$HELM" version --short) == v3.* ]] || apply=(--server-side="${SERVER_SIDE:-true}")

says 'created' "$KUBECTL" create namespace other
is '' h list -q

# Install: what the chart's folder crds holds comes first, hooks around the rest, the namespace on request.
says 'web says hello' h install web "$chart" "${apply[@]}" --create-namespace --wait --timeout 60s
is 'web' h list -q
says 'deployed' h status web
is 'hello 1' value cm/web-config '{.data.greeting} {.data.revision}'
is '3 red' value widget/web '{.spec.size} {.spec.color}'
is '1' value cm/web-before '{.data.revision}'
refuses 'NotFound' k get cm web-after
says 'kind: RoleBinding' h get manifest web
says 'helm.sh/hook' h get hooks web
is 'Helm' value sa/web '{.metadata.labels.app\.kubernetes\.io/managed-by}'
is 'yes' k auth can-i list widgets.helm.example.com --as system:serviceaccount:shop:web
is 'true' value cm/web-config '{.data.widgets}'
password=$(value secret/web-secret '{.data.password}')
[[ -n $password ]] || fail 'the chart made no password'
refuses 'still in use' h install web "$chart"

# What lookup finds: the server is asked while templates are rendered, as a dry run on request.
says 'kind: Widget' h template web "$chart"
says "$password" h upgrade web "$chart" --dry-run=server

# Upgrade: changed values, an object that goes, a field that somebody else has set stays.
k label cm web-config owner=me >/dev/null
says 'web says again' h upgrade web "$chart" --set greeting=again,size=5,extra=false --wait --timeout 60s
is 'again 2' value cm/web-config '{.data.greeting} {.data.revision}'
is '5' value widget/web '{.spec.size}'
is '2' value cm/web-before '{.data.revision}'
is "$password" value secret/web-secret '{.data.password}'
is 'me' value cm/web-config '{.metadata.labels.owner}'
refuses 'NotFound' k get cm web-extra

# An upgrade that the server refuses says why and leaves what there was.
refuses 'spec.size' h upgrade web "$chart" --set size=99
is '5' value widget/web '{.spec.size}'
says 'failed' h history web

# Rollback to the first revision: the object that went is back.
says 'Rollback was a success' h rollback web 1 --wait --timeout 60s
is 'hello 1' value cm/web-config '{.data.greeting} {.data.revision}'
is '3' value widget/web '{.spec.size}'
says 'configmap/web-extra' k get cm web-extra -o name
says 'Rollback to 1' h history web

# The same release by upgrade --install, and one that is undone when it fails.
says 'upgraded' h upgrade --install web "$chart" --reuse-values --description upgraded
says 'STATUS: deployed' h upgrade --install second "$chart" "${apply[@]}" --set size=4
is $'second\nweb' h list -q

# Uninstall: everything of the release goes, what was in crds stays.
says 'uninstalled' h uninstall second --wait --timeout 60s
says 'uninstalled' h uninstall web --wait --timeout 60s
is '' h list -q
refuses 'not found' h status web
refuses 'NotFound' k get widget web
refuses 'NotFound' k get cm web-config
says 'widgets.helm.example.com' "$KUBECTL" get crd -o name
echo "helm: all checks passed"
