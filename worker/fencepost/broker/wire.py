"""What the broker's replies look like on the wire, as far as we read them."""

import msgspec


class ApiError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(msgspec.Struct):
    error: ApiError | None = None
    seq: int = 0


class RawMessage(msgspec.Struct):
    subject: str
    seq: int
    data: str = ""
    hdrs: str = ""
    time: str = ""


class GetReply(msgspec.Struct):
    error: ApiError | None = None
    message: RawMessage | None = None


class State(msgspec.Struct):
    subjects: dict[str, int] | None = None


class InfoReply(msgspec.Struct):
    error: ApiError | None = None
    total: int = 0
    state: State = msgspec.field(default_factory=State)


def parse_headers(raw: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in raw.decode("utf-8", "replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name] = value.strip()
    return headers
