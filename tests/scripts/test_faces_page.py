"""What recordings of institutions say on the page of faces, and that recordings of our own faces say nothing there."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import structs

from pixconnect.api.faces.frame import Face, list_rows_of_profile
from pixconnect.domain.institutions.recording import RecordedExchange, RehearsalRecording
from pixconnect.domain.profiles.profile import read_profile
from scripts.pages.faces import find_known, read_recordings

SEEN = RehearsalRecording(
    kind="standard",
    profile="sicredi",
    environment="homologation",
    options=(),
    made_at=datetime(2027, 1, 31, tzinfo=UTC),
    key="key0@pix.example",
    txid="a" * 32,
    refund_id="b" * 32,
    refunds=False,
    steps=(),
    exchanges=[RecordedExchange(method="PUT", path=f"/api/v3/cob/{'a' * 32}", status=201)],
)


def test_an_operation_is_seen_on_the_day_of_its_recording(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_bytes(msgspec.json.encode(structs.replace(SEEN, environment="counterpart")))
    assert read_recordings(tmp_path) == []
    (tmp_path / "sicredi.json").write_bytes(msgspec.json.encode(SEEN))
    recordings = read_recordings(tmp_path)
    rows = {row.id: row for row in list_rows_of_profile(Face(profile=read_profile("sicredi")))}
    opened, read = rows["cob.criar_com_txid"], rows["cob.consultar"]
    assert find_known(opened, recordings) == "seen on 2027-01-31"
    assert find_known(read, recordings) == read.known
