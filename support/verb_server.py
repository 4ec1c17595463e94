"""The process that ``support/verbs.py`` starts: it has imported every verb, and forks for each call."""

import importlib
import os
import pkgutil
import socket
import sys

import msgspec

from pixconnect import features, running
from pixconnect.assembly import operators
from pixconnect.doors import cli
from pixconnect.running.main import main
from support.verbs import MESSAGE_OCTETS_MAX, Wanted


def _serve(control: socket.socket) -> None:
    while True:
        message, files, _, _ = socket.recv_fds(control, MESSAGE_OCTETS_MAX, 3)
        if not message:
            return
        _forget_ended()
        if os.fork() == 0:
            control.close()
            _run_verb(msgspec.json.decode(message, type=Wanted), *files)
        for file in files:
            os.close(file)


def _forget_ended() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _run_verb(wanted: Wanted, out: int, err: int, status: int) -> None:
    os.set_inheritable(status, False)
    os.write(status, b"%d" % os.getpid())
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(wanted.environment)
    os.chdir(wanted.folder)
    sys.argv = ["pixconnect", *wanted.words]
    code: int = 1
    try:
        code = int(main(wanted.words))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:  # noqa: BLE001 - as a program would end
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(status, b"%d" % code)
        os._exit(code)


if __name__ == "__main__":
    assert operators
    for folder in (cli, features, running):
        for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
            importlib.import_module(module.name)
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _forget_ended()
