# Functions of a shell that runs the service by hand: . /opt/pixconnect/deploy/parts.sh
export PIXCONNECT_SECRET_KEY_FILE=/etc/pixconnect/secret.key PIXCONNECT_HOME=/var/lib/pixconnect
PROGRAM=/opt/pixconnect

# A verb with the settings in service.env and one more file of /etc/pixconnect: as operators migrate
as() { (set -a; . /etc/pixconnect/service.env; . "/etc/pixconnect/$1.env"; shift; exec "$PROGRAM/.venv/bin/pixconnect" "$@"); }

# The parts of the service in the background, in place of those that an earlier start began. Returns when the API is ready.
start() {
    stop
    if (. /etc/pixconnect/service.env; [ "$PIXCONNECT_MODE" = sandbox ]); then _start sandbox; fi
    _start serve PORT=8081 PIXCONNECT_METRICS_PORT=9181
    _start work PIXCONNECT_METRICS_PORT=9191
    _start console PIXCONNECT_CONSOLE_PORT=9080
    tries=0
    until curl -fs http://127.0.0.1:8081/readyz; do
        tries=$((tries + 1)); [ $tries -lt 60 ] || { echo "not ready: see /var/log/pixconnect-*.log" >&2; return 1; }
        sleep 1
    done
    for pid in $(cat /run/pixconnect.pids); do
        _runs "$pid" || { echo "a part has ended: see /var/log/pixconnect-*.log" >&2; return 1; }
    done
}

# Ends the parts, and returns when all have ended.
stop() {
    for pid in $(cat /run/pixconnect.pids 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
    for pid in $(cat /run/pixconnect.pids 2>/dev/null); do while _runs "$pid"; do sleep 0.2; done; done
    : > /run/pixconnect.pids
}

_start() {
    (set -a; . /etc/pixconnect/service.env; part=$1; shift
        if [ "$part" = console ]; then . /etc/pixconnect/console.env; fi
        exec env "$@" "$PROGRAM/.venv/bin/pixconnect" "$part") >> "/var/log/pixconnect-$1.log" 2>&1 & echo $! >> /run/pixconnect.pids
}

_runs() { ps -o stat= -p "$1" | grep -q '^[^Z]'; }

# A dump of the database that only this user reads: dump FILE. An earlier dump stays until the new one is whole.
dump() {
    (umask 077; . /etc/pixconnect/operators.env
        pg_dump --format=custom --file="$1.new" "$PIXCONNECT_OWNER_DATABASE_URL" && mv "$1.new" "$1")
}
