"""The state of a policy: its counts and its memory, with its money and its clock."""

from __future__ import annotations

import numpy as np

from bccb import checks
from bccb.composition import Composition
from bccb.drivers import AT_ONCE
from bccb.errors import InputError, StateError
from bccb.kernels import counts as count
from bccb.kernels.amounts import leave_users
from bccb.kernels.counts import MOST_USERS
from bccb.kernels.sample import Sample, earlier_size, end_history, view_sample, with_history
from bccb.kernels.store import USER, Store, is_due, unused, view_store, whole_memory
from bccb.measured import Measure
from bccb.money import MICROS, MOST_MONEY
from bccb.types import Floats, Ints


class State:
    """What a policy knows: everything but the users whose outcome may still come.

    It is two arrays, on which the kernels of :class:`bccb.machine.Machine` work. Money is integer
    micros.
    """

    def __init__(self, name: str, composition: Composition, counts: Ints, memory: Floats) -> None:
        self.name = name
        self.composition = composition
        self.counts = counts
        self.memory = memory
        self.features = int(counts[count.FEATURES])
        self.treatments = int(counts[count.TREATMENTS])
        self.needs_history = bool(counts[count.HISTORY] == count.NOT_LEARNED)
        self._store: Store | None = None  # of outcomes, where the estimator is fitted again
        if composition.refitted:
            self._store = view_store(memory, self.features, self.treatments)

    # Money and clock

    @property
    def budget(self) -> float:
        """The whole budget."""
        return float(self.counts[count.BUDGET]) / MICROS

    @property
    def remaining(self) -> float:
        """The part of the budget that is left."""
        return float(self.counts[count.REMAINING]) / MICROS

    @property
    def remaining_micros(self) -> int:
        """The part of the budget that is left, in micros."""
        return int(self.counts[count.REMAINING])

    @property
    def spent(self) -> float:
        """The part of the budget that was spent."""
        unspent = self.counts[count.REMAINING] + self.counts[count.HELD]
        return float(self.counts[count.BUDGET] - unspent) / MICROS

    @property
    def held(self) -> float:
        """The part of the budget that is held until outcomes are known: charged on conversion."""
        return float(self.counts[count.HELD]) / MICROS

    @property
    def held_micros(self) -> int:
        """The same in micros."""
        return int(self.counts[count.HELD])

    @property
    def to_return(self) -> int:
        """The micros that are held and expected to return."""
        return int(count.to_return(self.counts))

    @property
    def charges_on_conversion(self) -> bool:
        """Whether a cost is due only if the user converts."""
        return bool(self.counts[count.CHARGE] == count.ON_CONVERSION)

    @property
    def cost_cap(self) -> float | None:
        """The most that one more conversion may cost."""
        cap = int(self.counts[count.CAP])
        return None if cap == count.NO_CAP else cap / MICROS

    @property
    def explored(self) -> float:
        """The cost of the treatments that were proposed at random, to keep overlap in the log."""
        return float(self.counts[count.EXPLORED]) / MICROS

    @property
    def decisions(self) -> int:
        """The number of decisions so far."""
        return int(self.counts[count.NUMBER])

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of all components."""
        parameters: dict[str, float] = {}
        for part, at in zip(
            self.composition.components, self.counts[count.AT_ESTIMATOR :], strict=False
        ):
            values = self.memory[at : at + len(part.parameters)].tolist()
            parameters.update(zip(part.parameters, values, strict=True))
        return parameters

    @property
    def reserve(self) -> float:
        """The share of decisions made at random: everybody is left alone with half of it."""
        return self.parameters.get("reserve", 0.0)

    def new_measure(self) -> Measure | None:
        """What measures effects from the first user on.

        None without decisions at random, and where amounts have no bound.
        """
        largest = int(self.counts[count.LARGEST]) / MICROS
        if self.reserve == 0.0 or (self.composition.amounts and largest == 0.0):
            return None
        return Measure(self.reserve, largest or 1.0)

    def expect(self, users: float) -> None:
        """Expect this many more users from now on; replaces the expectation so far.

        The money that is left is paced over them. For campaigns that end at a given time, or with
        more or less traffic than planned.
        """
        expected = checks.number("users", users)
        if not 0 <= expected <= MOST_USERS:
            raise InputError("users", users, f"from 0 to {MOST_USERS}")
        self.counts[count.HORIZON] = self.counts[count.NUMBER] + max(round(expected), 1)

    def begin_with(self, micros: int, cost_cap: int | None = None) -> None:
        """Set the budget and the cost cap, exact to the micro, before the first user."""
        for place in (count.BUDGET, count.REMAINING, count.PLANNED):
            self.counts[place] = micros
        self.counts[count.CAP] = count.NO_CAP if cost_cap is None else cost_cap

    @property
    def planned(self) -> tuple[int, int]:
        """The budget of the current plan in micros, and the number of decisions before it."""
        return int(self.counts[count.PLANNED]), int(self.counts[count.SINCE])

    def add_micros(self, micros: int) -> None:
        """Add to the budget and start a new plan: all that is left is for the users to come."""
        checks.instance("what is added to the budget", micros, int | np.integer, "whole micros")
        whole = int(self.counts[count.BUDGET]) + micros
        if micros < 1 or whole > MOST_MONEY:
            allowed = f"above 0, with the budget at most {MOST_MONEY // MICROS:,}"
            raise InputError("what is added to the budget", micros / MICROS, allowed)
        self.counts[count.BUDGET] = whole
        self.counts[count.REMAINING] += micros
        returns = int(count.to_return(self.counts))
        self.counts[count.PLANNED] = self.counts[count.REMAINING] + returns
        self.counts[count.SINCE] = self.counts[count.NUMBER]

    def shift_micros(self, micros: int) -> None:
        """Add to the budget, or take from it, as if it had been so since the plan began.

        At least one micro stays: shares of the plan are of something.
        """
        remaining, budget = int(self.counts[count.REMAINING]), int(self.counts[count.BUDGET])
        if remaining + micros < 1 or budget + micros > MOST_MONEY:
            allowed = f"so much that 0.000001 to {MOST_MONEY // MICROS:,} is left"
            raise InputError("what is shifted", micros / MICROS, allowed)
        planned = int(self.counts[count.PLANNED])
        self.counts[count.BUDGET] = budget + micros
        self.counts[count.REMAINING] = remaining + micros
        # money of decisions before the plan may have returned: then more is left than was planned
        self.counts[count.PLANNED] = max(planned + micros, 1)

    def settle(self, held: int, outcome: float) -> int:
        """What a decision costs with this outcome; the rest of what is held for it returns.

        All of it, where costs are not charged on conversion.
        """
        if not self.charges_on_conversion:
            return held
        charged = int(count.charge_of(self.counts, held, outcome))
        count.settle(self.counts, held, charged)
        return charged

    def recharge(self, held: int, was: float, outcome: float, settled: int | None = None) -> int:
        """What a corrected outcome costs more, or less, where costs are charged on conversion.

        Where the cost was ``settled``, the correction can lower it, and never raises it.
        """
        if not self.charges_on_conversion:
            return 0
        before, after = (int(count.charge_of(self.counts, held, y)) for y in (was, outcome))
        if settled is not None:
            before, after = settled, min(settled, after)
        if after <= before:
            self.repay(before - after)
            return after - before
        if after - before > self.counts[count.REMAINING]:
            raise StateError(
                f"the corrected outcome costs {(after - before) / MICROS:g} more, but only "
                f"{self.remaining:g} is left: add to the budget first"
            )
        self.counts[count.REMAINING] -= after - before
        return after - before

    def refund(self, micros: int) -> None:
        """Return what a decision paid, or a part of it, because its treatment was not delivered.

        Where costs are charged on conversion, of a decision without an outcome.
        """
        checks.instance("a refund", micros, int | np.integer, "whole micros")
        if not self.charges_on_conversion:
            self.repay(micros)
            return
        if not 0 <= micros <= self.counts[count.HELD]:
            raise InputError("a refund", micros / MICROS, f"from 0 to the {self.held} held")
        count.settle(self.counts, micros, 0)

    def repay(self, micros: int) -> None:
        """Return a part of what was charged, because a treatment cost less in the end."""
        unspent = self.counts[count.REMAINING] + self.counts[count.HELD]
        if not 0 <= micros <= self.counts[count.BUDGET] - unspent:
            raise InputError("a refund", micros / MICROS, f"from 0 to the {self.spent} spent")
        self.counts[count.REMAINING] += micros

    def have_paid(self, micros: int, instead_of: int) -> None:
        """Correct what the last decision paid to the amount that a journal says."""
        more = micros - instead_of
        self.counts[count.REMAINING] -= more
        if not self.charges_on_conversion:
            self.counts[count.PROPOSED] += more
            return
        # what it was expected to cost is not known: as much of it as of all offers
        share = self.counts[count.PROPOSED] / max(self.counts[count.OFFERED], 1)
        self.counts[count.HELD] += more
        self.counts[count.OFFERED] += more
        self.counts[count.PROPOSED] += round(share * more)

    # Treated users

    @property
    def treated(self) -> int | None:
        """How many users were treated, where the estimator has a posterior."""
        if not self.composition.has_posterior:
            return None
        sample = view_sample(self.memory[self.counts[count.END] :], self.features)
        return int(sample.treated[0] - sample.cancelled[0])

    def withdraw(self) -> None:
        """Count one treated user less, because the treatment was not delivered."""
        if self.composition.has_posterior:
            view_sample(self.memory[self.counts[count.END] :], self.features).cancelled[0] += 1.0

    def lose_sample(self) -> None:
        """Give up the sample of treated users, because another action was taken than proposed."""
        if self.composition.has_posterior:
            sample = view_sample(self.memory[self.counts[count.END] :], self.features)
            sample.cancelled[0] = MOST_USERS  # more than are ever treated: no count agrees

    def sample(self) -> Sample | None:
        """The sample of treated users, without free places; None where there is none, or nobody."""
        if not (self.treated or 0) > 0:
            return None
        sample = view_sample(self.memory[self.counts[count.END] :], self.features)
        m, n = (min(int(count[0]), len(sample.arm)) for count in (sample.treated, sample.alone))
        return sample._replace(
            arm=sample.arm[:m],
            x=sample.x[:m],
            number=sample.number[:m],
            alone_number=sample.alone_number[:n],
            alone_x=sample.alone_x[:n],
        )

    # Outcomes that are kept for fits

    @property
    def fit_due(self) -> bool:
        """Whether the estimator is to be fitted again, because it has learned twice as much."""
        return self._store is not None and is_due(self._store)

    @property
    def fits(self) -> int:
        """How often the estimator was fitted again."""
        return 0 if self._store is None else int(self._store.fits[0])

    @property
    def rows(self) -> int:
        """How many outcomes are kept for fits."""
        return 0 if self._store is None else int(self._store.rows[0])

    @property
    def model_size(self) -> int:
        """The numbers of the memory without the outcomes that are kept for fits."""
        return self.composition.model_size(self.features, self.treatments)

    # Taking over, saving

    def adopt(self, other: State) -> None:
        """Copy what another policy with the same components and parameters has learned."""
        checks.instance("the other policy", other, State, "a policy")
        same = self.composition == other.composition and self.parameters == other.parameters
        if not same or self.memory.shape != other.memory.shape or self.decisions:
            raise StateError(f"{self.name} cannot adopt what {other.name} has learned")
        self.remember(other.used_memory().tobytes())
        self.counts[count.HISTORY] = other.counts[count.HISTORY] + other.decisions
        self.needs_history = other.needs_history

    def remember(self, memory: bytes) -> None:
        """Start with the memory of a policy that has the same components and parameters."""
        given, end = self._whole(np.frombuffer(memory)), self.counts[count.END]
        if given is None:
            raise StateError(f"a memory of {len(memory)} bytes is not one of this {self.name}")
        self.memory[:] = given
        size = self.composition.sample_size(self.features)
        if size:
            sample = view_sample(self.memory[end:], self.features)
            end_history(sample)
            history = float(sample.history[0])
            self.memory[end : end + size] = 0.0  # others were treated by the other policy
            sample.history[0] = history
        if self.composition.refitted:
            own = view_store(self.memory, self.features, self.treatments)
            own.fits[0] = 0.0  # of its own
            own.row[:, USER] = AT_ONCE  # users of the other policy: its numbers mean nothing here
        if self.composition.learns_amounts:
            amounts = self.memory[self.counts[count.AT_AMOUNTS] : end]
            leave_users(amounts, self.features, self.treatments)
        self.counts[count.HISTORY] = 0
        self.needs_history = False

    def used_memory(self) -> Floats:
        """The memory without its end, where rows of the store are not used."""
        if not self.composition.refitted:
            return self.memory
        return self.memory[: len(self.memory) - unused(self.memory, self.features, self.treatments)]

    @property
    def earlier_sizes(self) -> tuple[int, int]:
        """The bytes of snapshots that older versions made, with a sample and without."""
        size, added = 8 * count.EARLIER, 0
        if self.composition.has_posterior:
            added = self.composition.sample_size(self.features) - earlier_size(self.features)
        whole = size + self.used_memory().nbytes - 8 * added
        return whole, size + 8 * int(self.counts[count.END])

    def snapshot(self) -> bytes:
        """The state, without name and composition."""
        return self.counts.tobytes() + self.used_memory().tobytes()

    def restore(self, state: bytes) -> None:
        """Continue from what :meth:`snapshot` returned."""
        checks.instance("a state", state, bytes, "what snapshot returned")
        parts, memory = np.frombuffer(state[: len(state) // 8 * 8], np.int64), None
        for size in (count.COUNTS, count.EARLIER):  # the offsets say which version made it
            if len(parts) < size or len(state) % 8:
                continue
            given = count.current(parts[:size])[count.AT_ESTIMATOR :]
            if np.array_equal(given, self.counts[count.AT_ESTIMATOR :]):
                memory = self._whole(np.frombuffer(state[8 * size :]))
                break
        if memory is None:
            raise StateError(f"a state of {len(state)} bytes is not one of this {self.name}")
        self.counts[:] = count.current(parts[:size])
        self.memory[:] = memory
        self.needs_history = bool(self.counts[count.HISTORY] == count.NOT_LEARNED)

    def _whole(self, used: Floats) -> Floats | None:
        """A memory from what :meth:`used_memory` returned, also in older versions."""
        whole, end = self._filled(used), int(self.counts[count.END])
        if whole is None and self.composition.has_posterior and len(used) > end:
            return self._filled(with_history(used, end, self.features))
        return whole

    def _filled(self, used: Floats) -> Floats | None:
        """A memory with the rows of the store, or the sample, that are not in what is given."""
        size = len(self.memory)
        if self.composition.refitted:
            return whole_memory(used, size, self.features, self.treatments)
        if len(used) not in (size, self.counts[count.END]):
            return None
        return np.append(used, np.zeros(size - len(used)))
