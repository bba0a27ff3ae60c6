"""Ask for a source's credentials: an environment variable, a file, or what a command prints.

Neither the token nor anything that a command says is ever part of an error.
"""

import asyncio
import os
import signal
import stat
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from fencepost.ports import SourceUnreachable
from fencepost.settings import sendable_value
from fencepost.settings_credentials import Credentials
from fencepost_schemas.limits import HEADER_VALUE_BYTES_MAX


class Token(msgspec.Struct, frozen=True):
    """A header's value, and how many times had been asked when it came."""

    value: str
    number: int


class NoToken(SourceUnreachable):
    """The credentials cannot be had now. Passing: a file may come, a command may work again."""


class Provider:
    """The credentials of one source, which all its connections share."""

    def __init__(
        self, credentials: Credentials, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.header = credentials.header
        self._credentials = credentials
        self._environment = environment
        self._asking = asyncio.Lock()
        self._token: Token | None = None
        self._good_until_s = 0.0

    async def token(self) -> Token:
        """Return the token of now; raise NoToken where there is none."""
        async with self._asking:
            if self._token is not None and _now_s() < self._good_until_s:
                return self._token
            return await self._ask()

    async def renewed(self, refused: Token) -> Token:
        """Return another token after a refusal, if there is one; raise NoToken where there is none.

        However many connections were refused at once, one of them asks for all.
        """
        async with self._asking:
            if self._token is not None and self._token.number != refused.number:
                return self._token
            return await self._ask()

    async def _ask(self) -> Token:
        number = self._token.number + 1 if self._token is not None else 1
        found = self._credentials
        if found.command:
            text = await _printed_by(found.command, found.command_s)
        elif found.file:
            text = _text_of(found.file)
        else:
            text = self._environment.get(found.env, "")
        text = text.strip()
        if not text:
            raise NoToken(f"has no credentials: {_place(found)} has nothing in it")
        value = f"{found.scheme} {text}" if found.scheme else text
        if not sendable_value(value):
            raise NoToken(f"has no credentials: {_place(found)} has what no header can hold")
        self._token = Token(value, number)
        self._good_until_s = _now_s() + found.keep_s if found.command else 0.0
        return self._token


def _place(credentials: Credentials) -> str:
    if credentials.command:
        return "the output of credentials.command"
    return f"the file {credentials.file}" if credentials.file else f"variable {credentials.env}"


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _text_of(file: str) -> str:
    """Return the text of a file; a pipe or a device is none, for it may never end."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise NoToken(f"has no credentials: {file} is no regular file")
        with open(file, "rb") as opened:
            return _decoded(opened.read(HEADER_VALUE_BYTES_MAX + 1), f"the file {file}")
    except FileNotFoundError:
        raise NoToken(f"has no credentials: there is no file {file}") from None
    except OSError:
        raise NoToken(f"has no credentials: the file {file} cannot be read") from None


def _decoded(text: bytes, place: str) -> str:
    if len(text) > HEADER_VALUE_BYTES_MAX:
        raise NoToken(f"has no credentials: {place} is longer than {HEADER_VALUE_BYTES_MAX} bytes")
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise NoToken(f"has no credentials: {place} is no text") from None


async def _printed_by(command: tuple[str, ...], limit_s: float) -> str:
    """Return what a command prints; its input is empty, and what it complains of is nobody's."""
    shown = "credentials.command"
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        raise NoToken(f"has no credentials: {shown} cannot be run") from None
    try:
        async with asyncio.timeout(limit_s):
            printed = await _read(process)
            # One that goes on after too much would wait for somebody to read it.
            text = _decoded(printed, f"the output of {shown}")
            code = await process.wait()
    except TimeoutError:
        raise NoToken(f"has no credentials: {shown} did not end within {limit_s:g} s") from None
    finally:
        await _end(process)
    if code != 0:
        raise NoToken(f"has no credentials: {shown} failed with code {code}")
    return text


async def _read(process: asyncio.subprocess.Process) -> bytes:
    """Return the output up to its end, or one byte more than is taken."""
    assert process.stdout is not None
    printed = b""
    while len(printed) <= HEADER_VALUE_BYTES_MAX:
        more = await process.stdout.read(HEADER_VALUE_BYTES_MAX + 1 - len(printed))
        if not more:
            break
        printed += more
    return printed


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the command and all that it started: they have a session of their own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
