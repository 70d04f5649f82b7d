"""What goes over HTTP, for the service and its clients alike. Money is decimal text, names are the
client's.

From these types follow how bodies and answers are read and written, and the OpenAPI document.
"""

from bccb.wire.campaigns import (
    BudgetRequest,
    Campaign,
    CampaignList,
    CampaignRequest,
    Caused,
    Figure,
    PolicyChoice,
    PolicyRequest,
)
from bccb.wire.coding import decoder, encode
from bccb.wire.decisions import (
    DecisionAnswer,
    DecisionColumns,
    DecisionColumnsAnswer,
    DecisionRequest,
    DecisionState,
    OutcomeAnswer,
    OutcomeItem,
    OutcomeRequest,
    PlainDecisionRequest,
    SettleRequest,
)
from bccb.wire.features import FeatureChoice, FeatureRequest, FeatureValue
from bccb.wire.fields import (
    ID,
    MONEY,
    MOST_BATCH,
    MOST_FEATURES,
    MOST_TREATMENTS,
    NAME,
    Answer,
    Body,
    DecisionId,
    Money,
    MoneyText,
    in_python,
)
from bccb.wire.horizons import Horizon, TimeHorizon, UsersHorizon, horizon_type
from bccb.wire.problems import Health, Problem
from bccb.wire.reports import (
    ArmDelays,
    ArmFigures,
    CausedSeries,
    Delays,
    Report,
    Series,
)

__all__ = [
    "ID",
    "MONEY",
    "MOST_BATCH",
    "MOST_FEATURES",
    "MOST_TREATMENTS",
    "NAME",
    "Answer",
    "ArmDelays",
    "ArmFigures",
    "Body",
    "BudgetRequest",
    "Campaign",
    "CampaignList",
    "CampaignRequest",
    "Caused",
    "CausedSeries",
    "DecisionAnswer",
    "DecisionColumns",
    "DecisionColumnsAnswer",
    "DecisionId",
    "DecisionRequest",
    "DecisionState",
    "Delays",
    "FeatureChoice",
    "FeatureRequest",
    "FeatureValue",
    "Figure",
    "Health",
    "Horizon",
    "Money",
    "MoneyText",
    "OutcomeAnswer",
    "OutcomeItem",
    "OutcomeRequest",
    "PlainDecisionRequest",
    "PolicyChoice",
    "PolicyRequest",
    "Problem",
    "Report",
    "Series",
    "SettleRequest",
    "TimeHorizon",
    "UsersHorizon",
    "decoder",
    "encode",
    "horizon_type",
    "in_python",
]
