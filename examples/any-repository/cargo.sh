#!/bin/sh
# A Cargo workspace without external crates, and the demo on it: sh examples/any-repository/cargo.sh DIR [OPTIONS OF THE DEMO]
# DIR is made; it must not lie inside this repository. Needs cargo (Debian: cargo).
set -e
here=$(cd "$(dirname "$0")" && pwd)
[ -n "$1" ] || { echo "Give a directory to make the repository in." >&2; exit 2; }
mkdir -p "$1"
repo=$(cd "$1" && pwd)
shift
if [ ! -e "$repo/.git" ]; then
  mkdir -p "$repo/shapes/src" "$repo/shapes/tests" "$repo/report/src"
  printf 'target/\n' > "$repo/.gitignore"
  printf '[workspace]\nmembers = ["shapes", "report"]\nresolver = "2"\n' > "$repo/Cargo.toml"
  printf '[package]\nname = "shapes"\nversion = "0.1.0"\nedition = "2021"\n' > "$repo/shapes/Cargo.toml"
  printf '[package]\nname = "report"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\nshapes = { path = "../shapes" }\n' > "$repo/report/Cargo.toml"
  cat > "$repo/shapes/src/lib.rs" <<'RS'
/// The overlap of two half-open ranges, if there is any.
pub fn overlap(a: (u32, u32), b: (u32, u32)) -> Option<(u32, u32)> {
    let start = a.0.max(b.0);
    let end = a.1.min(b.1);
    if start <= end { Some((start, end)) } else { None }
}
RS
  cat > "$repo/shapes/tests/overlap.rs" <<'RS'
use shapes::overlap;

#[test]
fn ranges_that_only_touch_do_not_overlap() {
    assert_eq!(overlap((0, 5), (5, 9)), None);
    assert_eq!(overlap((0, 5), (3, 9)), Some((3, 5)));
}
RS
  printf 'fn main() {\n    println!("{:?}", shapes::overlap((0, 5), (3, 9)));\n}\n' > "$repo/report/src/main.rs"
  git -C "$repo" init -q -b main
  (cd "$repo" && cargo generate-lockfile --offline)
  git -C "$repo" add -A
  git -C "$repo" -c user.name=example -c user.email=example@example.invalid commit -qm 'Ranges that touch'
fi
right='sed -i "s/start <= end/start < end/" shapes/src/lib.rs'
cd "$here/../.."
exec npm run -s demo -- --repo "$repo" --prepare 'cargo build --offline --workspace' \
  --attempt 'sed -i "s/start <= end/start + 1 < end/" shapes/src/lib.rs' \
  --attempt 'sed -i "s/pub fn overlap/fn overlap/" shapes/src/lib.rs' \
  --attempt "$right && cargo test --offline --workspace -q" \
  --verify 'cargo test --offline --workspace -q' \
  --held-out "$here/held-out/cargo" "$@"
