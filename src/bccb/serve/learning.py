"""Learning that is uploaded: a campaign begins with what a policy has learned elsewhere.

What comes is checked before the books are touched, in a thread of its own: it may be large.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

from bccb.charge import CONVERSION, TREATMENT, share_in_millionths
from bccb.errors import InputError, StateError
from bccb.kernels import counts as count
from bccb.ledger.event import Kind
from bccb.money import MICROS
from bccb.outcome import Kind as OutcomeKind
from bccb.policy import Policy, from_bytes
from bccb.serve.books import Books
from bccb.serve.campaign import Campaign
from bccb.serve.problem import ProblemError, conflict
from bccb.serve.terms import UPLOAD, Terms

MOST_BYTES = 64_000_000  # of a saved policy: the largest model with a full store has fewer
CHECKER = ThreadPoolExecutor(1, "bccb-learning")  # one after the other: each takes much memory


def learned(terms: Terms, saved: bytes) -> bytes:
    """What the policy of a campaign is to remember, from a saved policy; checked."""
    try:
        policy = from_bytes(saved)
    except InputError as error:
        raise _invalid(f"{error}: send the bytes of Policy.to_bytes or of Policy.save") from None
    _check_fits(terms, policy)
    machine = terms.machine()
    try:
        machine.adopt(policy)
    except StateError:
        theirs = f"{policy.name} with other parameters" if policy.name == terms.policy else ""
        wrong = f"the policy is {theirs or policy.name}"
        raise _invalid(f"{wrong}, but the campaign was opened with {terms.policy}") from None
    return machine.used_memory().tobytes()


def _check_fits(terms: Terms, policy: Policy) -> None:
    """Refuse a policy for other users, one that has decided, and one that has learned nothing."""
    for what, theirs, ours in (
        ("columns of features", policy.features, terms.columns),
        ("treatments", policy.treatments, len(terms.treatments)),
    ):
        if theirs != ours:
            raise _invalid(f"the policy has {theirs} {what}, but the campaign has {ours}")
    kind = OutcomeKind.AMOUNT if policy.composition.amounts else OutcomeKind.CONVERSION
    if kind != terms.outcome:
        wrong = f"the outcomes of the policy are of the kind {kind}, those of the campaign are not"
        raise _invalid(f'{wrong}: make it with outcome="{terms.outcome}"')
    charge = CONVERSION if policy.charges_on_conversion else TREATMENT
    if charge != terms.charge:
        wrong = f"the policy is charged on {charge}, but the campaign on {terms.charge}"
        raise _invalid(f'{wrong}: make it with charge="{terms.charge}"')
    share = share_in_millionths(terms.share, terms.charge)
    if policy.counts[count.SHARE] != share:
        wrong = f"the policy has the share {policy.counts[count.SHARE] / MICROS:g}"
        raise _invalid(f"{wrong}, but the campaign {share / MICROS:g}, where 0 is none")
    if policy.decisions:
        made = f"the policy has made {policy.decisions:,} decisions of its own"
        raise _invalid(f"{made}: send one that has learned history, and nothing else")
    if policy.counts[count.HISTORY] <= 0:
        raise _invalid("the policy has learned nothing: call policy.learn(log) before it is saved")


def begin(books: Books, at: int, campaign_id: str, memory: bytes) -> Campaign:
    """Let a campaign begin with what was learned; to do so twice does nothing more."""
    campaign = books.campaign(campaign_id)
    digest = f"learning-{hashlib.sha256(memory).hexdigest()}"
    if any(event.kind == Kind.LEARNED for event in books.known(campaign, [digest]).get(digest, ())):
        return campaign
    check_wanted(campaign, at)
    books.record(campaign, campaign.learning(at, memory, digest))
    return campaign


def check_wanted(campaign: Campaign, at: int) -> None:
    """Refuse learning for a campaign that takes none, or has it already."""
    if campaign.terms.learned_from != UPLOAD:
        detail = f'campaign {campaign.id} was not opened with learned_from "{UPLOAD}"'
        raise conflict("takes-no-history", detail)
    if not campaign.needs_history:
        detail = f"campaign {campaign.id} has begun with other learning, which stays"
        raise conflict("has-history", detail)
    if campaign.over(at):
        raise conflict("campaign-closed", f"campaign {campaign.id} is over")


def _invalid(detail: str) -> ProblemError:
    return ProblemError(422, "invalid-learning", detail)
