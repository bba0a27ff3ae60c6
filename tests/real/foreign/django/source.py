"""A source on django-eventstream, as its README builds one; it runs in an environment of its own.

What happens is told to it by POST, a route each. A key is noted in a file before it is sent: that
is what a test compares with. With `--storage kept` its database outlives the process, with `lost`
each process begins with an empty one, as a container without a volume does.
"""

import argparse
import asyncio
import json
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import django
import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path
from django.utils import timezone

CHANNEL = "events"
TYPE = "note"
LONG_AGO = timedelta(days=2)
"""Past the day after which django-eventstream trims its log."""

urlpatterns: list[Any] = []


def configure(database: Path, *, storage: bool) -> None:
    kept = {"EVENTSTREAM_STORAGE_CLASS": "django_eventstream.storage.DjangoModelStorage"}
    settings.configure(
        SECRET_KEY="of a test",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        INSTALLED_APPS=["django_eventstream"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(database)}},
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        USE_TZ=True,
        **(kept if storage else {}),
    )
    django.setup()


class Source:
    def __init__(self, log: Path, window: int, *, storage: bool) -> None:
        self._log = log.open("a", buffering=1, encoding="utf-8")
        self._window = window
        self._storage = storage

    def urls(self) -> list[Any]:
        follow = path("events/", include("django_eventstream.urls"), {"channels": [CHANNEL]})
        told: list[Callable[[HttpRequest], HttpResponse]] = [self.emit, self.forget]
        return [follow, *(path(one.__name__, one) for one in told)]

    def emit(self, request: HttpRequest) -> HttpResponse:
        from django_eventstream import send_event

        for key in json.loads(request.body)["keys"]:
            self._log.write(key + "\n")
            send_event(CHANNEL, TYPE, {"k": key})
        if self._storage:
            self._trim()
        return JsonResponse({})

    def forget(self, request: HttpRequest) -> HttpResponse:
        """Lose all that is in the database, its counters included."""
        from django_eventstream.models import Event, EventCounter

        if self._storage:
            Event.objects.all().delete()
            EventCounter.objects.all().delete()
        return JsonResponse({})

    def _trim(self) -> None:
        """Have its own trimming take what is past the window: it goes by age, so age is given."""
        from django_eventstream.models import Event
        from django_eventstream.storage import DjangoModelStorage

        last = Event.objects.order_by("-eid").values_list("eid", flat=True)[0]
        past = Event.objects.filter(eid__lte=last - self._window)
        past.update(created=timezone.now() - LONG_AGO)
        DjangoModelStorage().trim_event_log()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True, help="an inherited, listening socket")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--storage", choices=("kept", "lost", "none"), required=True)
    parser.add_argument("--window", type=int, default=1_000)
    given = parser.parse_args()
    database = given.log.with_name("database")
    if given.storage == "lost":
        database.unlink(missing_ok=True)
    storage = given.storage != "none"
    configure(database, storage=storage)
    if storage:
        call_command("migrate", verbosity=0)
    urlpatterns.extend(Source(given.log, given.window, storage=storage).urls())
    config = uvicorn.Config(get_asgi_application(), log_level="warning", lifespan="off")
    asyncio.run(uvicorn.Server(config).serve(sockets=[socket.socket(fileno=given.fd)]))


if __name__ == "__main__":
    main()
