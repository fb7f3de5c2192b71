"""The load: rounds of requests with random prompts of exact lengths, all of a round at once."""

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from collectors.engines.client import ServerError
from collectors.engines.servers import Server
from tracekit.errors import UsageError

MAX_BATCH = 512
"""Most requests at once: a thread each."""

_LOOK_S = 0.2

# Token ids that every vocabulary has, clear of the special ones at its start.
_LOWEST, _HIGHEST = 10, 1000


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one load.

    Attributes:
        load: `warmup`, `prefill`, `decode` or `mixed`.
        requests: Requests sent.
        prompt_tokens: Tokens of each prompt.
        output_tokens: Tokens asked for by each.
        seconds: From the first request to the last answer [s].
    """

    load: str
    requests: int
    prompt_tokens: int
    output_tokens: int
    seconds: float


class Prompts:
    """Random prompts, the same for a seed; no two alike, so that no prefix cache serves one from another.

    State: the random generator.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - tokens, not secrets

    def take(self, count: int, tokens: int) -> list[list[int]]:
        """The next prompts."""
        return [[self._random.randrange(_LOWEST, _HIGHEST) for _ in range(tokens)] for _ in range(count)]


def check_batch(batch: int) -> None:
    """Refuse more requests at once than there may be threads.

    Raises:
        UsageError: There are more.
    """
    if batch > MAX_BATCH:
        raise UsageError(
            f"--batch {batch}: at most {MAX_BATCH} requests are sent at once", hint="lower --batch"
        )


def round_of(server: Server, load: str, prompts: Sequence[Sequence[int]], output_tokens: int) -> Sent:
    """Send a round of requests and wait for all answers.

    Raises:
        ServerError: A request failed; the others are waited for no longer than their own time-outs.
    """
    running = Running(server, load, prompts, output_tokens)
    return running.finish()


class Running:
    """A round of requests under way, a thread each.

    State: the threads, and how many requests have had their first token.
    """

    def __init__(
        self, server: Server, load: str, prompts: Sequence[Sequence[int]], output_tokens: int
    ) -> None:
        self._load = (load, len(prompts), len(prompts[0]), output_tokens)
        self._began = time.monotonic()
        self._waiting = len(prompts)
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(len(prompts), thread_name_prefix="tracekit-load")
        self._answers: list[Future[None]] = [
            self._pool.submit(self._one, server, prompt, output_tokens) for prompt in prompts
        ]

    def _one(self, server: Server, prompt: Sequence[int], output_tokens: int) -> None:
        first = True
        for _ in server.tokens(prompt, output_tokens):
            if first:
                first = False
                self._arrived()
            if self._stop.is_set():
                return

    def _arrived(self) -> None:
        with self._changed:
            self._waiting -= 1
            self._changed.notify_all()

    def until_decoding(self, timeout_s: float) -> None:
        """Wait until every request has its first token: from there on all steps are decode.

        Raises:
            ServerError: A request failed, or the time is over.
        """
        until = time.monotonic() + timeout_s
        with self._changed:
            while self._waiting > 0 and not self._is_over():
                self._changed.wait(min(_LOOK_S, max(0.0, until - time.monotonic())))
                if self._waiting > 0 and time.monotonic() > until:
                    hint = "lower --batch or --kv-len, or wait longer (--timeout)"
                    raise ServerError(f"not all requests had a token within {timeout_s:g} s", hint=hint)
        if self._waiting > 0:
            self.finish()
            raise ServerError("a request was answered without a token", hint="look at the server's own log")

    def _is_over(self) -> bool:
        """Whether a request failed, or all have ended."""
        failed = any(answer.done() and answer.exception() is not None for answer in self._answers)
        return failed or self.ended() == len(self._answers)

    def ended(self) -> int:
        """How many requests have their whole answer."""
        return sum(answer.done() for answer in self._answers)

    def finish(self) -> Sent:
        """Wait for all answers.

        Raises:
            ServerError: A request failed.
        """
        try:
            done, _ = wait(self._answers, return_when=FIRST_EXCEPTION)
            for answer in done:
                answer.result()
        finally:
            # After a failure the others end at their next token, or at their time-out.
            self._stop.set()
            self._pool.shutdown(wait=True, cancel_futures=True)
        load, requests, prompt_tokens, output_tokens = self._load
        return Sent(load, requests, prompt_tokens, output_tokens, time.monotonic() - self._began)

    def abandon(self) -> None:
        """Let the requests end at their next token, and wait for none of them."""
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


def slack_tokens(batch: int, kv_len: int) -> int:
    """Tokens a request may decode while the others' prompts are computed and the profile starts.

    An engine computes prompts in chunks of a few hundred tokens at least, and decodes what it has beside each.
    """
    smallest_chunk = 512
    return 8 + -(-batch * kv_len // smallest_chunk)
