# Install packages of requirements-NAME.lock: `sh .ci/extra.sh NAME`.
#   bigcodebench             into .venv/share/parley: its pins replace ours for its programs alone, and every sandbox shows .venv to them
#   openhands, mini-swe-agent  into .agents/NAME, environments of their own, since no sandbox may show their packages to programs
#   any other name           into .venv
set -eu
name=$1
lock=requirements-$name.lock
echo "installing $(grep -c == "$lock") packages from $lock"

# Make .agents/NAME with the first of these versions of Python that is on this machine.
make_agent_environment() {
  python=$(.venv/bin/python -c 'import sys; from sandbox.host.python_environment import find_python
found = [python.path for python in map(find_python, sys.argv[1:]) if python]; print(*found[:1])' "$@")
  [ -n "$python" ] || {
    echo "$lock is for Python $1, which is not on this machine: put python$1 on the PATH, or build one with pyenv (pyenv install $1)" >&2
    exit 1
  }
  "$python" -m venv --clear ".agents/$name"
}

case $name in
bigcodebench) # three packages have no wheel
  .venv/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "$lock is for Python 3.11, and .venv has $(.venv/bin/python --version):" \
      "make clean && make install bigcodebench PYTHON=python3.11" >&2
    exit 1
  }
  target=.venv/share/parley/bigcodebench
  rm -rf $target
  sh .ci/packages.sh .venv/bin/python --no-deps --target $target --requirement "$lock"
  touch $target/.installed # sandboxes use the folder only with this file: a killed installation has none
  ;;
openhands | mini-swe-agent) # the lock's version of Python comes first
  case $name in openhands) make_agent_environment 3.12 3.13 ;; *) make_agent_environment 3.11 3.12 3.13 3.10 ;; esac
  sh .ci/packages.sh ".agents/$name/bin/python" --no-deps --requirement "$lock"
  ;;
*) # with dependencies, which the locks pin: PyTorch's build for GPUs needs more packages than the one for processors
  sh .ci/packages.sh .venv/bin/python --constraint requirements.lock --requirement "$lock"
  ;;
esac
touch ".venv/.$name"
