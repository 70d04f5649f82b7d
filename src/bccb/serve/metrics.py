"""Figures of the service for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bccb.ledger.moment import SECOND
from bccb.money import MICROS
from bccb.serve.books import Books
from bccb.serve.delays import median_delay

SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
MOST_LABELLED = 100  # campaigns with figures of their own: Prometheus keeps one series for each


class Metrics:
    """Counters of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "bccb_http_requests",
            "Requests that were answered.",
            ("route", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "bccb_http_request_seconds",
            "How long requests took.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.commits = Histogram(
            "bccb_commit_seconds",
            "How long commits took.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.events = Counter("bccb_events", "Events in the journal.", registry=self.registry)
        self.failures = Counter(
            "bccb_commit_failures", "Commits that failed.", registry=self.registry
        )
        self.conflicts = Counter(
            "bccb_commit_conflicts",
            "Commits that another replica was faster than: they were tried again.",
            registry=self.registry,
        )
        self.take_overs = Histogram(
            "bccb_take_over_seconds",
            "How long it took to take over a campaign from another replica.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.forwards = Counter(
            "bccb_forwards",
            "Requests that were forwarded to the replica that holds their campaign.",
            ("result",),
            registry=self.registry,
        )
        self.notices = Counter(
            "bccb_webhook_notices",
            "Notices for the webhook: sent, or lost after the last try.",
            ("result",),
            registry=self.registry,
        )

    def note_commit(self, seconds: float, events: int) -> None:
        """One more commit."""
        self.commits.observe(seconds)
        self.events.inc(events)

    def watch(self, books: Books, clock: Callable[[], int]) -> None:
        """Add figures of each campaign."""
        self.registry.register(_Campaigns(books, clock))

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)


class _Campaigns(Collector):
    def __init__(self, books: Books, clock: Callable[[], int]) -> None:
        self.books, self.clock = books, clock

    def collect(self) -> list[GaugeMetricFamily]:
        """The money and counts of campaigns, the newest ones if there are many."""
        families = {
            name: GaugeMetricFamily(f"bccb_campaign_{name}", about, labels=("campaign",))
            for name, about in (
                ("budget", "The budget, in currency units."),
                ("spent", "What is spent of it."),
                ("reserved", "What is held for treatments whose outcome is not known."),
                ("decisions", "Users who were decided on."),
                ("pending", "Decisions without an outcome yet, whose window has not ended."),
                (
                    "conversions",
                    "The sum of all outcomes reported in time; of amounts, their number.",
                ),
                ("value", "The sum of all amounts reported within their window."),
                ("median_delay_seconds", "Half of the conversions are reported by then."),
                ("too_late", "Conversions that were reported after their window."),
                ("corrections", "Outcomes that were corrected."),
                ("fits", "How often the policy was fitted again on what it has learned."),
                ("fitted_timestamp_seconds", "When that was, the last time, since 1970."),
                ("alerts", "How many alerts stand."),
                ("cap_binds", "1 where the cost cap holds money back, 0 where it does not."),
            )
        }
        campaigns = list(self.books)
        for campaign in campaigns[-MOST_LABELLED:]:
            label = [campaign.id]
            families["budget"].add_metric(label, campaign.budget / MICROS)
            families["spent"].add_metric(label, campaign.spent / MICROS)
            families["reserved"].add_metric(label, campaign.reserved / MICROS)
            families["decisions"].add_metric(label, campaign.machine.decisions)
            families["pending"].add_metric(label, campaign.open)
            families["conversions"].add_metric(label, sum(campaign.tally.conversions))
            if campaign.tally.whole_value is not None:
                families["value"].add_metric(label, campaign.tally.whole_value)
            families["too_late"].add_metric(label, campaign.pending.too_late)
            families["corrections"].add_metric(label, campaign.tally.corrections)
            families["alerts"].add_metric(label, len(campaign.alerts))
            if campaign.terms.cost_cap is not None:
                families["cap_binds"].add_metric(label, campaign.cap_binds)
            if campaign.machine.composition.refitted:
                families["fits"].add_metric(label, campaign.machine.fits)
            if campaign.fitted_at is not None:
                families["fitted_timestamp_seconds"].add_metric(label, campaign.fitted_at / SECOND)
            median = median_delay(campaign.pending)
            if median is not None:
                families["median_delay_seconds"].add_metric(label, median)
        last = max((campaign.at for campaign in campaigns), default=0)
        behind = GaugeMetricFamily(
            "bccb_clock_behind_seconds",
            "By how much the clock is behind the last event.",
            max(last - self.clock(), 0) / SECOND,
        )
        quarantined = GaugeMetricFamily(
            "bccb_campaigns_quarantined",
            "Campaigns whose journal cannot be folded: nothing of them is decided.",
            len(self.books.all()) - len(campaigns),
        )
        held = GaugeMetricFamily(
            "bccb_campaigns_held", "Campaigns that this process decides for.", len(campaigns)
        )
        return [*families.values(), behind, quarantined, held]
