"""What the commands share that speak to a running service."""

from __future__ import annotations

from typing import Annotated

import typer

from bccb.client import Campaign, Client, UnreachableError
from bccb.errors import BccbError

AT_FIRST = 1.0  # seconds in which a service must answer for the first time
MOST_WINDOW = 10 * 366 * 86_400  # seconds: ten years

Url = Annotated[
    str | None, typer.Option("--url", help="Of the service. [default: $BCCB_URL, or this machine]")
]
Charge = Annotated[
    str,
    typer.Option(
        "--charge", help="When a cost is due: on treatment, or on conversion, and held until then."
    ),
]
CostCap = Annotated[
    float | None,
    typer.Option(
        "--cost-cap",
        help="Buy nothing that is expected to cost more than this per conversion, or per unit of "
        "value; money may be left over.",
    ),
]
Share = Annotated[
    float | None,
    typer.Option("--share", help="Of the amount, charged on conversion, at most the cost."),
]
Largest = Annotated[
    float | None,
    typer.Option("--largest", help="The largest amount that counts in what is measured."),
]
Currency = Annotated[
    str | None, typer.Option("--currency", help="Up to 3 letters, for display: EUR.")
]
Cells = Annotated[
    int, typer.Option("--cells", help="Cut a campaign that is too hot for one process into parts.")
]
Key = Annotated[str | None, typer.Option("--key", help="API key; better given as $BCCB_KEY.")]


def greet(url: str | None, key: str | None) -> None:
    """Fail at once where no service answers."""
    with Client(url, key, patience=AT_FIRST) as client:
        try:
            client.campaigns()
        except UnreachableError:
            hint = "start one with `bccb serve`, and wait until it says that it serves"
            raise BccbError(f"no service at {client.url}: {hint}") from None


def page_of(client: Client, campaign: Campaign) -> str:
    """Where a campaign can be watched."""
    return f"{client.url}/#/campaigns/{campaign.id}"
