#!/usr/bin/env bash
# Converges the quickstart in a scratch directory, twice, shows the graph, and takes it all back. Needs no root and no server.
set -euo pipefail
zester=$(realpath "${1:?usage: try.sh ZESTER}")
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$here/settings.yaml" "$scratch/settings.yaml"
echo "root: $scratch/machine" >> "$scratch/settings.yaml"
mkdir "$scratch/machine"
cd "$here"
common=(quickstart --settings "$scratch/settings.yaml" --data-dir "$scratch/data")

say() { printf '\n\033[1m$ zester %s\033[0m\n' "$*"; }
say check quickstart;         "$zester" check  "${common[@]}"
say apply quickstart;         "$zester" apply  "${common[@]}"
say apply quickstart "(again: nothing to do)"; "$zester" apply "${common[@]}"
say graph quickstart;         "$zester" graph quickstart --settings "$scratch/settings.yaml"
say revert quickstart;        "$zester" revert "${common[@]}"
echo
echo "Next: read $(realpath --relative-to="$OLDPWD" "$here")/states/quickstart.zy, or try"
echo "  zester graph quickstart --format html > graph.html      a picture of it"
echo "  zester doc file.managed                                 the built-in reference"
