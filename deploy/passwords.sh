#!/bin/sh
# Prints the .env of compose.yaml: passwords and the secret key, new each time.
#   umask 077; test -e deploy/.env || deploy/passwords.sh > deploy/.env
set -eu
for login in SUPERUSER OWNER APP OPS CONSOLE VERIFY; do
    printf '%s_PASSWORD=%s\n' "$login" "$(od -An -N18 -tx1 /dev/urandom | tr -d ' \n')"
done
printf 'SECRET_KEY=%s\n' "$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')"
