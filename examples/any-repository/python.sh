#!/bin/sh
# A repository with a Python virtualenv, and the demo on it: sh examples/any-repository/python.sh DIR [OPTIONS OF THE DEMO]
# DIR is made; it must not lie inside this repository. Needs python3 with the module venv (Debian: python3-venv).
set -e
here=$(cd "$(dirname "$0")" && pwd)
[ -n "$1" ] || { echo "Give a directory to make the repository in." >&2; exit 2; }
mkdir -p "$1"
repo=$(cd "$1" && pwd)
shift
if [ ! -e "$repo/.git" ]; then
  mkdir -p "$repo/src/ledger" "$repo/tests"
  printf '.venv/\n__pycache__/\n' > "$repo/.gitignore"
  cat > "$repo/src/ledger/__init__.py" <<'PY'
"""Sums of money in cents."""


def split(total: int, people: int) -> list[int]:
    """Splits a sum between people. Every cent is given to somebody."""
    return [total // people] * people
PY
  cat > "$repo/tests/test_split.py" <<'PY'
import unittest

from ledger import split


class Split(unittest.TestCase):
    def test_even(self):
        self.assertEqual(split(300, 3), [100, 100, 100])

    def test_no_cent_is_lost(self):
        self.assertEqual(sum(split(100, 3)), 100)
PY
  git -C "$repo" init -q -b main
  git -C "$repo" add -A
  git -C "$repo" -c user.name=example -c user.email=example@example.invalid commit -qm 'A ledger that loses cents'
fi
# The virtualenv names this very path in its scripts and in the link to src: every attempt sees it at the same path.
prepare='python3 -m venv .venv && echo "$PWD/src" > "$(echo .venv/lib/python*/site-packages)/ledger.pth"'
right='sed -i "s|    return .*|    share, rest = divmod(total, people)\n    return [share + 1] * rest + [share] * (people - rest)|" src/ledger/__init__.py'
last='sed -i "s|return .*|return [total // people] * (people - 1) + [total - total // people * (people - 1)]|" src/ledger/__init__.py'
skip='sed -i "/no_cent_is_lost/,\$d" tests/test_split.py'
cd "$here/../.."
exec npm run -s demo -- --repo "$repo" --prepare "$prepare" \
  --attempt "$skip" --attempt "$last" --attempt "$right && .venv/bin/python -m unittest discover -s tests" \
  --verify '.venv/bin/python -m unittest discover -s tests' \
  --held-out "$here/held-out/python" "$@"
