"""A server whose clients speak TLS, and what its clients need."""
import http.client
import os
import ssl

import grpc

from harness.ports import free_ports
from harness.server import Server


def server_files(authority, name="server", **how):
    """Flags with a certificate of this authority for a server on loopback."""
    certificate, key = authority.sign(name, common_name="server", **how)
    return ["--cert-file", certificate, "--key-file", key]


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def credentials_of(trusted, client=None):
    """For gRPC: the authority's file, and a certificate and key to show."""
    certificate, key = client or (None, None)
    return grpc.ssl_channel_credentials(
        _read(trusted), key and _read(key), certificate and _read(certificate)
    )


class TlsSide:
    """What Rpc needs to know of the TLS listener of a server."""

    def __init__(self, port, trusted):
        self.port = port
        self.endpoint = f"127.0.0.1:{port}"
        self.trusted = trusted

    def grpc_credentials(self):
        return credentials_of(self.trusted)


class BothServer(Server):
    """Plain on its usual port, and TLS on another: `tls`."""

    def __init__(self, kind, authority):
        super().__init__(kind, extra_flags=server_files(authority))
        self.tls = TlsSide(free_ports(1)[0], authority.certificate)

    def flags(self):
        flags = super().flags()
        flags[flags.index("--listen-client-urls") + 1] += f",https://{self.tls.endpoint}"
        return flags


class TlsServer(Server):
    """Serves clients over TLS as `flags` say. Its clients trust the file `trusted` (None: whatever it
    shows) and show the certificate `client`, a pair of files (None: none)."""

    def __init__(self, kind, flags, trusted=None, client=None):
        super().__init__(kind, extra_flags=flags)
        self.trusted = trusted
        self.client = client

    @property
    def client_url(self):
        return f"https://{self.endpoint}"

    @property
    def own_certificate(self):
        """Where --auto-tls puts it."""
        return os.path.join(self.data_dir, "fixtures", "client", "cert.pem")

    def client_flags(self, client=None):
        """Of etcdctl and lease."""
        skip = ["--insecure-skip-tls-verify", "--insecure-transport=false"]
        flags = ["--cacert", self.trusted] if self.trusted else skip
        pair = client or self.client
        return flags + (["--cert", pair[0], "--key", pair[1]] if pair else [])

    def grpc_credentials(self):
        return credentials_of(self.trusted, self.client)

    def http_get(self, path, timeout_s=2.0):
        context = ssl._create_unverified_context()  # pylint: disable=protected-access
        if self.trusted:
            context = ssl.create_default_context(cafile=self.trusted)
        if self.client:
            context.load_cert_chain(*self.client)
        connection = http.client.HTTPSConnection(
            self.host, self.client_port, timeout=timeout_s, context=context
        )
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
