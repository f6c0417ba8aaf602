"""Certificates made for one test by openssl: an authority, and what it signs.

Each authority lives in a folder of its own, removed with it. Valid from now on, unless told otherwise.
"""
import os
import shutil
import subprocess
import tempfile

LOOPBACK = "IP:127.0.0.1"
DAYS = 2
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Authority:
    """Use as a context manager. Two of them have the same name: only the keys tell them apart."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="leased-test-ca-")
        self.certificate = self._path("ca.crt")
        self._key = self._path("ca.key")
        _openssl("req", "-x509", *_KEY, "-subj", "/CN=test authority", "-days", str(DAYS),
                 "-keyout", self._key, "-out", self.certificate)  # fmt: skip

    def _path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, name, common_name="member", alternative_names=LOOPBACK, days=DAYS):
        """(certificate, key) for a member; days may be negative: it has expired then. Signed anew
        under an old name it takes the place of the old one in a single step."""
        certificate, key = self._path(f"{name}.crt"), self._path(f"{name}.key")
        request, extensions = self._path(f"{name}.csr"), self._path(f"{name}.ext")
        with open(extensions, "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={alternative_names}\n")
        _openssl("req", *_KEY, "-subj", f"/CN={common_name}", "-keyout", key + ".new", "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
                 "-CAcreateserial", "-days", str(days), "-extfile", extensions,
                 "-out", certificate + ".new")  # fmt: skip
        os.replace(key + ".new", key)
        os.replace(certificate + ".new", certificate)
        return certificate, key

    def revoke(self, *certificates):
        """The path of a list of revoked certificates, which takes the place of an earlier one."""
        path, index, config = self._path("crl.pem"), self._path("index"), self._path("ca.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write("[ca]\ndefault_ca=one\n[one]\n"
                       f"database={index}\ndefault_md=sha256\ndefault_crl_days={DAYS}\n")
        if not os.path.exists(index):
            open(index, "w", encoding="utf-8").close()  # pylint: disable=consider-using-with
        signer = ["-config", config, "-cert", self.certificate, "-keyfile", self._key]
        for certificate in certificates:
            _openssl("ca", *signer, "-revoke", certificate)
        _openssl("ca", *signer, "-gencrl", "-out", path + ".new")
        os.replace(path + ".new", path)
        return path

    def flags(self, name, trusted=None, **how):
        """What a member with a certificate of ours is started with."""
        certificate, key = self.sign(name, **how)
        return ["--peer-cert-file", certificate, "--peer-key-file", key,
                "--peer-trusted-ca-file", (trusted or self).certificate]  # fmt: skip

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
