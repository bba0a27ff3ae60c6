"""Certificates made for one test: an authority, and what it signs for servers and clients."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """Signs certificates into a folder; `ca` is its own."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _subject(name)
        own = self._builder(self._subject, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(_pem(own.sign(self._key, hashes.SHA256())))

    def sign(self, name: str, password: bytes | None = None) -> tuple[Path, Path]:
        """Return the paths of a certificate for this name or address, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            who: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            who = x509.DNSName(name)
        names = x509.SubjectAlternativeName([who])
        certificate = self._builder(_subject(name), key).add_extension(names, critical=False)
        stem = f"{self._name}-{name}"
        cert, private = self._folder / f"{stem}.pem", self._folder / f"{stem}.key"
        cert.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))
        locked = (
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption()
        )
        private.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
        )
        return cert, private

    def server(self, name: str, *, wants_client: bool = False) -> ssl.SSLContext:
        """Return what a server of this name speaks TLS with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.sign(name))
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(START)
            .not_valid_after(END)
        )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
