#!/bin/sh
# Registers clusters with each other. Each argument is NAME=HOST:CLIENT_PORT,HOST:ADMIN_PORT. It can be run again.
# With TLS=yes the ports have TLS. PULSAR_CLIENT_CONF can name a client.conf with credentials.
set -eu

if [ -n "${TLS:-}" ]; then
    web=https binary=pulsar+ssl suffix=-secure
else
    web=http binary=pulsar suffix=
fi

for at in "$@"; do
    export MAGNETAR_ADMIN_URL="$web://${at##*,}"
    registered=$(magnetar clusters list)
    for cluster in "$@"; do
        name=${cluster%%=*}
        addresses=${cluster#*=}
        verb=create
        if printf '%s\n' "$registered" | grep -qxF "$name"; then verb=update; fi
        magnetar clusters "$verb" "$name" \
            "--url$suffix" "$web://${addresses##*,}" "--broker-url$suffix" "$binary://${addresses%%,*}"
    done
done
