#!/usr/bin/env bash
# The GPU run of record: collects, counts and calibrates in under nine minutes, and prints one table of answers.
#
#   scripts/gpu_acceptance.sh -o FOLDER [--device cuda|cpu] [--tiny] [--budget SECONDS] [--vendor FOLDER]
#   scripts/gpu_acceptance.sh --prepare FOLDER     # where there is a network: the small packages, for --vendor
#
# Everything is written below FOLDER. Nothing is downloaded in a run: PyTorch, pandas and pyarrow are the machine's own
# (PYTHON names its interpreter), and the small packages that it lacks come from --vendor.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}

if [ "${1:-}" = "--prepare" ]; then
  [ -n "${2:-}" ] || { echo "gpu_acceptance: --prepare needs a folder" >&2; exit 2; }
  # With what they need themselves, but for what every PyTorch machine has; the chart library alone is 80 MB and draws
  # only the HTML page, which can be made from the same folders elsewhere.
  exec "$python" -m pip install --quiet --target "$2" --no-deps \
    msgspec isal typer click rich pygments markdown-it-py mdurl shellingham typing-extensions annotated-doc jinja2 markupsafe pycxxfilt
fi

exec "$python" "$root/scripts/gpu_acceptance.py" "$@"
