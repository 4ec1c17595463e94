#!/bin/sh
# PostgreSQL's image runs this once, on an empty volume: it creates the database and its logins, with passwords from the environment.
set -eu
sed -e "s/owner-password/$OWNER_PASSWORD/" -e "s/app-password/$APP_PASSWORD/" -e "s/ops-password/$OPS_PASSWORD/" \
    -e "s/console-password/$CONSOLE_PASSWORD/" -e "s/verify-password/$VERIFY_PASSWORD/" /logins.sql \
    | psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres
