"""The peers that can do the job of a replay: scikit-learn and Vowpal Wabbit."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

import bccb


class ScikitLearn:
    """Two ``SGDClassifier``s, fitted further with each batch of an arm's observations.

    Its steps are those of bccb's two-model estimator: the same features, as they come, the same
    order of observations, and scores from the weights as they were after the last whole batch.
    """

    def __init__(self, log: bccb.Log, parameters: dict[str, float]) -> None:
        classifier = import_module("sklearn.linear_model").SGDClassifier
        alpha, self.batch = parameters["alpha"], int(parameters["refresh"])
        self.models: list[Any] = [
            classifier(loss="log_loss", alpha=alpha, shuffle=False) for _ in range(2)
        ]
        self.waiting: list[list[tuple[Any, float]]] = [[], []]
        self.features = log.features

    def see(self, row: int) -> None:
        """Take the user's features."""
        self.x = self.features[row]

    def effect(self) -> float:
        """f_1(x) - f_0(x)"""
        control, treated = (model.predict_proba(self.x[None])[0, 1] for model in self.models)
        return float(treated - control)

    def learn(self, arm: int, outcome: float) -> None:
        """Keep the observation; fit when the arm's batch is full."""
        waiting = self.waiting[arm]
        waiting.append((self.x, outcome))
        if len(waiting) == self.batch:
            x, y = zip(*waiting, strict=True)
            self.models[arm].partial_fit(np.array(x), np.array(y), classes=[0.0, 1.0])
            waiting.clear()


class VowpalWabbit:
    """Two logistic models; the text of every user, label and all, is written before the clock.

    It is parsed once for both predictions and the learning, by one ``Workspace`` for both: their
    hashes are the same. To parse all users before the clock is not an option, because an example
    takes 31 KB. Vowpal Wabbit scales features by itself, and needs no batches.
    """

    def __init__(self, texts: list[str]) -> None:
        vowpal: Any = import_module("vowpalwabbit")
        options = "--quiet --loss_function logistic --link logistic"
        self.control, self.treated = self.models = [vowpal.Workspace(options) for _ in range(2)]
        self.scalar = vowpal.PredictionType.SCALAR
        self.texts = texts
        self.example: Any = None

    def see(self, row: int) -> None:
        """Parse the user's text, once the last one's example is given back."""
        if self.example is not None:
            self.control.finish_example(self.example)
        self.example = self.control.parse(self.texts[row])

    def effect(self) -> float:
        """f_1(x) - f_0(x)"""
        example, scalar = self.example, self.scalar
        treated: float = self.treated.predict(example, scalar)
        control: float = self.control.predict(example, scalar)
        return treated - control

    def learn(self, arm: int, outcome: float) -> None:
        """One step of the arm's model: the example carries its label."""
        self.models[arm].learn(self.example)


def labelled_texts(log: bccb.Log) -> list[str]:
    """Every user in Vowpal Wabbit's text format, labelled with the outcome."""
    labels = np.where(log.outcomes > 0, "1 ", "-1 ").tolist()
    return [label + text for label, text in zip(labels, texts_of(log), strict=True)]


def texts_of(log: bccb.Log) -> list[str]:
    """Every user in Vowpal Wabbit's text format, without a label."""
    form = "|x " + " ".join(f"{name}:%.6g" for name in log.feature_names)
    return [form % tuple(row) for row in log.features.tolist()]
