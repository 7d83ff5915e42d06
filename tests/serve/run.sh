#!/usr/bin/env bash
# tests/serve/run.sh BIN [--soak MINUTES]: the server in BIN against the openai package, the same requests alone and in
# company, or with --soak a mixed load for so long. ./course serve --test builds what is needed and calls it.
set -euo pipefail
SERVE_BIN=$(realpath "$1")
export SERVE_BIN
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
if [ "${1:-}" = --soak ]; then
  exec node soak.mjs "${2:-30}"
fi
exec node --test client.test.mjs equal.test.mjs page.test.mjs
