# Take the README's picture again: `PARLEY_HOME=… sh .ci/screenshot.sh` photographs the site of that home, after `make demo`.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
.venv/bin/parley site --out "$folder" >/dev/null
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,680 \
  --screenshot="$folder/site.png" "file://$folder/index.html" >/dev/null 2>&1
mkdir -p docs/images
mv "$folder/site.png" docs/images/site.png
[ "$(wc -c <docs/images/site.png)" -le 200000 ] || { echo "docs/images/site.png has more than 200 kB: take a smaller window" >&2; exit 1; }
