#!/bin/sh
# Finds a Python from 3.10 to 3.13 and runs the set-up with it. A Python named by PYTHON is taken without a search.
script="$(dirname "$0")/bootstrap.py"

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    if ! "$PYTHON" -c '' >/dev/null 2>&1; then
        echo "set-up: PYTHON=$PYTHON cannot be run; name a Python from 3.10 to 3.13." >&2
        exit 1
    fi
    exec "$PYTHON" "$script" "$@"
fi
for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    if fits "$candidate"; then
        exec "$candidate" "$script" "$@"
    fi
done
if python3 -c '' >/dev/null 2>&1; then
    exec python3 "$script" "$@"   # says which version it is and which are needed
fi
echo "set-up: no Python was found; CoDA needs Python 3.10 to 3.13 (python3 on the PATH, or make PYTHON=...)." >&2
exit 1
