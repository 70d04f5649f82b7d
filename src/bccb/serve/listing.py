"""All campaigns in one list: also those that other replicas hold, and cells put together."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from starlette.requests import Request

from bccb import wire
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.cells import whole_of
from bccb.serve.engine import Engine
from bccb.serve.forwarding import is_forwarded
from bccb.serve.merging import merged_list
from bccb.serve.quarantine import Quarantined
from bccb.serve.views import campaign_view
from bccb.serve.work import LONG


async def listing(engine: Engine, request: Request) -> list[bytes]:
    """The views of all campaigns as JSON, the newest first."""
    views = await engine.do(lambda books, at: _views(books.all()), LONG)
    if engine.forwarder is not None:
        if is_forwarded(request):  # whoever asks puts cells together
            return list(reversed(views.values()))
        views = await _with_others(engine, views, await engine.forwarder.lists(request))
    return list(reversed(await _merged(engine, views)))


async def _merged(engine: Engine, views: dict[str, bytes]) -> list[bytes]:
    """Campaigns with their cells put together."""
    cells = [id_ for id_ in views if whole_of(id_) is not None]
    if not cells:
        return list(views.values())
    accounts = await engine.do(lambda books, at: books.ledger.accounts(cells), LONG)
    return merged_list(views, {account.id: account for account in accounts})


def _views(campaigns: Iterable[Campaign | Quarantined]) -> dict[str, bytes]:
    # there may be many with many names: in pieces, so that the event loop has its turns
    return {each.id: wire.encode(campaign_view(each, whole=False)) for each in campaigns}


async def _with_others(
    engine: Engine, here: dict[str, bytes], others: dict[str, bytes]
) -> dict[str, bytes]:
    """All campaigns of a shared ledger in order: those of other replicas, of this one and of none.

    Where two replicas list a campaign, its holder knows best.
    """
    forwarder = engine.forwarder
    assert forwarder is not None
    ids = await engine.do(lambda books, at: books.ids(), LONG)
    views: dict[str, bytes] = {}
    for id_ in ids:
        first, second = (here, others) if forwarder.places.is_here(id_) else (others, here)
        view = first.get(id_) or second.get(id_)
        if view is None:
            command = partial(_view_of, id_=id_)
            view = await engine.do(command, LONG, id_)
        views[id_] = view
    return views


def _view_of(books: Books, at: int, id_: str) -> bytes:
    return _views([books.look(id_)])[id_]
