"""A server whose clients speak TLS, and the clients' side of it."""
import http.client
import ssl

from harness.server import Server


class TlsServer(Server):
    """Like Server, on https://. `files` are what clients are given: the authority's file, and a
    certificate with its key, or None."""

    def __init__(self, kind, authority, extra_flags=(), client=None, **how):
        self.certificate, self.key = authority.sign("server", common_name="server", **how)
        super().__init__(
            kind,
            extra_flags=["--cert-file", self.certificate, "--key-file", self.key, *extra_flags],
        )
        self.trusted = authority.certificate
        self.client = client

    @property
    def client_url(self):
        return f"https://{self.endpoint}"

    def etcdctl_flags(self, client=None):
        certificate, key = client or self.client or (None, None)
        flags = ["--endpoints", self.client_url, "--cacert", self.trusted]
        return flags + (["--cert", certificate, "--key", key] if certificate else [])

    def ssl_context(self, client=None):
        context = ssl.create_default_context(cafile=self.trusted)
        certificate = client or self.client
        if certificate:
            context.load_cert_chain(*certificate)
        return context

    def http_get(self, path, timeout_s=2.0):
        connection = http.client.HTTPSConnection(
            self.host, self.client_port, timeout=timeout_s, context=self.ssl_context()
        )
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
