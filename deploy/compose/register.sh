#!/bin/sh
# Registers clusters with each other. Each argument is NAME=HOST:CLIENT_PORT,HOST:ADMIN_PORT. It can be run again.
set -eu

for at in "$@"; do
    export MAGNETAR_ADMIN_URL="http://${at##*,}"
    registered=$(magnetar clusters list)
    for cluster in "$@"; do
        name=${cluster%%=*}
        addresses=${cluster#*=}
        verb=create
        if printf '%s\n' "$registered" | grep -qxF "$name"; then verb=update; fi
        magnetar clusters "$verb" "$name" --url "http://${addresses##*,}" --broker-url "pulsar://${addresses%%,*}"
    done
done
