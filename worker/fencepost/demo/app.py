"""The fencepost side of the demo: the same work as the naive client, as a handler."""

import json
import os

import msgspec

from fencepost import Context, Fencepost

SINK_VARIABLE = "DEMO_SINK"

app = Fencepost("demo")


class Task(msgspec.Struct):
    idempotency_key: str
    title: str


class Params(msgspec.Struct):
    data: Task


class Notification(msgspec.Struct):
    """A task as an MCP server tells of it."""

    params: Params


@app.on("task.assigned", effect="once")
async def execute(task: Task, ctx: Context) -> None:
    line = json.dumps({"key": task.idempotency_key}) + "\n"
    descriptor = os.open(os.environ[SINK_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@app.on("notifications/message", effect="once")
async def execute_notified(notification: Notification, ctx: Context) -> None:
    await execute(notification.params.data, ctx)
