# Install packages into the environment of a Python: `sh .ci/packages.sh PYTHON ARGUMENTS-OF-PIP-INSTALL…`.
# uv does it where it is present and heeds pip's configuration (.ci/pip_settings.py), in seconds. Else pip does, in minutes.
set -eu
export PIP_DISABLE_PIP_VERSION_CHECK=1
python=$1
shift
uv=$(command -v uv || echo .venv/.uv/bin/uv)
if [ -x "$uv" ] && settings=$(.venv/bin/python .ci/pip_settings.py); then
  (eval "$settings" && UV_PYTHON=$python UV_COMPILE_BYTECODE=1 "$uv" pip install --quiet "$@") && exit 0
  echo "uv could not; pip does it, which takes minutes" >&2
fi
exec "$python" -m pip install -qq "$@"
