"""Serves the metrics of a run, and its health and readiness."""

from __future__ import annotations

from email.message import Message
from http import HTTPStatus
from typing import ClassVar

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from latecomer.config.models import Pipeline
from latecomer.observe.figures import Figures
from latecomer.observe.server import Reply, Server

TOKEN = "LATECOMER_METRICS_TOKEN"  # noqa: S105


class ServedMetrics(Server):
    """The metrics of one run, from before it starts until it has ended: /metrics, /healthz and /readyz."""

    name, what, token_name, option = "metrics", "metrics are", TOKEN, "--metrics"
    path = "/metrics"
    headers: ClassVar = {"Connection": "close"}
    """A connection that is kept would be served after the run has ended."""

    def __init__(self, pipeline: Pipeline, host: str, port: int) -> None:
        self.failed = False
        """Whether the run has ended with an error."""
        super().__init__(host, port)
        self.figures = Figures(pipeline)
        self._registry = CollectorRegistry()
        self._registry.register(self.figures)

    def __exit__(self, *raised: object) -> None:
        self.failed = any(raised)
        self.figures.close()
        super().__exit__()

    def public(self, path: str) -> Reply | None:
        if path == "/healthz":
            return _whether(not self.failed, "ok", "failed")
        if path == "/readyz":
            return _whether(self.figures.is_ready and not self.failed, "ready", "not ready")
        if path != self.path:
            return Reply.refusal(HTTPStatus.NOT_FOUND, "ask for /metrics, /healthz or /readyz")
        return None

    def answer(self, path: str, query: str, headers: Message) -> Reply:
        encode, kind = choose_encoder(headers.get("Accept", ""))
        return Reply(encode(self._registry), kind)


def _whether(well: bool, yes: str, no: str) -> Reply:
    return Reply.of(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, status=yes if well else no)
