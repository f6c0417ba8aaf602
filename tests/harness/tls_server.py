"""A server whose clients speak TLS, and what its clients need."""
import http.client
import os
import ssl

import grpc

from harness.server import Server


def server_files(authority, name="server", **how):
    """Flags with a certificate of this authority for a server on loopback."""
    certificate, key = authority.sign(name, common_name="server", **how)
    return ["--cert-file", certificate, "--key-file", key]


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
        def read(path):
            with open(path, "rb") as file:
                return file.read()

        certificate, key = self.client or (None, None)
        return grpc.ssl_channel_credentials(
            read(self.trusted), key and read(key), certificate and read(certificate)
        )

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
