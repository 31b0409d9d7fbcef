# Checks for scripts of real clients. Sourced; every check names what it saw when it fails.
set -euo pipefail

fail() { echo "FAILED: $*" >&2; exit 1; }

# says EXPECTED COMMAND…: the command succeeds and its output contains EXPECTED.
says() {
  local expected=$1 output; shift
  output=$("$@" 2>&1) || fail "'$*' ended with $?: $output"
  [[ $output == *"$expected"* ]] || fail "'$*' did not say '$expected' but: $output"
}

# is EXPECTED COMMAND…: the command succeeds and prints exactly EXPECTED.
is() {
  local expected=$1 output; shift
  output=$("$@") || fail "'$*' ended with $?: $output"
  [[ $output == "$expected" ]] || fail "'$*' printed '$output', not '$expected'"
}

# refuses EXPECTED COMMAND…: the command fails and its output contains EXPECTED.
refuses() {
  local expected=$1 output; shift
  if output=$("$@" 2>&1); then fail "'$*' succeeded: $output"; fi
  [[ $output == *"$expected"* ]] || fail "'$*' did not say '$expected' but: $output"
}

# differs EXPECTED COMMAND…: the command ends with 1, as diff does, and its output contains EXPECTED.
differs() {
  local expected=$1 output code=0; shift
  output=$("$@" 2>&1) || code=$?
  ((code == 1)) || fail "'$*' ended with $code: $output"
  [[ $output == *"$expected"* ]] || fail "'$*' did not say '$expected' but: $output"
}

# lacks UNEXPECTED COMMAND…: the command succeeds and its output does not contain UNEXPECTED.
lacks() {
  local unexpected=$1 output; shift
  output=$("$@" 2>&1) || fail "'$*' ended with $?: $output"
  [[ $output != *"$unexpected"* ]] || fail "'$*' said '$unexpected': $output"
}

# eventually EXPECTED COMMAND…: within 20 seconds the command prints exactly EXPECTED.
eventually() {
  local expected=$1 output='' end=$((SECONDS + 20)); shift
  while ((SECONDS < end)); do
    output=$("$@" 2>&1) && [[ $output == "$expected" ]] && return
    sleep 0.05
  done
  fail "'$*' did not come to print '$expected'; last: $output"
}
