#!/bin/sh
# The demo on this repository itself: sh examples/any-repository/this-repository.sh [OPTIONS OF THE DEMO]
# A small function is asked for; one attempt writes it, one writes it wrong, one breaks the types. Uncommitted work in this
# clone belongs to the base and is not touched.
set -e
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
right='mkdir -p src/base && printf "%s\n" "/** The nearest number to value between low and high. Rules: none. */" "export const clamp = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value))" > src/base/Clamp.ts'
wrong='mkdir -p src/base && printf "%s\n" "export const clamp = (value: number, low: number, high: number): number => Math.max(high, Math.min(low, value))" > src/base/Clamp.ts'
untyped='mkdir -p src/base && printf "%s\n" "export const clamp = (value, low, high) => Math.min(high, Math.max(low, value))" > src/base/Clamp.ts'
# Held-out files must not lie in the source: every attempt would have them in its own tree.
held="${XDG_STATE_HOME:-$HOME/.local/state}/coppice/examples/this-repository"
rm -rf "$held" && mkdir -p "$held" && cp -R "$here/held-out/this/." "$held/"
exec npm run -s demo -- --repo . \
  --prepare 'npm ci --prefer-offline --no-audit --no-fund' \
  --attempt "$wrong" --attempt "$untyped" --attempt "$right" \
  --verify 'npm run -s types && npx vitest run test/base/clamp.test.ts' \
  --held-out "$held" "$@"
