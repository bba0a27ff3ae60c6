"""Users and permissions for a broker of a test, as its configuration takes them."""

import json
from typing import Any


def users(**permissions: Any) -> str:
    """Return the configuration of `admin`, who may all, and of `role` with these permissions.

    Both have the password "pw"; `publish` and `subscribe` take "allow" and "deny" lists.
    """
    role: dict[str, Any] = {"user": "role", "password": "pw"}
    if permissions:
        role["permissions"] = permissions
    return "authorization: " + json.dumps({"users": [{"user": "admin", "password": "pw"}, role]})
