#!/bin/sh
# Usage: scripts/setup.sh [LOCKFILE] [--extra NAME]...
# Finds a Python that is new enough and lets scripts/setup.py install LOCKFILE into .venv.
# HERMES_PYTHON names the interpreter to use instead of the first one found.
set -eu

root=$(CDPATH='' cd -P -- "$(dirname "$0")/.." && pwd)

# Prints the real path of interpreter $1, so that a later change of `python3` or of a version
# manager's shim does not change the environment; fails when it does not run or is too old.
probe='
import os, sys
if sys.version_info < (3, 11):
    sys.exit(1)
print(os.path.realpath(sys.executable))
'
usable() {
    command -v "$1" >/dev/null 2>&1 && "$1" -I -c "$probe" 2>/dev/null
}

python=''
seen=''
if [ -n "${HERMES_PYTHON:-}" ]; then
    python=$(usable "$HERMES_PYTHON") || {
        echo "hermes: HERMES_PYTHON is '$HERMES_PYTHON', which is not a Python 3.11 or newer; unset it or name another one" >&2
        exit 1
    }
else
    # An environment keeps the interpreter it was made with as long as that one works.
    for name in "$root/.venv/bin/python" python3.14 python3.13 python3.12 python3.11 python3 python; do
        if python=$(usable "$name"); then
            break
        fi
        if version=$("$name" -V 2>&1); then
            seen="$seen${seen:+, }$name is $version"
        fi
    done
fi

if [ -z "$python" ]; then
    echo "hermes: Python 3.11 or newer is needed (${seen:-no Python found}); install it (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python) or set HERMES_PYTHON to its path" >&2
    exit 1
fi
exec "$python" -I "$root/scripts/setup.py" "$@"
