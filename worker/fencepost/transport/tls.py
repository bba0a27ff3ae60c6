"""Whom a source must prove to be, and the certificate that we show to it."""

import ssl

from fencepost.errors import UsageError
from fencepost.settings import Source


def tls_of(name: str, source: Source) -> ssl.SSLContext | None:
    """Return the configured context of a source, None where nothing is configured.

    Raises UsageError with the setting and the file that is wrong; what the files hold is not shown.
    """
    if not source.tls_ca and not source.tls_cert:
        return None
    where = f"sources.{name}"
    try:
        context = ssl.create_default_context(cafile=source.tls_ca)
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}.tls_ca: {source.tls_ca}: {_described(error)}") from None
    if source.tls_cert:
        try:
            # A password, though there is none: without it a key that wants one asks the terminal.
            context.load_cert_chain(source.tls_cert, source.tls_key, password="")
        except (OSError, ValueError) as error:
            files = " with ".join(file for file in (source.tls_cert, source.tls_key) if file)
            raise UsageError(f"{where}.tls_cert: {files}: {_described(error)}") from None
    return context


def _described(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not the certificate's own"
    if isinstance(error, ssl.SSLError):
        return "not PEM, or a key with a password"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return "cannot be read"
