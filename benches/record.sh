#!/usr/bin/env bash
# Runs every bench and writes the medians to benches/baseline.md, for the next one to compare with. Arguments go to
# criterion (for example: --measurement-time 1).
set -euo pipefail
cd "$(dirname "$0")/.."
out=benches/baseline.md
{
  echo "# Baseline"
  echo
  echo "Criterion medians of \`benches/record.sh${*:+ $*}\` on $(nproc) cores of $(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo),"
  echo "Linux $(uname -r | cut -d. -f1-2), $(rustc --version | cut -d' ' -f1-2), a shared virtual machine: differences below 10% mean nothing."
  echo
  echo "| bench | low | median | high |"
  echo "|---|---|---|---|"
  for bench in wire snapshot world server; do
    cargo bench --bench "$bench" -- "$@" 2>/dev/null | awk '
      # The name stands before its time, or on the line above when it is long.
      # A change against the run before is given in percent: not a time.
      /time: +\[/ && !/%/ {
        name = $0; sub(/ *time: .*/, "", name)
        if (name == "") name = before
        if (name != "" && !seen[name]++) {
          match($0, /\[.*\]/); split(substr($0, RSTART + 1, RLENGTH - 2), t, " ")
          printf "| %s | %s %s | %s %s | %s %s |\n", name, t[1], t[2], t[3], t[4], t[5], t[6]
        }
      }
      !/^Benchmarking|^Found|^ / { before = $0 }'
  done
} > "$out"
echo "wrote $out"
