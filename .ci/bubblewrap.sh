# Install what the sandbox needs with the system's package manager, where it is missing and allowed.
set -eu
missing=
for tool in bwrap setpriv prlimit; do command -v $tool >/dev/null 2>&1 || missing="$missing $tool"; done
"${PYTHON:-python3}" -c 'import ctypes; ctypes.CDLL("libseccomp.so.2")' >/dev/null 2>&1 || missing="$missing libseccomp"
[ -n "$missing" ] || exit 0
if [ "$(uname -s)" != Linux ]; then
  echo "bubblewrap exists for Linux only; on $(uname -s) install Docker and see sandbox/images/README.md," \
    "or run Parley in a Linux virtual machine" >&2
  exit 1
fi
update=true
packages='bubblewrap libseccomp util-linux'
if command -v apt-get >/dev/null 2>&1; then
  update='apt-get update -q' add='apt-get install -q -y --no-install-recommends bubblewrap libseccomp2 util-linux'
elif command -v dnf >/dev/null 2>&1; then
  add="dnf install -q -y $packages"
elif command -v pacman >/dev/null 2>&1; then
  update='pacman -Sy --noconfirm' add="pacman -S --noconfirm --needed $packages"
elif command -v apk >/dev/null 2>&1; then
  update='apk update -q' add="apk add -q $packages setpriv"
elif command -v zypper >/dev/null 2>&1; then
  add='zypper --non-interactive --quiet install bubblewrap libseccomp2 util-linux'
else
  echo "the sandbox needs$missing, and no known package manager was found: install bubblewrap, libseccomp and util-linux by hand" >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  as_root='env DEBIAN_FRONTEND=noninteractive'
elif sudo -n true >/dev/null 2>&1; then
  as_root='sudo -n env DEBIAN_FRONTEND=noninteractive'
else
  echo "the sandbox needs$missing; install it with:  sudo $add" >&2
  exit 1
fi
echo "the sandbox needs$missing; installing: $add"
{ $as_root $add </dev/null || { $as_root $update </dev/null && $as_root $add </dev/null; }; } && command -v bwrap >/dev/null 2>&1 || {
  echo "that failed; try it by hand:  sudo $add" >&2
  exit 1
}
