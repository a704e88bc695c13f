"""Certificates for servers of a test."""

import ssl
import subprocess
from pathlib import Path

from tests.rings import need


def server_and_trust(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server named `name` (`DNS:site.example`, `IP:127.0.0.1`) shows, and what trusts it."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x"
    said = f"-addext subjectAltName={name} -keyout {key} -out {cert}"
    need("openssl")
    subprocess.run(["openssl", *f"{made} {said}".split()], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=str(cert))
