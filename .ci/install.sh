# Make .venv from requirements.lock, with Parley itself in it (editable). PYTHON names the interpreter.
set -eu
export PIP_DISABLE_PIP_VERSION_CHECK=1
PYTHON=${PYTHON:-python3}
python=.venv/bin/python
# Present from the first pip command to the last. Where it is found, an installation was killed half-way.
installing=.venv/.installing
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Parley needs Python 3.11 or newer; '$PYTHON' is $("$PYTHON" --version 2>&1). Name another: make install PYTHON=python3.12" >&2
  exit 1
}
if [ -e $installing ] || ! $python -m pip --version >/dev/null 2>&1; then
  echo "making .venv with $("$PYTHON" --version)"
  "$PYTHON" -m venv --clear --without-pip .venv
  touch $installing
  $python -m ensurepip --default-pip >/dev/null || {
    echo "'$PYTHON' has no ensurepip: install your system's venv package (Debian and Ubuntu: apt-get install python3-venv)" >&2
    exit 1
  }
fi
touch $installing
echo "installing $(grep -c == requirements.lock) packages from requirements.lock"
command -v uv >/dev/null || [ -x .venv/.uv/bin/uv ] ||
  $python -m pip install -qq --only-binary :all: --target .venv/.uv uv >/dev/null 2>&1 || true
sh .ci/packages.sh $python --no-deps --requirement requirements.lock
sh .ci/packages.sh $python --no-deps --no-build-isolation --editable .
rm -f $installing
touch .venv/.installed
