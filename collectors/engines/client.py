"""Requests to one server: bounded in time and size, never redirected, and with errors that say what to do."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tracekit.errors import TracekitError, UsageError

MAX_ANSWER = 16 << 20
"""Longest answer that is read [byte]."""
_SHOWN = 160


class ServerError(TracekitError):
    """The server cannot be reached, refuses, or does not answer in time.

    Args:
        what: The request, and what came of it, in one line.
        hint: What the reader can do next.
        status: The HTTP status, where there was an answer.
        lost: The connection ended without an answer.
    """

    code = "server"

    def __init__(self, what: str, *, hint: str = "", status: int | None = None, lost: bool = False) -> None:
        super().__init__(what, hint=hint)
        self.status = status
        self.lost = lost


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other refusal: it may lead to another host, key and all."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


class Client:
    """One server.

    Args:
        url: Scheme, host and port, and a path in front of the endpoints where there is one.
        api_key: Sent as a bearer token.
        timeout_s: Longest wait for a connection and between two parts of an answer [s].

    Raises:
        UsageError: The URL is not one of HTTP, or holds a name and password.
    """

    def __init__(self, url: str, api_key: str | None = None, timeout_s: float = 120.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(
                f"--url {url!r} is not the address of a server", hint="such as http://127.0.0.1:8000"
            )
        if parts.username or parts.password or parts.query or parts.fragment:
            hint = "give scheme, host and port alone, and a key in an environment variable (--api-key-env)"
            raise UsageError("--url holds more than an address", hint=hint)
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.timeout_s = timeout_s
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def get(self, path: str, timeout_s: float | None = None) -> Any:
        """The JSON at a path.

        Raises:
            ServerError: No answer, a refusal, or no JSON.
        """
        with self._open("GET", path, None, timeout_s) as answer:
            return self._json(path, self._read("GET", path, answer, timeout_s))

    def post(self, path: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None) -> str:
        """The answer to a body, as text.

        Raises:
            ServerError: No answer, or a refusal.
        """
        with self._open("POST", path, body, timeout_s) as answer:
            return self._read("POST", path, answer, timeout_s).decode("utf-8", "replace")

    def stream(self, path: str, body: Mapping[str, Any], timeout_s: float | None = None) -> Iterator[Any]:
        """The server-sent events that answer a body: the JSON of each, as it comes.

        Raises:
            ServerError: No answer, a refusal, or an end before the last event.
        """
        limit = timeout_s or self.timeout_s
        until = time.monotonic() + limit
        with self._open("POST", path, body, limit) as answer:
            while line := answer.readline(MAX_ANSWER):
                if time.monotonic() > until:
                    raise self._slow("POST", path, limit)
                text = line.decode("utf-8", "replace").strip()
                if text == "data: [DONE]":
                    return
                if text.startswith("data:"):
                    yield self._json(path, text.removeprefix("data:").encode())
        raise ServerError(f"POST {path}: the answer ended before its last token", lost=True)

    def _read(
        self, method: str, path: str, answer: http.client.HTTPResponse, timeout_s: float | None
    ) -> bytes:
        """The answer's body; a server that sends a byte now and then does not keep us."""
        limit = timeout_s or self.timeout_s
        until = time.monotonic() + limit
        parts: list[bytes] = []
        size = 0
        while part := answer.read1(1 << 16):
            parts.append(part)
            size += len(part)
            if time.monotonic() > until:
                raise self._slow(method, path, limit)
            if size > MAX_ANSWER:
                raise ServerError(f"{method} {path}: the answer is longer than {MAX_ANSWER >> 20} MiB")
        return b"".join(parts)

    def _json(self, path: str, data: bytes) -> Any:
        try:
            return json.loads(data)
        except ValueError as error:
            raise ServerError(
                f"{path}: the answer is not JSON", hint="is this the engine's own port?"
            ) from error

    @contextmanager
    def _open(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        limit = timeout_s or self.timeout_s
        headers = {"Content-Type": "application/json", **self._headers}
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 - http(s) alone, checked above
        try:
            with self._opener.open(request, timeout=limit) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(method, path, error) from error
        except TimeoutError as error:
            raise self._slow(method, path, limit) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            raise self._unreachable(method, path, limit, error) from error

    def _slow(self, method: str, path: str, limit: float) -> ServerError:
        hint = "wait longer (--timeout, --stop-timeout), or record fewer steps"
        return ServerError(f"{method} {path}: no answer within {limit:g} s", hint=hint)

    def _unreachable(self, method: str, path: str, limit: float, error: Exception) -> ServerError:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            return self._slow(method, path, limit)
        if isinstance(reason, ConnectionRefusedError):
            hint = "start the server, and wait until it says that it is ready"
            return ServerError(f"{method} {path}: nothing listens at the URL", hint=hint, lost=True)
        words = str(reason) or type(reason).__name__
        hint = "look at the server's own log"
        return ServerError(f"{method} {path}: the connection was lost ({words})", hint=hint, lost=True)


def _refused(method: str, path: str, error: urllib.error.HTTPError) -> ServerError:
    said = " ".join(_message(error.read(MAX_ANSWER)).split())[:_SHOWN]
    hints = {
        400: "shorten --prompt-len, --kv-len or --decode-steps to what the server takes",
        401: "put the server's key in an environment variable, and name it with --api-key-env",
        403: "put the server's key in an environment variable, and name it with --api-key-env",
        404: "is this the engine that --engine names, and its own port?",
    }
    what = f"{method} {path}: the server answered {error.code}" + (f" ({said})" if said else "")
    if error.code in range(300, 400):
        what = f"{method} {path}: the server redirects ({error.code}), and redirects are not followed"
        return ServerError(what, hint="give the address that it redirects to", status=error.code)
    return ServerError(what, hint=hints.get(error.code, "look at the server's own log"), status=error.code)


def _message(data: bytes) -> str:
    """What an error document says, or the answer as it is."""
    text = data.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except ValueError:
        return text
    inner = document.get("error", document) if isinstance(document, dict) else document
    said = inner.get("message") if isinstance(inner, dict) else inner
    return said if isinstance(said, str) else text
