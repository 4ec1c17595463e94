"""Completion in a shell: the shell itself reads the script."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pixconnect.running.main import main


@pytest.mark.parametrize(
    ("shell", "check"),
    [
        ("bash", "-n"),
        pytest.param("zsh", "-n", marks=pytest.mark.long),
        pytest.param("fish", "--no-execute", marks=pytest.mark.long),
    ],
)
def test_the_shell_reads_its_script(shell: str, check: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    assert "pixconnect" in script.read_text()
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([program, check, str(script)], check=True)


def test_bash_completes_verbs_and_their_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    ask = f"""
        source {script}
        for words in 'pixconnect char' 'pixconnect charge cre' 'pixconnect listen --forw'; do
            COMP_WORDS=($words) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMP_LINE=$words COMP_POINT=${{#words}}
            COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            COMPREPLY=()
            _pixconnect
            echo ${{COMPREPLY[@]}}
        done
    """
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["charge", "create", "--forward-to"]
