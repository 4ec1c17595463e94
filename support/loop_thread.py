"""An event loop on its own thread, for work that must go on while a test blocks or has no loop."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")
_TURNS = 5


class LoopThread:
    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ask(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run it there, and return its result within a minute."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def end(self) -> None:
        """End everything that runs there; otherwise a later test would report the leak."""
        self.ask(_end_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.close()


async def _end_tasks() -> None:
    # Connections that were just accepted or aborted begin or end in the loop's next turns.
    for _ in range(_TURNS):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)
