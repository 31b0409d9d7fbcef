#!/usr/bin/env bash
# A day's work with the commands, as the README tells it: what is full, what would happen, what does. Wants KUBECTL,
# ALLOT and KUBECONFIG, and the repository's root for its examples.
source "$(dirname "$0")/lib.sh"
root=$1
k() { "$KUBECTL" "$@"; }
allot() { "$ALLOT" "$@"; }

eventually 'true' k get clusterprovider local -o 'jsonpath={.status.ready}'
k create namespace team-a >/dev/null

# Before asking: what would become of it.
says 'would create a Cluster from local/local' allot explain request --dry-run -n team-a --purpose workload --prefix shop-
says 'would be Denied: VersionNotOffered' allot explain request --dry-run -n team-a --purpose workload --version 1.99
says 'would create a Cluster from local/local' allot explain request build -n team-a --dry-run -f "$root/examples/request.yaml"
refuses 'NotFound' k get clusterrequest build -n team-a

# Asking.
says 'Granted' allot request shop -n team-a --purpose workload --prefix shop- --wait
says 'would be Granted on Cluster allot-clusters/workload-' allot explain request --dry-run -n team-a --purpose workload
says 'Cluster is ready' allot explain request shop -n team-a

# Looking around.
says '1/20' allot top clusters
says '1 request granted, 0 not' allot top requests
says 'local' allot top providers -o wide
says '"total": 1' allot top clusters -o json
says 'shop-' allot tree -n team-a

# What if.
says 'granted   50: 19 on Clusters that are there, 31 on new ones' allot simulate -n team-a --purpose workload --count 50
says '2 new Clusters' allot simulate -n team-a --purpose workload --count 50
k get purpose workload -o yaml | sed 's/maxTenants: 20/maxTenants: 50/' >bigger.yaml
says 'granted   50: 49 on Clusters that are there, 1 on new ones' allot simulate -n team-a --purpose workload --count 50 --purpose-file bigger.yaml
says 'NoReadyProvider' allot simulate -n team-a --purpose mcp --without-provider local
is '1' bash -c "'$KUBECTL' get clusterrequests -A -o name | wc -l | tr -d ' '"
echo "day: all checks passed"
