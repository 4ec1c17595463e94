# Functions of a shell that runs the service by hand: . /opt/pixconnect/deploy/parts.sh
export PIXCONNECT_SECRET_KEY_FILE=/etc/pixconnect/secret.key PIXCONNECT_HOME=/var/lib/pixconnect

# A verb with the settings in service.env and one more file of /etc/pixconnect: as operators migrate
as() { (set -a; . /etc/pixconnect/service.env; . "/etc/pixconnect/$1.env"; shift; exec /opt/pixconnect/.venv/bin/pixconnect "$@"); }

# The parts of the service in the background, with their process ids in PARTS. Returns when the API is ready.
start() {
    PARTS=
    if (. /etc/pixconnect/service.env; [ "$PIXCONNECT_MODE" = sandbox ]); then _start sandbox; fi
    _start serve PORT=8081 PIXCONNECT_METRICS_PORT=9181
    _start work PIXCONNECT_METRICS_PORT=9191
    _start console PIXCONNECT_CONSOLE_PORT=9080
    curl -fsS --retry 60 --retry-all-errors --retry-delay 1 http://127.0.0.1:8081/readyz
}

_start() {
    (set -a; . /etc/pixconnect/service.env; part=$1; shift
        if [ "$part" = console ]; then . /etc/pixconnect/console.env; fi
        exec env "$@" /opt/pixconnect/.venv/bin/pixconnect "$part") > "/var/log/pixconnect-$1.log" 2>&1 & PARTS="$PARTS $!"
}

# A dump of the database that only this user reads: dump FILE. An earlier dump stays until the new one is whole.
dump() {
    (umask 077; . /etc/pixconnect/operators.env
        pg_dump --format=custom --file="$1.new" "$PIXCONNECT_OWNER_DATABASE_URL" && mv "$1.new" "$1")
}
