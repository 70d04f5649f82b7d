"""The books: all campaigns in memory, and what is recorded but not yet committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator

from bccb.ledger.event import Event
from bccb.ledger.port import EMPTY, Account, Ledger, LedgerError, Mark, Snapshot, concerns_all
from bccb.serve.campaign import Campaign
from bccb.serve.cells import cells_beside
from bccb.serve.code import Code
from bccb.serve.journal import Journal
from bccb.serve.problem import unknown
from bccb.serve.quarantine import Quarantined, quarantined
from bccb.serve.recovery import (
    OtherCodeError,
    Recovered,
    catch_up,
    code_of,
    recover,
    snapshot_of,
)
from bccb.serve.terms import Terms
from bccb.serve.work import SECONDS_PER_PENDING, seconds_per_user, users_at_once
from bccb.wire import MOST_BATCH

SNAPSHOT_EVERY = 5_000  # events of a campaign
# Or as many as this share of the users who wait and of the outcomes kept for fits, if that is more:
# they are part of a snapshot, and keeping 1,000,000 of them takes a fifth of a second.
SNAPSHOT_SHARE = 0.2
SNAPSHOT_AFTER = 100  # events of a campaign that had to be folded again

logger = logging.getLogger("bccb.serve")


class Books:
    """Campaigns by id. One task changes them; what it records is durable after :meth:`commit`.

    A campaign that cannot be folded is quarantined: it keeps its place, and the others go on.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._campaigns: dict[str, Campaign | Quarantined] = {}
        self._names: dict[str, str] = {}
        self._encoded: set[str] = set()  # with encoded features, also those that were let go
        self._keys = 0
        self._journal = Journal(ledger)
        self._marks: dict[str, Mark] = {}  # where each journal ends in the ledger
        self._changed: set[str] = set()  # campaigns that have moved since then
        self._kept: dict[str, int] = {}  # the sequence of its newest snapshot
        self._used: set[str] = set()  # campaigns that commands have used
        self._stale: set[str] = set()  # campaigns that may differ from the ledger
        self._failed: set[str] = set()  # those for which a command failed
        self._needs_other_code = False  # for a campaign that this code cannot fold

    def open(self) -> Iterator[Campaign]:
        """Load every campaign, one after the other; yields those that are not quarantined."""
        taken_over: list[Campaign] = []  # from other code
        for account in self.ledger.accounts():
            code = self._load(account)
            campaign = self._campaigns[account.id]
            if isinstance(campaign, Quarantined):
                continue
            if code is not None and not code.is_this:
                taken_over.append(campaign)
            yield campaign
        if not self._needs_other_code:  # that code must still be able to open the ledger
            self.ledger.upgrade()
        for campaign in taken_over:  # from here on this code writes them
            self._keep_alone(campaign, origin=True)

    def _load(self, account: Account) -> Code | None:
        """A campaign as the ledger has it; the code that wrote what it was folded from."""
        snapshot = self.ledger.snapshot(account.key)
        if snapshot is not None and snapshot.sequence > account.sequence:
            account = self.ledger.account(account.id) or account  # another process has moved it on
        self._kept[account.id] = 0 if snapshot is None else snapshot.sequence
        try:
            recovered = recover(self.ledger, account, snapshot)
        except Exception as error:
            if concerns_all(error):
                raise  # it cannot be read now
            self._needs_other_code |= isinstance(error, OtherCodeError)
            if not isinstance(error, LedgerError | OtherCodeError):
                logger.exception("campaign %s cannot be folded", account.id)
                error = LedgerError("its journal cannot be folded: see the service's log")
            self._isolate(account, str(error))
            return None
        self._enter(account, recovered.campaign)
        if recovered.unusable:
            self._replace(recovered)
        return code_of(recovered.campaign.terms, recovered.used)

    def _replace(self, recovered: Recovered) -> None:
        """A new snapshot in place of those that could not be used, and never can be."""
        campaign, unusable = recovered.campaign, recovered.unusable
        self._kept[campaign.id] = recovered.begin - 1
        is_kept = self._try_to_keep(campaign, any(each.origin for each in unusable), unusable)
        after = "a new snapshot is kept, nothing is to be done"
        logger.warning(
            "campaign %s: not every snapshot can be used (%s). Its journal is whole and was folded "
            "from event %d; %s",
            *(campaign.id, "; ".join(recovered.reasons), recovered.begin),
            after if is_kept else "the next start folds it again",
        )

    def _isolate(self, account: Account, reason: str) -> None:
        """Quarantine a campaign."""
        logger.error("campaign %s (%s) is quarantined: %s", account.id, account.name, reason)
        self._enter(account, quarantined(self.ledger, account, reason))

    def quarantine(self, id_: str, reason: str) -> None:
        """Quarantine a campaign that was running, until the service starts again."""
        account = self.ledger.account(id_)
        if account is not None:
            self._isolate(account, reason)
            self._stale.discard(id_)

    def _enter(self, account: Account, campaign: Campaign | Quarantined) -> None:
        self._campaigns[account.id] = campaign
        self._marks[account.id] = account.mark
        if isinstance(campaign, Campaign) and campaign.terms.encoding is not None:
            self._encoded.add(account.id)
        self._names[account.name] = account.id
        self._keys = max(self._keys, account.key)

    # Looking

    def __iter__(self) -> Iterator[Campaign]:
        """Those that are not quarantined."""
        return iter([each for each in self.all() if isinstance(each, Campaign)])

    def all(self) -> list[Campaign | Quarantined]:
        """All campaigns as they were opened; safe beside the thread that changes them."""
        return list(self._campaigns.values())

    def look(self, id_: str) -> Campaign | Quarantined:
        """The campaign with this id, to look at it."""
        campaign = self._campaigns.get(id_)
        if campaign is None:
            raise unknown(f"there is no campaign {id_!r}")
        self._used.add(id_)
        return campaign

    def campaign(self, id_: str) -> Campaign:
        """The campaign with this id, to decide and to change; refused while it is quarantined."""
        campaign = self.look(id_)
        if isinstance(campaign, Quarantined):
            raise campaign.problem()
        return campaign

    def ids(self) -> list[str]:
        """The ids of all campaigns of the ledger, in the order in which they were opened."""
        return [account.id for account in self.ledger.accounts()]

    def has(self, id_: str) -> bool:
        """Whether a campaign is in memory: of a shared ledger, some are not."""
        return id_ in self._campaigns

    def named(self, name: str) -> Campaign | None:
        """The campaign with this name."""
        if self.ledger.shared:
            self._follow_names(name)
        id_ = self._names.get(name)
        return None if id_ is None else self.campaign(id_)

    def _follow_names(self, name: str) -> None:
        """Read which campaigns others have opened, and the one with this name, if there is one."""
        for account in self.ledger.accounts():
            self._names[account.name] = account.id
            self._keys = max(self._keys, account.key)
            if account.name == name:
                self._follow(cells_beside(account.id))

    def seconds(self, id_: str, users: int) -> float:
        """How long deciding on users of a campaign takes, or their outcomes: an estimate."""
        campaign = self._campaigns.get(id_)
        if not isinstance(campaign, Campaign):
            return 0.0
        return users * seconds_per_user(campaign.machine)

    def seconds_to_report(self, id_: str) -> float:
        """How long a report takes, which looks at every user who waits: an estimate."""
        campaign = self._campaigns.get(id_)
        if not isinstance(campaign, Campaign):
            return 0.0
        return SECONDS_PER_PENDING * (campaign.pending.last - campaign.pending.first + 1)

    def is_plain(self, id_: str) -> bool:
        """Whether all features of a campaign are plain numbers; so also where there is none.

        This is asked after a body was read: in the meantime the campaign may have been let go.
        """
        return id_ not in self._encoded

    def users_at_once(self, id_: str) -> int:
        """How many users of a list are handled at once in this campaign."""
        campaign = self._campaigns.get(id_)
        return users_at_once(campaign.machine) if isinstance(campaign, Campaign) else MOST_BATCH

    def known(self, campaign: Campaign, decisions: Iterable[str]) -> dict[str, list[Event]]:
        """All events of these decisions, also those that are not committed yet."""
        return self._journal.known(campaign.key, list(decisions))

    def look_up(self, decisions: Iterable[tuple[str, Collection[str]]]) -> None:
        """Read together what :meth:`known` will be asked for, by campaign."""
        if self.ledger.shared:  # a file answers each question as soon as all of them
            held = ((self._campaigns.get(id_), ids) for id_, ids in decisions)
            asked = ((each.key, ids) for each, ids in held if isinstance(each, Campaign))
            self._journal.look_up(asked)

    # Changing

    def add(self, id_: str, terms: Terms) -> Campaign:
        """A new campaign, under the next key."""
        campaign = Campaign(self._keys + 1, id_, terms)
        self._enter(campaign.account(), campaign)
        self._marks[id_] = EMPTY
        self._changed.add(id_)
        self._kept[id_] = 0
        return campaign

    def record(self, campaign: Campaign, *events: Event) -> None:
        """Add events that a campaign has made, in order."""
        self._changed.add(campaign.id)
        self._journal.record(campaign.key, events)

    def sweep(self, campaign: Campaign, swept: int) -> None:
        """Remember that decisions up to this event have had their window."""
        self._changed.add(campaign.id)
        campaign.swept = swept

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._changed)

    def write(self) -> int:
        """Hand all that was recorded to the ledger, in one transaction; how many events."""
        # in one order for all processes that share a ledger: none waits for one that waits for it
        changed = sorted(map(self.campaign, self._changed), key=lambda each: each.key)
        self.ledger.begin()
        for campaign in changed:
            if self._marks[campaign.id] == EMPTY:
                self.ledger.add_campaign(campaign.key, campaign.id, campaign.account().name)
        for campaign in changed:  # first, so that a lost race shows as one
            self.ledger.advance(campaign.account(), self._marks[campaign.id])
        self.ledger.append(self._journal.recorded)
        for campaign in changed:
            if self._snapshot_due(campaign):
                self._keep(campaign)
        return len(self._journal.recorded)

    def _since_snapshot(self, campaign: Campaign) -> int:
        return campaign.sequence - self._kept[campaign.id]

    def _snapshot_due(self, campaign: Campaign) -> bool:
        users = campaign.pending.last - campaign.pending.first + 1 + campaign.machine.rows
        return self._since_snapshot(campaign) >= max(SNAPSHOT_EVERY, SNAPSHOT_SHARE * users)

    @property
    def snapshot_due(self) -> bool:
        """Whether the next :meth:`write` keeps a snapshot, which may be long."""
        return any(map(self._snapshot_due, map(self.campaign, self._changed)))

    def commit(self) -> None:
        """Make what was written durable."""
        self.ledger.commit()
        for id_ in self._changed:
            self._marks[id_] = self.campaign(id_).account().mark
        self._forget()

    def abandon(self, failed: bool = False) -> None:
        """Nothing that was recorded has happened: campaigns that may be changed are read again.

        ``failed`` says that a command is to blame, and not the ledger.
        """
        self.ledger.roll_back()
        stale = self._changed | self._used
        self._stale |= stale
        self._failed |= stale if failed else set()
        self._forget()

    @property
    def stale(self) -> bool:
        """Whether :meth:`refresh` has anything to read, which may take long."""
        return bool(self._stale)

    def refresh(self, ids: Collection[str] = ()) -> int:
        """Begin with the books as the ledger has them: read again what was abandoned.

        Of a shared ledger, also follow campaigns that others may have moved on; how many of them
        were taken over.
        """
        self._used.clear()
        self._journal.read_again()
        self._read_again()
        return self._follow(ids) if ids and self.ledger.shared else 0

    def _read_again(self) -> None:
        while self._stale:
            id_ = next(iter(self._stale))
            account = self.ledger.account(id_)
            if account is None:
                self._remove(id_)
            elif isinstance(self._campaigns.get(id_), Campaign):
                # in its old place: campaigns are listed in the order in which they were opened
                self._load(account)
                self._shorten(id_)
            self._stale.discard(id_)
            self._failed.discard(id_)

    def _remove(self, id_: str) -> None:
        """Forget a campaign whose opening was abandoned."""
        del self._campaigns[id_], self._marks[id_]
        self._names = {name: each for name, each in self._names.items() if each != id_}

    def _shorten(self, id_: str) -> None:
        """Fold less the next time: commands on a campaign that fail again and again cost others."""
        campaign = self._campaigns[id_]
        if id_ not in self._failed or isinstance(campaign, Quarantined):
            return
        if self._since_snapshot(campaign) >= SNAPSHOT_AFTER:
            self._try_to_keep(campaign)

    def _forget(self) -> None:
        self._journal.forget()
        self._changed, self._used = set(), set()

    def follow(self, ids: Collection[str]) -> None:
        """Fold what was written to campaigns in memory, and did not come from them."""
        self._follow([id_ for id_ in ids if id_ in self._campaigns])

    # Sharing a ledger with other processes

    def _follow(self, ids: Collection[str]) -> int:
        """Bring campaigns to where the ledger has them; how many were not here before."""
        taken = 0
        for account in self.ledger.accounts(ids):
            campaign = self._campaigns.get(account.id)
            if campaign is None:
                self._take_over(account)
                taken += 1
            elif isinstance(campaign, Campaign) and self._marks[account.id] != account.mark:
                self._catch_up(account, campaign)
        return taken

    def _take_over(self, account: Account) -> None:
        """Fold a campaign that was not here."""
        code = self._load(account)
        campaign = self._campaigns[account.id]
        if isinstance(campaign, Campaign) and code is not None and not code.is_this:
            self._keep_alone(campaign, origin=True)

    def _catch_up(self, account: Account, campaign: Campaign) -> None:
        self._journal.read_again(account.key)
        if account.sequence - campaign.sequence > SNAPSHOT_EVERY:
            self._load(account)  # there is a newer snapshot: folding from here takes longer
            return
        try:
            catch_up(self.ledger, account, campaign)
            self._marks[account.id] = account.mark
        except Exception as error:
            if concerns_all(error):
                self._stale.add(account.id)
                raise
            self._load(account)  # from its snapshot: it says what is wrong, if anything is

    def move(self, here: Callable[[str], bool], seconds: float) -> tuple[int, bool]:
        """Let go of campaigns that are held elsewhere, and take over those that are held here.

        It takes about so many seconds. How many were taken over, and whether there may be more to
        do.
        """
        self._read_again()  # a snapshot of what was abandoned would be wrong
        taken, deadline = 0, time.monotonic() + seconds
        for campaign in self.all():
            if not here(campaign.id):
                self._let_go(campaign)
                if time.monotonic() > deadline:
                    return taken, True
        for account in self.ledger.accounts():
            self._names[account.name] = account.id
            if account.id not in self._campaigns and here(account.id):
                self._take_over(account)
                taken += 1
                if time.monotonic() > deadline:
                    return taken, True
        return taken, False

    def _let_go(self, campaign: Campaign | Quarantined) -> None:
        """Forget a campaign; a snapshot lets the next holder begin at once."""
        if isinstance(campaign, Campaign) and self._since_snapshot(campaign) > 0:
            self._try_to_keep(campaign)
        del self._campaigns[campaign.id], self._kept[campaign.id], self._marks[campaign.id]

    def keep_all(self) -> None:
        """A snapshot of every campaign that has moved since its last one."""
        self.refresh()
        self.ledger.begin()
        for campaign in self:
            if self._since_snapshot(campaign) > 0:
                self._keep(campaign)
        self.ledger.commit()

    def _try_to_keep(
        self, campaign: Campaign, origin: bool = False, instead_of: Iterable[Snapshot] = ()
    ) -> bool:
        try:
            self._keep_alone(campaign, origin, instead_of)
        except LedgerError as error:  # the snapshot is not needed
            logger.warning("no snapshot was kept: %s", error)
            self.ledger.roll_back()
            return False
        return True

    def _keep_alone(
        self, campaign: Campaign, origin: bool = False, instead_of: Iterable[Snapshot] = ()
    ) -> None:
        """A snapshot in a transaction of its own."""
        self.ledger.begin()
        self.ledger.forget(campaign.key, [each.sequence for each in instead_of])
        self._keep(campaign, origin)
        self.ledger.commit()

    def _keep(self, campaign: Campaign, origin: bool = False) -> None:
        self.ledger.keep(campaign.key, snapshot_of(campaign, origin))
        self._kept[campaign.id] = campaign.sequence
