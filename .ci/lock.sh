# Write the locks from what is installed in .venv, after an upgrade that passed the tests.
set -eu
[ -e .venv/.installed ] || { echo "there is no whole .venv to lock: make install" >&2; exit 1; }
frozen=.venv/frozen apart=.venv/apart
extras="embeddings inspect docs telemetry"
.venv/bin/python -m pip freeze --exclude-editable --exclude parley-eval --exclude pip --exclude setuptools >$frozen
for extra in $extras; do sed -n 's/^\([^#=]*\)==.*/^\1==/p' "requirements-$extra.lock"; done >$apart
{ sed '/^#/!d' requirements.lock; grep -vif $apart $frozen; } >requirements.lock.new
mv requirements.lock.new requirements.lock
for extra in $extras; do
  [ -e ".venv/.$extra" ] || continue
  lock=requirements-$extra.lock
  sed -n 's/^\([^#=]*\)==.*/^\1==/p' "$lock" >$apart
  { sed '/^#/!d' "$lock"; grep -if $apart $frozen | sed 's/+.*//'; } >.venv/new
  mv .venv/new "$lock"
done
grep -c == requirements*.lock
