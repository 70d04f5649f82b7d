"""The books: all campaigns in memory, and what the open transaction adds to their journals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bccb import __version__
from bccb.ledger.event import Event
from bccb.ledger.ledger import Account, Ledger, Snapshot
from bccb.serve.campaign import Campaign
from bccb.serve.problem import unknown
from bccb.serve.recovery import fold, snapshot_of
from bccb.serve.terms import Terms

SNAPSHOT_EVERY = 5_000  # events of a campaign


class Books:
    """Campaigns by id. One task changes them; what it records is durable after :meth:`commit`."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._campaigns: dict[str, Campaign] = {}
        self._names: dict[str, str] = {}
        self._keys = 0
        self._events: list[Event] = []
        self._by_decision: dict[tuple[int, str], list[Event]] = {}
        self._indexed = 0  # events that are in it
        self._before: dict[str, int] = {}  # the sequence of each changed campaign in the ledger
        self._kept: dict[str, int] = {}  # the sequence of its newest snapshot
        self._used: set[str] = set()  # campaigns that commands have had in hand
        self._stale: set[str] = set()  # campaigns that may not be what the ledger has

    def open(self) -> Iterator[Campaign]:
        """Bring up every campaign, one after the other."""
        for account in self.ledger.accounts():
            snapshot = self._bring_up(account)
            campaign = self._campaigns[account.id]
            if snapshot is not None and snapshot.version != __version__:
                self.ledger.begin()
                self._keep(campaign, origin=True)
                self.ledger.commit()
            yield campaign

    def _bring_up(self, account: Account) -> Snapshot | None:
        """A campaign as the ledger has it; the snapshot that it was folded from."""
        snapshot = self.ledger.snapshot(account.key)
        self._enter(fold(self.ledger, account, snapshot))
        self._kept[account.id] = 0 if snapshot is None else snapshot.sequence
        return snapshot

    def _enter(self, campaign: Campaign) -> None:
        self._campaigns[campaign.id] = campaign
        self._names[campaign.terms.name] = campaign.id
        self._keys = max(self._keys, campaign.key)

    # Looking

    def __iter__(self) -> Iterator[Campaign]:
        return iter(self._campaigns.values())

    def campaign(self, id_: str) -> Campaign:
        """The campaign with this id."""
        found = self._campaigns.get(id_)
        if found is None:
            raise unknown(f"there is no campaign {id_!r}")
        self._used.add(id_)
        return found

    def named(self, name: str) -> Campaign | None:
        """The campaign with this name."""
        id_ = self._names.get(name)
        return None if id_ is None else self._campaigns[id_]

    def known(self, campaign: Campaign, decisions: Iterable[str]) -> dict[str, list[Event]]:
        """All events of these decisions, also those that are not committed yet."""
        decisions = list(decisions)
        found = self.ledger.known(campaign.key, decisions)
        if campaign.id in self._before:
            self._index()
            for id_ in decisions:
                more = self._by_decision.get((campaign.key, id_))
                if more:
                    found[id_] = [*found.get(id_, ()), *more]
        return found

    # Changing

    def add(self, id_: str, terms: Terms) -> Campaign:
        """A new campaign, under the next key."""
        campaign = Campaign(self._keys + 1, id_, terms)
        self._enter(campaign)
        self._before[id_] = 0
        self._kept[id_] = 0
        return campaign

    def record(self, campaign: Campaign, event: Event) -> None:
        """Add an event that a campaign has made."""
        self._before.setdefault(campaign.id, event.sequence - 1)
        self._events.append(event)

    def _index(self) -> None:
        """Bring the index of recorded events up to date: seldom does anybody look."""
        for event in self._events[self._indexed :]:
            if event.decision is not None:
                self._by_decision.setdefault((event.campaign, event.decision), []).append(event)
        self._indexed = len(self._events)

    def sweep(self, campaign: Campaign, swept: int) -> None:
        """Remember that decisions up to this event have had their window."""
        self._before.setdefault(campaign.id, campaign.sequence)
        campaign.swept = swept

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._before)

    def write(self) -> int:
        """Hand all that was recorded to the ledger, in one transaction; how many events."""
        self.ledger.begin()
        for id_, before in self._before.items():
            if before == 0:
                campaign = self._campaigns[id_]
                self.ledger.add_campaign(campaign.key, id_, campaign.terms.name)
        self.ledger.append(self._events)
        for id_, before in self._before.items():
            campaign = self._campaigns[id_]
            self.ledger.advance(campaign.account(), before)
            if campaign.sequence - self._kept[id_] >= SNAPSHOT_EVERY:
                self._keep(campaign)
        return len(self._events)

    def commit(self) -> None:
        """Make what was written durable."""
        self.ledger.commit()
        self._forget()

    def abandon(self) -> None:
        """Nothing that was recorded has happened: campaigns that may be changed are read again."""
        self.ledger.roll_back()
        self._stale.update(self._before, self._used)
        self._forget()

    def refresh(self) -> None:
        """Begin with the books as the ledger has them: read again what was abandoned."""
        self._used.clear()
        while self._stale:
            id_ = next(iter(self._stale))
            account = self.ledger.account(id_)
            if account is None:
                del self._names[self._campaigns.pop(id_).terms.name]
            else:  # in its old place: they are told in the order of their making
                self._bring_up(account)
            self._stale.discard(id_)

    def _forget(self) -> None:
        self._events, self._by_decision, self._before, self._indexed = [], {}, {}, 0
        self._used = set()

    def keep_all(self) -> None:
        """A snapshot of every campaign that has moved since its last one."""
        self.ledger.begin()
        for campaign in self:
            if campaign.sequence > self._kept[campaign.id]:
                self._keep(campaign)
        self.ledger.commit()

    def _keep(self, campaign: Campaign, origin: bool = False) -> None:
        self.ledger.keep(campaign.key, snapshot_of(campaign, origin))
        self._kept[campaign.id] = campaign.sequence
