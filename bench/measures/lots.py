"""How long a lot of 1,000 charges with a due date takes until all are made, alone and beside nine more.

``lot`` is one lot, and ``ten_lots`` ten of one holder that are put at once: ``seconds`` from the first octet of the request
until the last of its charges is ``CRIADA``, the longest of the ten, medians of the rounds; ``accepted_s`` until the 202. Each
charge is full: fine, interest, rebate, three discounts, address, question, eight lines; a lot has 2.3 MB.
"""

import json
import statistics
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from itertools import count
from typing import Any

from bench.figures import Row
from bench.harness.installation import Account, Installation, installed
from bench.harness.processes import CpuMeter
from bench.measures.accepting import due_body

CHARGES = 1000
# Looking costs too, since a thousand charges are read each time: so often for each lot that is waited for.
_LOOK_EVERY_S = 0.05


def measure_lots(rounds: int) -> Iterator[Row]:
    """One lot, and ten at once."""
    with installed() as service:
        account, numbers = service.demonstration(), count(1)
        for name, lots_count in (("lot", 1), ("ten_lots", 10)):
            told: list[tuple[float, float]] = []
            meter = CpuMeter(service.process.pid)
            for _ in range(rounds):
                lots = [_Lot(service, account, next(numbers), lots_count * _LOOK_EVERY_S) for _ in range(lots_count)]
                with ThreadPoolExecutor(lots_count) as threads:
                    ended = list(threads.map(_Lot.put_and_wait, lots))
                told.append((max(each[0] for each in ended), max(each[1] for each in ended)))
            yield {
                "name": name,
                "rounds": rounds,
                "charges": lots_count * CHARGES,
                "accepted_s": statistics.median(each[0] for each in told),
                "seconds": statistics.median(each[1] for each in told),
                **meter.cost(rounds * lots_count * CHARGES),
            }


class _Lot:
    def __init__(self, service: Installation, account: Account, number: int, look_every_s: float) -> None:
        self._url = f"{service.base_url}/pix/v2/lotecobv/{number}"
        self._token = account.token
        self._look_every_s = look_every_s
        charge = _full_body(service)
        charges = [{"txid": f"lot{number:012d}charge{place:08d}", **charge} for place in range(CHARGES)]
        self._body = json.dumps({"descricao": "Carnês do mês", "cobsv": charges}).encode()

    def put_and_wait(self) -> tuple[float, float]:
        """Seconds until it was taken, and until all of it was made."""
        begun_s = time.monotonic()
        self._ask("PUT", self._body)
        accepted_s = time.monotonic() - begun_s
        while True:
            told = json.loads(self._ask("GET"))
            statuses = {each["status"] for each in told["cobsv"]}
            if statuses == {"CRIADA"}:
                return accepted_s, time.monotonic() - begun_s
            if "NEGADA" in statuses:
                raise AssertionError("a charge of the lot was refused")
            time.sleep(self._look_every_s)

    def _ask(self, method: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url, body, headers, method=method)  # noqa: S310  our own address
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.read()


def _full_body(service: Installation) -> dict[str, Any]:
    body = due_body(service)
    due_on = date.fromisoformat(body["calendario"]["dataDeVencimento"])
    dates = [{"data": f"{due_on - timedelta(days=days)}", "valorPerc": "1.00"} for days in (7, 5, 1)]
    address = dict(logradouro="Rua das Acácias, 1200, apartamento 34", cidade="Belo Horizonte", uf="MG", cep="30140071")
    return body | {
        "devedor": body["devedor"] | address | {"email": "financeiro@example.com"},
        "valor": body["valor"]
        | {
            "abatimento": {"modalidade": 1, "valorPerc": "0.50"},
            "desconto": {"modalidade": 1, "descontoDataFixa": dates},
        },
        "solicitacaoPagador": "x" * 140,
        "infoAdicionais": [{"nome": "n" * 40, "valor": "v" * 100}] * 8,
    }
