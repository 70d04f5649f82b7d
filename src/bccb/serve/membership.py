"""Membership: this process among those that share a ledger.

A thread of its own says twice a second that the process lives, and learns who else does, which keys
there are and what time it is. The time is the ledger's, so that replicas whose clocks differ agree.
Changes are noticed at once, and in any case with the next beat.
"""

from __future__ import annotations

import logging
import random
import threading
import time

from bccb.errors import BccbError
from bccb.ledger.port import Key, LedgerError, Replicas
from bccb.serve.places import Places

BEAT = 0.5  # seconds
LONGEST_PAUSE = 3.0  # seconds between tries while the ledger is away
KEYS_STAND = 10.0  # seconds for which keys are trusted that cannot be read again

logger = logging.getLogger("bccb.serve")


class Membership:
    """Beats for this process, and keeps its places, its keys and its clock."""

    def __init__(self, replicas: Replicas, address: str, version: str) -> None:
        self.address, self.version = address, version
        self.places = Places(address)
        self._replicas = replicas
        self._offset = 0  # microseconds from this process's steady clock to the ledger's time
        self._keys: list[Key] = []
        self._beat_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bccb-beat", daemon=True)

    def start(self) -> None:
        """Join; from now on others may forward to this process."""
        self._beat()
        self._thread.start()

    def clock(self) -> int:
        """Microseconds since 1970, as the ledger's machine has it."""
        return time.monotonic_ns() // 1_000 + self._offset

    def keys(self) -> list[Key]:
        """The API keys, as of the last beat."""
        if time.monotonic() - self._beat_at > KEYS_STAND:
            raise LedgerError("the API keys cannot be read")
        return self._keys

    def leave(self) -> None:
        """Hand over: others hold its campaigns from now on."""
        self.places.leaving = True

    def stop(self) -> None:
        """End; the others need not wait for another beat."""
        self.leave()
        self._stopping.set()
        self._thread.join()
        try:
            self._replicas.leave(self.address)
        except LedgerError as error:
            logger.warning("the others will notice that this replica is gone: %s", error)
        self._replicas.close()

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            pause = self._wait_and_beat(pause)

    def _wait_and_beat(self, pause: float) -> float:
        """Once more; how long to pause before the next."""
        self._stopping.wait(pause * random.uniform(0.5, 1.5))
        try:
            self._replicas.wait(0.0 if self.places.leaving else BEAT)
            self._beat()
            if pause:
                self.places.trust_all()
            return BEAT / 2 if self.places.leaving else 0.0
        except BccbError as error:
            if not pause:
                logger.warning("this replica cannot reach the ledger: %s", error)
            return min(LONGEST_PAUSE, 2.0 * pause or BEAT / 2)
        except Exception:
            logger.exception("this replica could not say that it lives")
            return LONGEST_PAUSE

    def _beat(self) -> None:
        leaving = self.places.leaving
        beat = self._replicas.beat(self.address, self.address, self.version, leaving)
        self._offset = beat.at - time.monotonic_ns() // 1_000
        self.places.update(beat.replicas)
        self._keys = self._replicas.keys()
        self._beat_at = time.monotonic()
