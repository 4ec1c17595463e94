"""``pixconnect face``: its output and its errors."""

import base64

from support.command_line import CommandLine


def test_a_face_says_where_it_is_and_how_libraries_are_told(pixconnect: CommandLine) -> None:
    holder_id = pixconnect.create_holder()
    faces = pixconnect.json("face", "list")["faces"]
    assert {"efi", "efi+homologation"} <= {face["face"] for face in faces}
    added = pixconnect.json("face", "add", "efi", "--holder-id", holder_id)
    assert added["url"].endswith("/faces/efi")
    assert added["client_secret"]
    shown = pixconnect.run("face", "show", "efi").stdout
    assert "from efipay import EfiPay" in shown
    assert "efi.above_limit" in shown
    assert pixconnect.json("face", "log", "efi") == {"exchanges": []}
    # Without a token request, the credentials are one text.
    woovi = pixconnect.json("face", "add", "woovi", "--holder-id", holder_id)
    told = base64.b64decode(woovi["app_id"]).decode()
    assert told == f"{woovi['client_id']}:{woovi['client_secret']}"
    assert "app_id" not in added


def test_an_unknown_face_is_refused_by_name(pixconnect: CommandLine) -> None:
    for words in (("show", "nobank"), ("log", "../x"), ("add", "nobank", "--holder-id", "1")):
        assert "there is no face" in pixconnect.refusal("face", *words)
