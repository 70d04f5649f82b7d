"""The two clients. They differ in how they send and wait; the calls are those of ``calls``."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import cache, wraps
from types import MethodType, TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import httpx

from bccb.client import calls
from bccb.client.calls import Call
from bccb.client.tries import Tries
from bccb.errors import InputError
from bccb.files import written_whole

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", httpx.Client, httpx.AsyncClient)

URL = "http://127.0.0.1:8000"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
TIMEOUT, PATIENCE = 10.0, 30.0  # seconds


class _Method(Generic[P, T]):
    """A method of both clients, which makes the call that ``build`` builds."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...

    def __get__(self, client: Any, owner: type) -> Callable[..., Any]:
        method = _documented(self._build, issubclass(owner, AsyncClient))
        return method if client is None else MethodType(method, client)


@cache
def _documented(build: Callable[..., Call[Any]], awaited: bool) -> Callable[..., Any]:
    """The function of a method, with the documentation and signature of ``build``."""

    def waiting(self: Client, /, *given: Any, **named: Any) -> Any:
        return self._send(build(*given, **named))

    async def awaiting(self: AsyncClient, /, *given: Any, **named: Any) -> Any:
        return await self._send(build(*given, **named))

    method: Any = wraps(build)(awaiting if awaited else waiting)
    built = inspect.signature(build)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    answer = str(built.return_annotation).removeprefix("Call[").removesuffix("]")
    signature = built.replace(parameters=[this, *built.parameters.values()])
    method.__signature__ = signature.replace(return_annotation=answer)
    return cast("Callable[..., Any]", method)


class _Connected(ABC, Generic[H]):
    """Where the service is, and how long it is waited for."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
    ) -> None:
        self.url = _checked(url or os.environ.get("BCCB_URL") or URL)
        secret = key or os.environ.get("BCCB_KEY") or ""
        if not (secret.isascii() and secret.isprintable()):
            raise InputError("key", "hidden", "printable ASCII characters")
        self.timeout, self.patience = timeout, patience
        # Proxies of the environment are for other hosts than this one.
        own = httpx.URL(self.url).host in LOOPBACK
        said = {} if not secret else {"Authorization": f"Bearer {secret}"}
        self._http: H = self._open(base_url=self.url, headers=said, trust_env=not own)

    @abstractmethod
    def _open(self, **options: Any) -> H: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _tries(self, call: Call[T]) -> Tries[T]:
        return Tries(call, self.url, self.timeout, self.patience)

    create_campaign = _Method(calls.create_campaign)
    upload_learning = _Method(calls.upload_learning)
    campaigns = _Method(calls.campaigns)
    campaign = _Method(calls.campaign)
    report = _Method(calls.report)
    explanation = _Method(calls.explanation)
    pause = _Method(calls.pause)
    resume = _Method(calls.resume)
    close = _Method(calls.close)
    add_budget = _Method(calls.add_budget)
    decide = _Method(calls.decide)
    decide_many = _Method(calls.decide_many)
    decide_columns = _Method(calls.decide_columns)
    report_outcome = _Method(calls.report_outcome)
    report_outcomes = _Method(calls.report_outcomes)
    cancel = _Method(calls.cancel)
    correct = _Method(calls.correct)
    settle = _Method(calls.settle)
    download_log = _Method(calls.download_log)


def _checked(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise InputError("url", url, f"an address such as {URL}") from None
    if parsed.userinfo:
        raise InputError("url", parsed.host, "without a user or password: give a key")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InputError("url", url, f"an address such as {URL}")
    return url.rstrip("/")


class Client(_Connected[httpx.Client]):
    """The service, called and waited for; to be used from any number of threads.

    ``url`` and ``key`` default to ``BCCB_URL`` and ``BCCB_KEY``. A try is given up after
    ``timeout`` seconds without a byte (2 for the connection; 300 to open a campaign, since the
    service may have to compile its policy); where no answer came, or one that
    says "not now", the call is made again with the same ids, for up to ``patience`` seconds::

        with Client() as client:
            summer = client.create_campaign(
                "summer", budget=500, features=["age"], treatments=["email"], users=10_000
            )
            answer = client.decide(summer, features={"age": 41}, costs={"email": "0.77"})
            client.report_outcome(summer, answer.decision_id, 1)
    """

    def _open(self, **options: Any) -> httpx.Client:
        return httpx.Client(**options)

    def _send(self, call: Call[T]) -> T:
        tries = self._tries(call)
        while not tries.answers:
            time.sleep(tries.pause)
            try:
                response = self._http.send(tries.request(self._http), stream=True)
                try:
                    self._take(call, response)
                finally:
                    response.close()
            except httpx.TransportError as error:
                tries.failed(error)
            else:
                tries.answered(response)
        return tries.answers[0]

    @staticmethod
    def _take(call: Call[T], response: httpx.Response) -> None:
        if call.target is None or not response.is_success:
            response.read()
            return
        with written_whole(call.target) as draft, draft.open("wb") as file:
            for chunk in response.iter_bytes():
                file.write(chunk)

    def disconnect(self) -> None:
        """Close the connections; leaving a ``with`` block does it, too."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.disconnect()


class AsyncClient(_Connected[httpx.AsyncClient]):
    """The service, called and awaited: as :class:`Client`, in coroutines of asyncio.

    In an ``async with AsyncClient() as client`` block: ``answer = await client.decide(...)``.
    """

    def _open(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(**options)

    async def _send(self, call: Call[T]) -> T:
        tries = self._tries(call)
        while not tries.answers:
            await asyncio.sleep(tries.pause)
            try:
                response = await self._http.send(tries.request(self._http), stream=True)
                try:
                    await self._take(call, response)
                finally:
                    await response.aclose()
            except httpx.TransportError as error:
                tries.failed(error)
            else:
                tries.answered(response)
        return tries.answers[0]

    @staticmethod
    async def _take(call: Call[T], response: httpx.Response) -> None:
        if call.target is None or not response.is_success:
            await response.aread()
            return
        with written_whole(call.target) as draft, draft.open("wb") as file:
            async for chunk in response.aiter_bytes():
                file.write(chunk)

    async def disconnect(self) -> None:
        """Close the connections; leaving an ``async with`` block does it, too."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.disconnect()
