#!/usr/bin/env bash
# bridge.sh BINARY BOOTSTRAP IN OUT INTERVAL_MS MAP ID: writes a configuration and becomes the bridge. It is the
# command line for harnesses that copy one topic to another with several systems; MAP is identity or headers.
set -euo pipefail
binary=$1 bootstrap=$2 in=$3 out=$4 interval=$5 map=$6 id=$7
dir=$(mktemp -d)
case $map in
identity) maps= ;;
headers) maps='map "headers" { set = { "x-origin" = "bench" } }' ;;
*) echo "unknown map $map" >&2; exit 2 ;;
esac
cat >"$dir/bridge.hcl" <<HCL
bridge "bench-$id" {
  semantic = "EXACTLY_ONCE"
  source "in" {
    brokers = ["$bootstrap"]
    topics  = ["$in"]
  }
  $maps
  sink "out" {
    brokers             = ["$bootstrap"]
    topic               = "$out"
    transaction_timeout = "1m"
  }
  checkpoint {
    path     = "$dir/state"
    interval = "${interval}ms"
  }
}
server { listen = "" }
HCL
exec "$binary" run -c "$dir/bridge.hcl"
