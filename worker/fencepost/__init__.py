"""Workers on NATS JetStream that act once on SSE events, or ask first."""

from fencepost.app import Fencepost
from fencepost.handler import Context, NotApplied, Reject, Retry
from fencepost_schemas.verdict import Gap

__version__ = "0.1.0"
__all__ = ["Context", "Fencepost", "Gap", "NotApplied", "Reject", "Retry", "__version__"]
