"""JSON Web Tokens (--auth-token jwt,…): what a login gives, what others sign, and what ends them."""
import base64
import hashlib
import hmac
import json
import subprocess
import time

import pytest
from etcd3 import etcdrpc

from harness import Server, auth
from harness.auth import OK, UNKNOWN_CALLER
from harness.certificates import Authority
from harness.kinds import KIND_LEASED, binary_of, clean_environment
from harness.rpc import CALL_SECONDS, Rpc

SECRET = b"of both"
TTL_SECONDS = 600


@pytest.fixture(name="secret_file")
def a_secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    return path


@pytest.fixture(name="rpc")
def a_client(secret_file):
    """Of a server with a user u, whose tokens are signed with a secret."""
    settings = f"jwt,sign-method=HS256,priv-key={secret_file},ttl={TTL_SECONDS}s"
    with Server(KIND_LEASED, extra_flags=["--auth-token", settings]) as server, Rpc(server) as rpc:
        auth.add_user(rpc, "u", "u's", [auth.permission(b"/a/", b"/a0")])
        yield rpc


def text_of(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=")


def part_of(text):
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def sign(secret=SECRET, method="HS256", **claims):
    message = b".".join(text_of(json.dumps(part).encode()) for part in ({"alg": method, "typ": "JWT"}, claims))
    return b".".join((message, text_of(hmac.digest(secret, message, hashlib.sha256)))).decode()


def revision_of(rpc, token):
    """Of users and roles: the third field of the answer, which python3-etcd3 does not know."""
    answer = auth.auth(rpc, "AuthStatus", token=token)
    assert answer[-2] == 0x18
    return answer[-1]


def put(rpc, token):
    request = etcdrpc.PutRequest(key=b"/a/x", value=b"v")
    return auth.outcome_of(lambda: rpc.kv.Put(request, metadata=[("token", token)], timeout=CALL_SECONDS))


def test_a_login_gives_a_token_with_etcds_claims(rpc):
    root = auth.enable(rpc)
    token = auth.log_in(rpc, "u", "u's")
    header, claims, _signature = token.split(".")
    assert part_of(header) == {"alg": "HS256", "typ": "JWT"}
    claims = part_of(claims)
    assert set(claims) == {"username", "revision", "exp"}
    assert claims["username"] == "u"
    assert claims["revision"] == revision_of(rpc, root)
    assert abs(claims["exp"] - TTL_SECONDS - time.time()) < 300
    assert put(rpc, token) == OK


def test_tokens_of_others_are_good_if_the_key_is_ours(rpc):
    root = auth.enable(rpc)
    revision = revision_of(rpc, root)
    later = int(time.time()) + 3600
    good = {"username": "u", "revision": revision, "exp": later}
    assert put(rpc, sign(**good)) == OK
    assert put(rpc, sign(**{**good, "secret": b"another"})) == UNKNOWN_CALLER
    assert put(rpc, sign(**{**good, "method": "none"})) == UNKNOWN_CALLER
    assert put(rpc, sign(**{**good, "exp": later - 7200})) == UNKNOWN_CALLER
    assert put(rpc, sign(**{**good, "nbf": later})) == UNKNOWN_CALLER
    assert put(rpc, sign(**{**good, "revision": revision - 1})) == UNKNOWN_CALLER
    assert put(rpc, sign(**{**good, "username": "nobody"})) == UNKNOWN_CALLER
    assert put(rpc, sign(exp=later)) == UNKNOWN_CALLER
    assert put(rpc, sign(**good)[:-2]) == UNKNOWN_CALLER


def test_a_change_of_users_ends_tokens(rpc):
    root = auth.enable(rpc)
    token = auth.log_in(rpc, "u", "u's")
    assert put(rpc, token) == OK
    auth.auth(rpc, "RoleAdd", etcdrpc.AuthRoleAddRequest(name="another"), root)
    assert put(rpc, token) == UNKNOWN_CALLER
    assert put(rpc, auth.log_in(rpc, "u", "u's")) == OK


def test_keys_of_a_certificate():
    with Authority() as authority:
        certificate, key = authority.sign("jwt")
        settings = f"jwt,pub-key={certificate},priv-key={key},sign-method=ES256"
        with Server(KIND_LEASED, extra_flags=["--auth-token", settings]) as server, Rpc(server) as rpc:
            token = auth.enable(rpc)
            assert part_of(token.split(".")[0])["alg"] == "ES256"
            assert put(rpc, token) == OK


def start(settings, folder):
    """A start that is expected to fail: the address is nobody's."""
    command = [binary_of(KIND_LEASED), "--data-dir", str(folder / "data"), "--auth-token", settings]
    command += ["--listen-client-urls", "http://127.255.255.255:1", "--allow-insecure"]
    return subprocess.run(command, env=clean_environment(), capture_output=True, timeout=60, check=False)


def test_settings_that_cannot_be_used_are_named(tmp_path):
    for settings, reason in (
        ("jwt", b"neither"),
        ("jwt,sign-method=RS256", b"are missing"),
        ("jwt,sign-method=HS256,priv-key=/nowhere", b"cannot read /nowhere"),
        ("jwt,sign-method=none,priv-key=/nowhere", b"sign-method is missing or unknown"),
    ):
        done = start(settings, tmp_path)
        assert done.returncode == 2
        assert b"--auth-token: " in done.stderr and reason in done.stderr
